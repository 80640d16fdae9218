"""Train through PyTorch, eager: automatic mixed precision, or float32 with TF32; Kineto records it."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .base import BFLOAT16, DISCRIMINATOR, DROPOUT, FLOAT16, GAN, GENERATOR, NOISE, RATES, TF32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .base import Sizes

FILE = "trace.json"
BFLOAT16_SINCE = (8, 0)  # compute capability; PyTorch emulates it before


class TorchSession:
    """PyTorch on the first GPU, or on the CPU where there is none."""

    def __init__(self, model: str, precision: str, sizes: Sizes) -> None:
        self._torch: Any = importlib.import_module("torch")
        torch = self._torch
        self.notes: list[str] = []
        self.on_gpu = sees_gpu()
        self.device = torch.device("cuda" if self.on_gpu else "cpu")
        self.precision = precision
        if precision == BFLOAT16 and self.on_gpu and torch.cuda.get_device_capability() < BFLOAT16_SINCE:
            self.precision = FLOAT16
            self.notes.append("the GPU does not multiply bfloat16; float16 instead")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.manual_seed(0)
        make = gan if model == GAN else transformer
        self._step: Callable[[], None] = make(self, sizes)

    def mixed(self) -> Any:
        """Return the context in which the forward pass runs."""
        on = self.precision != TF32
        dtype = getattr(self._torch, self.precision) if on else None
        return self._torch.autocast(self.device.type, dtype=dtype, enabled=on)

    def step(self, number: int) -> Any:
        torch = self._torch
        with torch.profiler.record_function(f"ProfilerStep#{number}"):
            self._step()
        if not self.on_gpu:
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def wait(self, begun: Any) -> None:
        if begun is not None:
            begun.synchronize()

    def sync(self) -> None:
        if self.on_gpu:
            self._torch.cuda.synchronize()

    def peak_memory(self) -> int | None:
        return int(self._torch.cuda.max_memory_allocated()) if self.on_gpu else None

    @contextmanager
    def recorded(self, folder: Path) -> Iterator[None]:
        profiler = self._torch.profiler
        kinds = profiler.ProfilerActivity
        activities = [kinds.CPU, kinds.CUDA] if self.on_gpu else [kinds.CPU]
        with profiler.profile(activities=activities, record_shapes=True) as profile:
            yield
        profile.export_chrome_trace(str(folder / FILE))


def gan(session: TorchSession, sizes: Sizes) -> Callable[[], None]:
    """Return a step of the GAN: it updates the generator, then the discriminator."""
    torch = importlib.import_module("torch")
    generator, discriminator = (
        net.to(session.device, memory_format=torch.channels_last).train()
        for net in (_generator(torch), _discriminator(torch))
    )
    for_generator = torch.optim.Adam(generator.parameters(), lr=RATES[0])
    for_discriminator = torch.optim.RMSprop(discriminator.parameters(), lr=RATES[1])
    images = torch.rand(sizes.batch, 1, 28, 28, device=session.device).to(memory_format=torch.channels_last)

    def loss(logits: Any, label: float) -> Any:
        logits = logits.float()
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))

    def fake() -> Any:
        return discriminator(generator(torch.rand(sizes.batch, NOISE, device=session.device) * 2 - 1))

    def update(optimizer: Any, net: Any, cost: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        cost.backward(inputs=list(net.parameters()))
        optimizer.step()

    def step() -> None:
        with session.mixed():
            cost = loss(fake(), 1.0)
        update(for_generator, generator, cost)
        with session.mixed():
            cost = 0.5 * (loss(discriminator(images), 1.0) + loss(fake(), 0.0))
        update(for_discriminator, discriminator, cost)

    return step


def _generator(torch: Any) -> Any:
    nn, (depth, first, second, third) = torch.nn, GENERATOR

    def conv(inputs: int, filters: int) -> list[Any]:
        return [nn.BatchNorm2d(inputs), nn.Conv2d(inputs, filters, 5, padding=2)]

    up = nn.Upsample(scale_factor=2, mode="nearest")
    return nn.Sequential(
        nn.Linear(NOISE, 7 * 7 * depth),
        nn.Unflatten(1, (depth, 7, 7)),
        *conv(depth, first), nn.Tanh(), up,
        *conv(first, second), nn.Tanh(), up,
        *conv(second, third), nn.Tanh(),
        *conv(third, 1), nn.Sigmoid(),
    )  # fmt: skip


def _discriminator(torch: Any) -> Any:
    nn, layers, inputs = torch.nn, [], 1
    for filters in DISCRIMINATOR:
        layers += [nn.Conv2d(inputs, filters, 5, padding=2), nn.Tanh(), nn.MaxPool2d(2), nn.Dropout(DROPOUT)]
        inputs = filters
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * 3 * 3, 1))


def transformer(session: TorchSession, sizes: Sizes) -> Callable[[], None]:
    """Return a step of a transformer block between an embedding and a head."""
    torch = importlib.import_module("torch")
    nn, width = torch.nn, sizes.width
    layers = nn.ModuleDict(
        {
            "embedding": nn.Embedding(sizes.vocabulary, width),
            "before": nn.LayerNorm(width),
            "qkv": nn.Linear(width, 3 * width),
            "projection": nn.Linear(width, width),
            "between": nn.LayerNorm(width),
            "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
            "after": nn.LayerNorm(width),
            "head": nn.Linear(width, sizes.vocabulary, bias=False),
        }
    ).to(session.device)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=RATES[0])
    words = torch.randint(sizes.vocabulary, (sizes.batch, sizes.tokens + 1), device=session.device)
    inputs, labels = words[:, :-1].contiguous(), words[:, 1:].reshape(-1)
    attention = _attention(session, torch)

    def heads(x: Any) -> Any:
        return x.view(sizes.batch, sizes.tokens, sizes.heads, -1).transpose(1, 2)

    def forward() -> Any:
        x = layers["embedding"](inputs)
        q, k, v = (heads(part) for part in layers["qkv"](layers["before"](x)).chunk(3, -1))
        x = x + layers["projection"](attention(q, k, v).transpose(1, 2).reshape(x.shape))
        x = x + layers["mlp"](layers["between"](x))
        return layers["head"](layers["after"](x))

    def step() -> None:
        with session.mixed():
            logits = forward()
        cost = nn.functional.cross_entropy(logits.float().view(-1, sizes.vocabulary), labels)
        optimizer.zero_grad(set_to_none=True)
        cost.backward()
        optimizer.step()

    return step


def _attention(session: TorchSession, torch: Any) -> Callable[[Any, Any, Any], Any]:
    own = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if own is not None:
        return lambda q, k, v: own(q, k, v, is_causal=True)
    session.notes.append("this PyTorch has no scaled_dot_product_attention; products and softmax instead")

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, float("-inf")).softmax(-1).to(v.dtype) @ v

    return attention


def sees_gpu() -> bool:
    """Return whether PyTorch can use a GPU."""
    return bool(importlib.import_module("torch").cuda.is_available())


def open(model: str, precision: str, sizes: Sizes, root: Path) -> TorchSession:  # noqa: A001, ARG001 - as the others
    """Return a model in training through PyTorch."""
    return TorchSession(model, precision, sizes)
