"""Trace a training step of PyTorch: ``python torch_step.py PRECISION WIDTH OUT.json``; bfloat16, tf32 or float32.

Convolutions and four transformer blocks, whose width may be odd, with stacks, modules and shapes recorded.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IMAGES, SIDE, BLOCKS = 32, 128, 4


class Block(nn.Module):  # type: ignore[misc]
    """Attention and perceptron, each behind a normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        head = 64 if width % 64 == 0 else width // 2
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, -1, head).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.proj(attended)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):  # type: ignore[misc]
    """An image classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        last = 256 if width % 8 == 0 else 250
        layers = [nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1)]
        self.stem = nn.Sequential(*layers, nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, last, 3, 2, 1), nn.ReLU())
        self.embed, self.head = nn.Linear(last, width), nn.Linear(width, 1000)
        self.blocks = nn.ModuleList(Block(width) for _ in range(BLOCKS))

    def forward(self, x: Any) -> Any:
        x = self.embed(self.stem(x).flatten(2).transpose(1, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def main(precision: str, width: int, out: str) -> None:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "float32"
    net = Net(width).cuda()
    x = torch.randn(IMAGES, 3, SIDE, SIDE, device="cuda")
    y = torch.randint(0, 1000, (IMAGES,), device="cuda")
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4)
    plan = torch.profiler.schedule(wait=2, warmup=3, active=3)
    what: Any = {"record_shapes": True, "with_stack": True, "with_modules": True, "schedule": plan}
    with torch.profiler.profile(**what, on_trace_ready=lambda made: made.export_chrome_trace(out)) as profiler:
        for _ in range(8):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bfloat16"):
                loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
