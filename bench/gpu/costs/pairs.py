"""The resize pairs: layers that differ in one size, the better one second, and what each pass of them multiplies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from tcprobe.calibration.plan import sets_of
from tcprobe.calibration.shapes import Conv, MatMul
from tcprobe.cost.works import task_of
from tcprobe.gemm.alignment import bytes_of
from tcprobe.schema.op import OpRecord

Product: TypeAlias = MatMul | Conv
LAYOUTS: Final = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}
ON_TENSOR_CORES: Final = ("float16", "tf32", "bfloat16")
ONE_BYTE: Final = ("float8_e4m3fn", "int8")
PLAIN: Final = "float32"
"""On CUDA cores, where alignment should not matter."""


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense layer."""

    batch: int
    inputs: int
    outputs: int

    def passes(self) -> dict[str, Product]:
        """Return what each pass multiplies."""
        return {
            "forward": MatMul(self.batch, self.outputs, self.inputs),
            "dgrad": MatMul(self.batch, self.inputs, self.outputs, transpose_b=True),
            "wgrad": MatMul(self.inputs, self.outputs, self.batch, transpose_a=True),
        }


@dataclass(frozen=True, slots=True)
class Scores:
    """Queries times keys of attention, `heads` of all sequences together; gradients to the queries and to the keys."""

    heads: int
    length: int
    size: int

    def passes(self) -> dict[str, Product]:
        """Return what each pass multiplies."""
        return {
            "forward": MatMul(self.length, self.length, self.size, self.heads, transpose_b=True),
            "dgrad": MatMul(self.length, self.size, self.length, self.heads),
            "wgrad": MatMul(self.length, self.size, self.length, self.heads, transpose_a=True),
        }


@dataclass(frozen=True, slots=True)
class Linear:
    """The product of 1-byte operands that libraries have: A[m, k] B[n, k]^T, forward only."""

    m: int
    n: int
    k: int

    def passes(self) -> dict[str, Product]:
        """Return its one pass."""
        return {"forward": MatMul(self.m, self.n, self.k, transpose_b=True)}


@dataclass(frozen=True, slots=True)
class Image:
    """A convolution."""

    images: int
    side: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1

    def passes(self) -> dict[str, Product]:
        """Return its passes."""
        conv = Conv(self.images, self.side, self.channels, self.filters, self.kernel, self.stride)
        return {conv.pass_: conv for conv in conv.passes()}


Layer: TypeAlias = Dense | Scores | Linear | Image


@dataclass(frozen=True, slots=True)
class Pair:
    """A layer, and one of its sizes changed.

    Attributes:
        layer: with the size that is asked about.
        size: name of the size.
        to: what it becomes.
    """

    layer: Layer
    size: str
    to: int

    @property
    def name(self) -> str:
        """Return it in words: ``dense inputs 4090 to 4096``."""
        return f"{type(self.layer).__name__.lower()} {self.size} {getattr(self.layer, self.size)} to {self.to}"

    @property
    def other(self) -> Layer:
        """Return the layer with the size changed."""
        changed: dict[str, Any] = {self.size: self.to}
        return replace(self.layer, **changed)


FIRST: Final = (
    Pair(Dense(4096, 4090, 4096), "inputs", 4096), Pair(Dense(4096, 4096, 4090), "outputs", 4096),
    Pair(Image(1024, 28, 8, 1, 5), "filters", 8), Pair(Image(128, 28, 64, 63, 3), "filters", 64),
    Pair(Image(64, 224, 3, 64, 7, 2), "channels", 4), Pair(Image(1024, 28, 1, 64, 5, 2), "channels", 8),
    Pair(Dense(4096, 768, 50257), "outputs", 50304), Pair(Dense(4090, 4096, 4096), "batch", 4096),
    Pair(Image(256, 28, 64, 7, 5), "filters", 8), Pair(Image(128, 28, 63, 64, 3), "channels", 64),
)  # fmt: skip
"""What an audit advises most; the batch beside it, which it says does not matter."""
THEN: Final = (
    Pair(Dense(8192, 1000, 4096), "inputs", 1024), Pair(Scores(384, 512, 60), "size", 64),
    Pair(Dense(16384, 1024, 63), "outputs", 64), Pair(Image(128, 56, 32, 31, 3), "filters", 32),
    Pair(Image(64, 224, 3, 64, 7, 2), "channels", 8), Pair(Dense(4096, 4095, 4096), "inputs", 4096),
    Pair(Dense(4096, 4092, 4096), "inputs", 4096), Pair(Image(127, 56, 64, 64, 3), "images", 128),
    Pair(Dense(16384, 1024, 31), "outputs", 32), Pair(Dense(1000, 4096, 4096), "batch", 1024),
    Pair(Dense(8192, 4096, 1000), "outputs", 1024),
)  # fmt: skip
NARROW: Final = (
    Pair(Linear(4096, 4096, 4080), "k", 4096), Pair(Linear(4096, 4096, 4088), "k", 4096),
    Pair(Linear(4090, 4096, 4096), "m", 4096), Pair(Linear(4096, 4090, 4096), "n", 4096),
    Pair(Linear(4096, 4096, 4090), "k", 4096),
)  # fmt: skip
DRY: Final = (Pair(Dense(64, 63, 32), "inputs", 64), Pair(Image(2, 8, 8, 7, 3), "filters", 8))
DRY_NARROW: Final = (Pair(Linear(32, 32, 48), "k", 64),)
Order: TypeAlias = dict[str, object]


