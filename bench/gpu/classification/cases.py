"""What is counted: single ops by dtype, shape and alignment, the most telling first, so that a cut plan is worth most.

A case is what one op runs once. Alignment is of contiguous dimensions in bytes: 16 are what Tensor Core kernels want
(NVIDIA's cuBLAS documentation, "Tensor Core Usage").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Op = Literal[
    "gemm", "conv", "attention", "normalisation", "softmax", "elementwise", "reduction", "copy", "gather"
]  # fmt: skip
Pass = Literal["forward", "dgrad", "wgrad", "backward"]
Dtype = Literal["float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "int8"]
Layout = Literal["nn", "nt", "tn"]
BYTES: Final[Mapping[Dtype, int]] = {
    "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1,
}  # fmt: skip
ALIGNED_BYTES: Final = 16
DTYPES: Final = tuple(BYTES)
MAIN: Final[tuple[Dtype, ...]] = ("bfloat16", "float16", "tf32", "float32")
PLAIN: Final[tuple[Dtype, ...]] = ("bfloat16", "float16", "float32")
BACK: Final[tuple[Pass, ...]] = ("dgrad", "wgrad")
OF_LAYOUT: Final[Mapping[Layout, Pass]] = {"nn": "forward", "nt": "dgrad", "tn": "wgrad"}
DRY: Final = 32  # largest dimension of a rehearsal


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One op of one shape.

    Attributes:
        op: what is computed.
        direction: its pass.
        dtype: of the operands; tf32 is float32 with TF32 allowed.
        kind: layout of a gemm, memory layout of a convolution, way of an attention, name of another op.
        sizes: by name.
        contiguous: the sizes that are contiguous in an operand or the result; none where alignment means nothing.
    """

    op: Op
    direction: Pass
    dtype: Dtype
    kind: str
    sizes: Mapping[str, int]
    contiguous: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what NVTX ranges call it."""
        sizes = "x".join(map(str, self.sizes.values()))
        return f"{self.op}-{self.direction}-{self.dtype}-{self.kind}-{sizes}"

    @property
    def shape(self) -> str:
        """Return the shape as text: ``m=4096 n=4096 k=4096 layout=nn``."""
        word = {"gemm": "layout", "conv": "layout", "attention": "by"}.get(self.op, "what")
        return " ".join([*(f"{name}={size}" for name, size in self.sizes.items()), f"{word}={self.kind}"])

    @property
    def aligned(self) -> bool | None:
        """Return whether every contiguous dimension is a multiple of 16 bytes; None where it means nothing."""
        if not self.contiguous:
            return None
        return all(self.sizes[name] * BYTES[self.dtype] % ALIGNED_BYTES == 0 for name in self.contiguous)

    def small(self) -> Case:
        """Return it for a rehearsal: no dimension above 32, each as far from a multiple of 16 as before."""
        sizes = {name: size if size <= DRY else DRY - -size % 16 for name, size in self.sizes.items()}
        return Case(self.op, self.direction, self.dtype, self.kind, sizes, self.contiguous)

    def row(self) -> dict[str, object]:
        """Return its cells in `cases.csv.gz`."""
        aligned = None if self.aligned is None else int(self.aligned)
        return {
            "case": self.name,
            "op": self.op,
            "pass": self.direction,
            "dtype": self.dtype,
            "shape": self.shape,
            "aligned": aligned,
        }

    def order(self) -> dict[str, object]:
        """Return what a program is told of it."""
        told = {"case": self.name, "op": self.op, "pass": self.direction, "dtype": self.dtype, "kind": self.kind}
        return {**told, **self.sizes}


def plan() -> list[Case]:
    """Return all cases, the most telling first: each kind once, then alignment, then shapes that pick other kernels."""
    return distinct([*_each_kind(), *_alignment(), *_few_rows_and_split_k(), *_more()])


def distinct(cases: Iterable[Case]) -> list[Case]:
    """Return cases without those that are there before."""
    return list({case.name: case for case in cases}.values())


def gemm(m: int, n: int, k: int, dtype: Dtype, layout: Layout = "nn") -> Case:
    """Return C[m,n] = A[m,k] B[k,n], row-major; A is stored transposed in `tn`, B in `nt`."""
    contiguous = {"nn": ("k", "n"), "nt": ("k", "n"), "tn": ("m", "n")}[layout]
    return Case("gemm", OF_LAYOUT[layout], dtype, layout, {"m": m, "n": n, "k": k}, contiguous)


def conv(direction: Pass, dtype: Dtype, c: int, filters: int, image: int = 56, kernel: int = 3) -> Case:
    """Return a 2-D convolution of 32 square images, stride 1, channels last."""
    sizes = {"batch": 32, "height": image, "width": image, "c": c, "filters": filters, "kernel": kernel}
    return Case("conv", direction, dtype, "nhwc", sizes, ("c", "filters"))


def attention(direction: Pass, dtype: Dtype, way: str, length: int = 1024, head: int = 64) -> Case:
    sizes = {"batch": 4, "heads": 16, "length": length, "head": head}
    return Case("attention", direction, dtype, way, sizes, ("head",))


def other(op: Op, dtype: Dtype, what: str, rows: int = 8192, width: int = 1024, direction: Pass = "forward") -> Case:
    return Case(op, direction, dtype, what, {"rows": rows, "width": width})


def _each_kind() -> Iterator[Case]:
    for dtype in MAIN:
        yield gemm(4096, 4096, 4096, dtype)
        yield conv("forward", dtype, 256, 256)
    yield gemm(4096, 4096, 4096, "float8_e4m3fn", "nt")
    yield gemm(4096, 4096, 4096, "int8", "nt")
    yield gemm(4095, 4095, 4095, "bfloat16")
    yield gemm(4095, 4095, 4095, "float16")
    for direction in BACK:
        for dtype in ("bfloat16", "float16", "tf32"):
            yield conv(direction, dtype, 256, 256)
    for way in ("flash", "cudnn", "efficient", "math"):
        yield attention("forward", "bfloat16", way)
    yield other("elementwise", "bfloat16", "add")
    yield other("elementwise", "float16", "gelu")
    yield other("normalisation", "bfloat16", "layer")
    yield other("softmax", "float16", "softmax")
    yield other("reduction", "bfloat16", "sum")
    yield other("copy", "float32", "cast")
    yield other("copy", "float16", "transpose")
    yield other("gather", "bfloat16", "embedding")


def _alignment() -> Iterator[Case]:
    for dtype in MAIN:
        for less in (1, 2, 4, 8):
            size = 4096 - less
            yield gemm(size, size, size, dtype)
    for layout in ("nt", "tn"):
        for dtype in MAIN:
            yield gemm(4096, 4096, 4096, dtype, layout)
            yield gemm(4095, 4095, 4095, dtype, layout)
    for c in (1, 3, 8, 64, 63, 60):
        for dtype in MAIN:
            for direction in ("forward", *reversed(BACK)):
                yield conv(direction, dtype, c, 64)
    for dtype in ("bfloat16", "float16", "tf32"):
        yield conv("forward", dtype, 64, 63)
    yield gemm(4095, 4096, 4096, "bfloat16")  # rows alone do not count
    yield gemm(4096, 4095, 4096, "bfloat16")
    yield gemm(4096, 4096, 4095, "bfloat16")
    yield gemm(2048, 50257, 768, "bfloat16")


def _few_rows_and_split_k() -> Iterator[Case]:
    for dtype in (*MAIN, "float8_e4m3fn", "int8"):
        layout: Layout = "nt" if dtype in ("float8_e4m3fn", "int8") else "nn"
        for rows in (1, 2, 4, 8, 16):
            yield gemm(rows, 4096, 4096, dtype, layout)
        yield gemm(64, 64, 65536, dtype, layout)
        yield gemm(16, 4095, 4095, dtype, layout)
        yield gemm(256, 256, 256, dtype, layout)


def _more() -> Iterator[Case]:
    for dtype in PLAIN:
        for way in ("flash", "cudnn", "efficient", "math"):
            yield attention("forward", dtype, way)
            yield attention("backward", dtype, way)
            yield attention("forward", dtype, way, 1000, 60)
    for dtype in PLAIN:
        for what in ("add", "gelu", "dropout"):
            yield other("elementwise", dtype, what)
        for what in ("layer", "batch"):
            yield other("normalisation", dtype, what)
            yield other("normalisation", dtype, what, direction="backward")
        yield other("softmax", dtype, "softmax")
        yield other("softmax", dtype, "softmax", direction="backward")
        for what in ("sum", "max"):
            yield other("reduction", dtype, what)
        for what in ("cast", "transpose", "copy"):
            yield other("copy", dtype, what)
        yield other("gather", dtype, "embedding")
        yield other("elementwise", dtype, "add", 8191, 1023)
    for dtype in ("float16", "bfloat16", "tf32", "float32"):
        for kernel in (1, 5):
            for direction in ("forward", *BACK):
                yield conv(direction, dtype, 128, 128, 28, kernel)
    yield gemm(4080, 4080, 4080, "float8_e4m3fn", "nt")
    yield gemm(4088, 4088, 4088, "float8_e4m3fn", "nt")
    yield gemm(4088, 4088, 4088, "int8", "nt")
    yield gemm(4095, 4095, 4095, "int8", "nt")
    yield gemm(8192, 8192, 8192, "bfloat16")
