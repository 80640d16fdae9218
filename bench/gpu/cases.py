"""What is counted: single ops by dtype, shape and alignment, in batches that one process runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MAIN: Final = ("bfloat16", "float16", "tf32", "float32")
PLAIN: Final = ("bfloat16", "float16", "float32")
BYTES: Final = {"bfloat16": 2, "float16": 2, "tf32": 4, "float32": 4, "float8_e4m3fn": 1, "int8": 1}
OFF: Final = (0, 4, 2, 1)  # how far sizes lie below a multiple of 16: aligned to 8 and more, to 4, to 2, odd
LAYOUTS: Final = {"nn": "forward", "nt": "dgrad", "tn": "wgrad"}


class Case(NamedTuple):
    """One op of one shape.

    `op` is gemm, conv, attention, or one that multiplies no matrices; `direction` its pass (of a gemm the one that has
    its layout; backward may be both passes where a framework joins them); `dtype` that of the operands, tf32 being
    float32 with TF32 allowed; `kind` the layout of a gemm, the way of an attention. `sizes` of a gemm are m, n, k, of a
    convolution images, side, channels, filters, taps, of an attention batch, heads, length, head, of others rows and
    width. `contiguous` are the places in it of what is contiguous in an operand or the result, where alignment matters.
    """

    op: str
    direction: str
    dtype: str
    kind: str
    sizes: tuple[int, ...]
    contiguous: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return what the range around it is called."""
        return "-".join((self.op, self.direction, self.dtype, *[self.kind] * bool(self.kind), *map(str, self.sizes)))

    @property
    def aligned(self) -> bool | None:
        """Return whether every contiguous size is a multiple of 16 bytes; None where it means nothing."""
        return all(self.sizes[i] * BYTES[self.dtype] % 16 == 0 for i in self.contiguous) if self.contiguous else None

    def order(self) -> dict[str, Any]:
        """Return what `ops.py` is told of it."""
        told = {"case": self.name, "op": self.op, "pass": self.direction, "dtype": self.dtype}
        return {**told, "kind": self.kind, "sizes": self.sizes}

    def small(self) -> Case:
        """Return it for a rehearsal on the CPU: no size above 32, each as far from a multiple of 16 as before."""
        return self._replace(sizes=tuple(size if size <= 32 else 32 - -size % 16 for size in self.sizes))


def plan() -> list[Case]:
    """Return all cases once."""
    return list(dict.fromkeys([*_gemms(), *_convolutions(), *_others()]))


def batches(cases: list[Case]) -> Iterator[tuple[str, list[Case]]]:
    """Yield the cases of one kind and dtype with a name, so that what crashes takes few others with it."""
    by: dict[str, list[Case]] = {}
    for case in cases:
        by.setdefault(f"{case.op if case.contiguous else 'other'}-{case.dtype}", []).append(case)
    yield from by.items()


def gemm(m: int, n: int, k: int, dtype: str, layout: str = "nn") -> Case:
    """Return C[m,n] = A[m,k] B[k,n], row-major; A is stored transposed in `tn`, B in `nt`."""
    return Case("gemm", LAYOUTS[layout], dtype, layout, (m, n, k), (0, 1) if layout == "tn" else (1, 2))


def _gemms() -> Iterator[Case]:
    for dtype in MAIN:
        for layout in LAYOUTS:
            for off in OFF:
                yield gemm(4096 - off, 4096 - off, 4096 - off, dtype, layout)
        for m, n, k in ((1, 4096, 4096), (16, 4096, 4096), (64, 64, 65536), (2048, 50257, 768)):
            yield gemm(m, n, k, dtype)
    for dtype in ("float8_e4m3fn", "int8"):
        for m in (16, 4096):
            yield gemm(m, 4096, 4096, dtype, "nt")


def _convolutions() -> Iterator[Case]:
    for dtype in MAIN:
        for direction in LAYOUTS.values():
            for channels, filters, taps in (*((256 - o, 256 - o, 3) for o in OFF), (3, 64, 3), (256, 256, 1)):
                yield Case("conv", direction, dtype, "", (32, 56, channels, filters, taps), (2, 3))


def _others() -> Iterator[Case]:
    for dtype in PLAIN:
        for direction in ("forward", "backward"):
            for way in ("flash", "cudnn", "efficient", "math"):
                yield Case("attention", direction, dtype, way, (4, 16, 1024, 64), (3,))
            for op in ("layer_norm", "batch_norm", "softmax"):
                yield Case(op, direction, dtype, "", (8192, 1024))
        for op in ("add", "gelu", "sum", "max", "cast", "transpose", "copy", "embedding"):
            yield Case(op, "forward", dtype, "", (8192, 1024))