def orders(l2_bytes: float, memory_bytes: float, one_byte: bool, dry: bool) -> tuple[list[Order], list[Order]]:
    """Return what to time, most telling first: with Tensor Cores, and on CUDA cores, which take a process of their own.

    Args:
        l2_bytes: size of the second-level cache; sets of operands take turns that it does not hold.
        memory_bytes: of the device; what takes too much of it is left out.
        one_byte: whether the framework multiplies 1-byte types.
        dry: little, for a CPU.
    """
    half, tf32, brain = ON_TENSOR_CORES
    narrow = [(pair, dtype) for dtype in ONE_BYTE for pair in (DRY_NARROW if dry else NARROW) if one_byte]
    if dry:
        planned, plain = [*((pair, half) for pair in DRY), *narrow], [(DRY[0], PLAIN)]
    else:
        planned = [(pair, dtype) for dtype in (half, tf32) for pair in FIRST] + narrow
        planned += [(pair, half) for pair in THEN] + [(pair, brain) for pair in FIRST]
        planned += [(pair, dtype) for dtype in (tf32, brain) for pair in THEN]
        plain = [(pair, PLAIN) for pair in (*FIRST, *THEN)]
    cores, cuda = ([o for p, d in some for o in _orders(p, d, l2_bytes, memory_bytes)] for some in (planned, plain))
    return cores, cuda


def _orders(pair: Pair, dtype: str, l2_bytes: float, memory_bytes: float) -> Iterator[Order]:
    """Yield an order per pass."""
    for (kind, before), after in zip(pair.layer.passes().items(), pair.other.passes().values(), strict=True):
        moved = max(_moved(product, dtype) for product in (before, after))
        sets = sets_of(moved, l2_bytes, memory_bytes)
        if sets:
            told = {"pair": pair.name, "op": before.columns()["op"], "pass": kind, "dtype": dtype}
            shapes = {"shape_from": shape_text(before), "shape_to": shape_text(after)}
            rows = [{"dtype": dtype, **product.columns()} for product in (before, after)]
            yield {"row": {**told, **shapes}, "from": rows[0], "to": rows[1], "sets": sets}


def _moved(product: Product, dtype: str) -> float:
    task = task_of(product.record(dtype), bytes_of(dtype) or 4)
    assert task is not None, product
    return sum(work.moved_bytes for work, _ in task.works)


def shape_text(product: Product) -> str:
    """Return the sizes of a product as tables of results have them."""
    if isinstance(product, Conv):
        names = ("images", "size", "channels", "filters", "kernel", "stride")
        return " ".join(f"{name}={getattr(product, name)}" for name in names)
    layout = next(name for name, flags in LAYOUTS.items() if flags == (product.transpose_a, product.transpose_b))
    batch = f" batch={product.batch}" if product.batch > 1 else ""
    return f"m={product.m} n={product.n} k={product.k} layout={layout}{batch}"


def record_of(row: Mapping[str, str], shape: str) -> OpRecord:
    """Return the product of a row of ``pairs.csv.gz``; `shape` is the name of a column."""
    said = dict(word.split("=") for word in row[shape].split())
    if row["op"] == "gemm":
        flags = LAYOUTS[said.pop("layout")]
        sizes = {name: int(value) for name, value in said.items()}
        return MatMul(**sizes, transpose_a=flags[0], transpose_b=flags[1]).record(row["dtype"])
    return Conv(**{name: int(value) for name, value in said.items()}, pass_=row["pass"]).record(row["dtype"])
