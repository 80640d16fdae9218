"""Make names that profiles hold: kernels in C++, paths of ops, GPUs, shapes, kernel details."""

from __future__ import annotations

import json
from typing import Final

from tests.fuzz.mutate import trees
from tests.fuzz.mutate.chance import Chance, encoded

WORDS: Final = (
    "volta", "turing", "ampere", "sm80", "sm90", "xmma", "cutlass", "cudnn", "cublas", "gemm", "sgemm", "hgemm",
    "h884", "s1688", "s16816", "i8816", "fp16", "f16f16_f16f32_f32", "tf32", "bf16", "128x64", "ldg8", "nn", "tn",
    "nhwc", "implicit", "convolve", "winograd", "fprop", "dgrad", "wgrad", "fusion", "Eigen", "tensorop", "simt",
    "stages_32x5", "relu", "splitK", "reduce", "kernel", "void", "float", "__half", "int", "(bool)1", "e4m3", "wgmma",
    "nvjet", "mma",
)  # fmt: skip
OPS: Final = (
    "model",
    "dense",
    "conv2d_1",
    "gradient_tape",
    "while",
    "body",
    "jit(train)",
    "jvp(f)",
    "transpose(jvp(f))",
    "MatMul",
    "Conv2DBackpropInput",
    "vmap(g)",
)
TYPES: Final = (
    "MatMul",
    "Conv2D",
    "FusedBatchNormV3",
    "Einsum",
    "_FusedConv2D",
    "XlaOp",
    "",
    "Conv2DBackpropFilter",
    "BatchMatMulV2",
    "CudnnRNN",
)
GPUS: Final = (
    "NVIDIA",
    "Tesla",
    "GeForce",
    "RTX",
    "A100",
    "H100",
    "SXM4",
    "PCIe",
    "40GB",
    "80GB",
    "V100",
    "(MIG",
    "1g.10gb)",
    "Quadro",
    "GRID",
    "T4",
    "Ti",
    "SUPER",
)
DTYPES: Final = ("half", "float", "bfloat16", "f16", "f32", "bf16", "float16", "float32", "s32", "pred", "fp8")


def name(chance: Chance, depth: int = 0) -> str:
    """Return the name of a kernel: words joined, at times as a template or call."""
    made = chance.choice(("_", "_", "::", " ")).join(chance.choice(WORDS) for _ in range(chance.randint(1, 6)))
    if depth < 4 and chance.random() < 0.4:
        inner = ", ".join(name(chance, depth + 1) for _ in range(chance.randint(1, 4)))
        open_, close = chance.choice(
            (("<", ">"), ("(", ")"), ("<", ""), ("(", ""), ("{lambda(", ")#1}"), ("[with T = ", "]"))
        )
        made = f"{made}{open_}{inner}{close}{chance.choice(('', '(...)', '::operator()', ' const*'))}"
    return made if chance.random() < 0.85 else chance.near(made)


def op(chance: Chance) -> str:
    """Return the path of an op with its type."""
    path = "/".join(chance.choice(OPS) for _ in range(chance.choice((1, 2, 3, 5, 40))))
    made = f"{path}{chance.choice((':', ':', '', '/', '::'))}{chance.choice(TYPES)}"
    return made if chance.random() < 0.8 else chance.near(made)


def shape(chance: Chance) -> str:
    """Return shapes as the profiler writes them."""
    parts = []
    for _ in range(chance.randint(1, 4)):
        sizes = ",".join(str(chance.choice((1, 3, 60, 64, 4096, chance.number()))) for _ in range(chance.randint(0, 5)))
        parts.append(f"{chance.choice(DTYPES)}[{sizes}]{chance.choice(('', '{1,0}'))}")
    made = f"({';'.join(parts)})"
    return made if chance.random() < 0.8 else chance.near(made)


def gpu(chance: Chance) -> str:
    """Return the name of a GPU."""
    made = " ".join(chance.choice(GPUS) for _ in range(chance.randint(1, 6)))
    return made if chance.random() < 0.7 else chance.near(made)


def details(chance: Chance) -> str:
    """Return what the profiler says of a launch."""
    number = lambda: str(chance.choice((1, 32, 128, chance.number())))  # noqa: E731
    keys = ("regs", "static_shared", "dynamic_shared", "grid", "block", "occ_pct", "registers_per_thread", "shared")
    words = [f"{key}:{','.join(number() for _ in range(3 if key in ('grid', 'block') else 1))}" for key in keys]
    made = " ".join(chance.sample(words, chance.randint(1, len(words))))
    return made if chance.random() < 0.7 else chance.near(made)


MAKERS: Final = {"kernels": name, "ops": op, "shapes": shape, "gpus": gpu, "details": details}


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return a document of names with some of them made anew."""
    try:
        tree = None if chance.random() < 0.2 else json.loads(content)
    except (ValueError, RecursionError):
        tree = None
    for _ in range(chance.randint(1, 6)):
        kind = chance.choice(list(MAKERS))
        rows = tree.get(kind) if isinstance(tree, dict) else None
        if not isinstance(rows, list) or not rows:
            return trees.mutated(content, chance)
        rows[chance.randrange(len(rows))] = MAKERS[kind](chance)
    return encoded(json.dumps(tree, ensure_ascii=False))
