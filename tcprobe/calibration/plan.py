"""Plan what to measure on a GPU, most informative first, so that a time budget cuts off the end."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.alignment import Library
from tcprobe.cost.measured import CPU, record_of
from tcprobe.cost.tiles import compute_units_of
from tcprobe.cost.works import Task, task_of
from tcprobe.hardware import Gpu

ALIGNMENTS: Final = (1, 2, 4)  # of a contiguous dimension, in elements; 8 are whole 16 bytes of a 16-bit type
ODD: Final = (3, 5)  # further remainders modulo 8 that are aligned to one element
SEED: Final = 20
TRANSPOSES: Final = ((False, False), (False, True), (True, False))
"""Which operand is stored transposed: forward, input gradient, weight gradient of a dense layer."""
BOTH: Final = (True, True)
"""The fourth layout, A[k, m]^T B[n, k]^T: no pass of a layer has it, only products that a user transposes."""


class MatMul(Struct, frozen=True):
    """C[m, n] = A[m, k] B[k, n], `batch` times."""

    m: int
    n: int
    k: int
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False

    def columns(self) -> dict[str, object]:
        """Return its columns in a row of the CSV."""
        flags = {"transpose_a": int(self.transpose_a), "transpose_b": int(self.transpose_b)}
        return {"op": "gemm", "pass": "forward", "m": self.m, "n": self.n, "k": self.k, "batch": self.batch, **flags}


class Conv(Struct, frozen=True):
    """One pass of a 2D convolution, channels last."""

    images: int
    size: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1
    pass_: str = "forward"

    def columns(self) -> dict[str, object]:
        """Return its columns in a row of the CSV, padded so that with stride 1 the size stays the same."""
        named = {"kernel": self.kernel, "stride": self.stride, "padding": self.kernel // 2}
        return {
            "op": "conv", "pass": self.pass_, "images": self.images, "height": self.size, "width": self.size,
            "channels": self.channels, "filters": self.filters, **{name: f"{n}x{n}" for name, n in named.items()},
        }  # fmt: skip

    def passes(self) -> Iterator[Conv]:
        """Yield its three passes."""
        return (replace(self, pass_=name) for name in ("forward", "dgrad", "wgrad"))


SQUARES: Final = tuple(MatMul(size, size, size) for size in (256, 512, 1024, 2048, 4096, 8192))
SKINNY: Final = tuple(
    MatMul(*size)
    for size in (
        (16, 8192, 8192), (16, 16384, 16384), (32, 4096, 16384), (64, 16384, 8192), (128, 4096, 4096), (8, 4096, 4096),
        (8192, 64, 8192), (16384, 16384, 64), (8192, 8192, 32), (16384, 32, 4096), (65536, 128, 128), (262144, 64, 64),
    )
)  # fmt: skip
"""Limited by memory: the share of the bandwidth is fitted to these."""
BATCHED: Final = (
    MatMul(512, 512, 64, 96, transpose_b=True), MatMul(512, 64, 512, 96), MatMul(2048, 2048, 128, 16, False, True),
    MatMul(128, 128, 64, 384, transpose_b=True), MatMul(1024, 128, 1024, 32),
)  # fmt: skip
LARGE: Final = ((4096, 4096, 4096), (2048, 2048, 2048), (8192, 2048, 4096), (2048, 4096, 8192))
CONVS: Final = (
    Conv(64, 56, 64, 64, 3), Conv(64, 56, 256, 64, 1), Conv(64, 56, 64, 256, 1), Conv(64, 28, 128, 128, 3),
    Conv(64, 28, 128, 512, 1), Conv(64, 28, 256, 256, 3, 2), Conv(64, 14, 256, 256, 3), Conv(64, 14, 1024, 256, 1),
    Conv(64, 14, 256, 1024, 1), Conv(64, 14, 512, 512, 3, 2), Conv(64, 7, 512, 512, 3), Conv(64, 7, 512, 2048, 1),
    Conv(32, 112, 32, 64, 3), Conv(16, 64, 128, 256, 5, 2), Conv(256, 28, 64, 128, 5), Conv(32, 32, 192, 192, 3),
    Conv(8, 128, 96, 96, 3), Conv(128, 16, 320, 320, 3), Conv(32, 56, 128, 256, 3, 2), Conv(256, 28, 64, 64, 3),
)  # fmt: skip
"""From image classifiers, image-to-image networks and GANs; 12 per pass remain if a quarter is held out."""
UNALIGNED_CONVS: Final = (Conv(64, 28, 128, 128, 3), Conv(64, 14, 256, 512, 1), Conv(32, 56, 64, 64, 3))
FEW_CHANNEL_CONVS: Final = (
    Conv(64, 224, 3, 64, 7, 2), Conv(256, 28, 1, 64, 5, 2), Conv(256, 28, 8, 1, 5), Conv(64, 32, 3, 32, 3),
    Conv(256, 28, 64, 4, 5), Conv(64, 128, 4, 64, 5, 2),
)  # fmt: skip
"""First and last layers of image models, where cuDNN's behaviour is least known."""


def drawn(count: int) -> list[MatMul]:
    """Return random aligned GEMMs with sizes from 16 to 16,384, in all `TRANSPOSES`; always the same ones."""
    draw = random.Random(SEED)
    found = []
    for number in range(count):
        m, n, k = (8 * round(2 ** draw.uniform(low, 11)) for low in (1, 3, 3))
        found.append(MatMul(m, n, k, 1, *TRANSPOSES[number % 3]))
    return found


def unaligned(size: tuple[int, int, int]) -> list[MatMul]:
    """Return GEMMs near a size, with each contiguous dimension of each layout at each alignment below 8.

    Contiguous are k and n of A[m, k] B[k, n], k of A[m, k] B[n, k]^T, and m and n of A[k, m]^T B[k, n]; always n of the
    result. A result with odd rows alone has just one such dimension, in the slowest layout, so it comes in three sizes.
    """
    found = []
    for transposed, names in zip(TRANSPOSES, ("kn", "kn", "mn"), strict=True):
        for name in names:
            only_result = transposed == (False, True) and name == "n"
            for alignment in (*ALIGNMENTS, *ODD) if only_result else ALIGNMENTS:
                sizes = dict(zip("mnk", size, strict=True))
                sizes[name] += alignment - 8
                found.append(MatMul(sizes["m"], sizes["n"], sizes["k"], 1, *transposed))
    return found


def both_transposed(size: tuple[int, int, int]) -> list[MatMul]:
    """Return GEMMs of the layout `BOTH`: a size, and near it each dimension at each alignment below 8.

    Contiguous are m of A[k, m]^T, k of B[n, k]^T, and n of the result.
    """
    m, n, k = size
    less = [8 - alignment for alignment in ALIGNMENTS]
    near = [other for d in less for other in ((m - d, n, k), (m, n - d, k), (m, n, k - d))]
    return [MatMul(*sizes, 1, *BOTH) for sizes in (size, *near)]


def unaligned_convs(base: Conv) -> list[Conv]:
    """Return all passes of a convolution with channels, filters or both at each alignment below 8."""
    found = []
    for alignment in ALIGNMENTS:
        less = 8 - alignment
        for channels, filters in ((less, 0), (0, less), (less, less)):
            other = replace(base, channels=base.channels - channels, filters=base.filters - filters)
            found += list(other.passes())
    return found


CaseShape: TypeAlias = MatMul | Conv
LONGEST_S: Final = 4e-3  # at the GPU's peak; a sample of one execution should not take much more than 10 ms
FULL_S: Final = 1.5e-4  # at the GPU's peak: arithmetic, not the launch, limits a product this long
CACHES: Final = 2  # sets of operands take turns that together are this many times the second-level cache
MOST_SETS: Final = 64
MEMORY_DIVISOR: Final = 8  # operands and results of a case may fill one part in this many of the memory
DRY_DTYPES: Final = ("float32", "float16", "bfloat16")


class Case(Struct, frozen=True):
    """One product to measure."""

    level: int  # priority, 1 first
    dtype: str  # dtype of the operands; ``tf32`` is float32 on Tensor Cores, ``float32`` is on CUDA cores
    row: dict[str, object]  # the columns of its row, without time and source
    sets: int  # number of sets of operands that take turns


def dtypes_to_measure(gpu: Gpu) -> list[str]:
    """Return the dtypes to measure on a GPU: those of its Tensor Cores, and float32 on CUDA cores."""
    on_tensor_cores = [
        dtype
        for dtype in ("float16", "bfloat16", "tf32")
        if (units := compute_units_of(dtype, gpu, True)) is not None and units.tensor_cores and units.family != "fp32"
    ]
    return [*on_tensor_cores, "float32"]


def cases_for(gpu: Gpu, library: Library, framework: str) -> list[Case]:
    """Return what to measure on a GPU, by priority; shuffled within a priority so that drift does not follow size.

    1 aligned GEMMs, 2 unaligned ones, 3 aligned convolutions, 4 unaligned ones, and GEMMs with both operands
    transposed, 5 more of each. Through JAX, unaligned 16-bit GEMMs and float16 convolutions are left out: XLA pads them
    before a library sees them.
    """
    found = [
        case
        for dtype in dtypes_to_measure(gpu)
        for level, shape in _shapes(dtype, gpu)
        if (case := _case(level, shape, dtype, gpu, library, framework)) is not None
    ]
    random.Random(SEED).shuffle(found)
    return sorted(_once(found), key=lambda case: case.level)


def dry_cases() -> list[Case]:
    """Return a small plan that a CPU measures in seconds: each kind of product once or twice per dtype."""
    gemms = [MatMul(64, 48, 80), MatMul(64, 41, 80, transpose_b=True), MatMul(40, 32, 24, 3, transpose_a=True)]
    gemms += [MatMul(64, 41, 80, 1, *BOTH)]
    convs = [*Conv(2, 8, 8, 16, 3).passes(), *Conv(2, 8, 7, 5, 3, 2).passes()]
    shapes: list[CaseShape] = [*gemms, *convs]
    found = [
        Case(1, dtype, {"gpu": CPU, "library": "cublas12", "dtype": dtype, **shape.columns()}, 2)
        for dtype in DRY_DTYPES
        for shape in shapes
    ]
    random.Random(SEED).shuffle(found)
    return found


def _shapes(dtype: str, gpu: Gpu) -> Iterator[tuple[int, CaseShape]]:
    """Yield what to measure in a dtype; bfloat16 runs on the units of float16, so only a few are compared."""
    gemms = drawn(300 if dtype == "float16" else 120)
    first = {"float16": 60, "bfloat16": 30, "tf32": 70, "float32": 24}[dtype]
    yield from ((1, shape) for shape in (*SQUARES, *SKINNY, *gemms[:first]))
    yield from ((5, shape) for shape in BATCHED)
    if dtype == "float32":
        # there are two classes of them (`Task.classes`), and a fit needs 12 of each, a quarter apart
        halved = [replace(conv, images=conv.images // 2) for conv in CONVS]
        quartered = [replace(c, images=c.images // 4) for c in CONVS if c.kernel > 1 and c.stride == 1]
        yield from ((3, shape) for conv in (*CONVS, *halved, *quartered) for shape in conv.passes())
        return
    for number, size in enumerate(LARGE):
        yield from ((2 if number < 2 else 5, shape) for shape in unaligned(size))
    half = 5 if dtype == "bfloat16" else 3
    yield from ((half, shape) for conv in CONVS for shape in conv.passes())
    for number, conv in enumerate(UNALIGNED_CONVS):
        level = 4 if number < 2 and dtype != "bfloat16" else 5
        yield from ((level, shape) for shape in unaligned_convs(_grown(conv, dtype, gpu)))
    for level, size in ((4, LARGE[0]), (5, LARGE[1])):
        yield from ((level if dtype != "bfloat16" else 5, shape) for shape in both_transposed(size))
    yield from ((4, shape) for conv in FEW_CHANNEL_CONVS for shape in conv.passes())
    yield from ((5, shape) for shape in gemms[first:])


def _grown(conv: Conv, dtype: str, gpu: Gpu) -> Conv:
    """Return a convolution with enough images for arithmetic to be its limit."""
    while (task := _task(conv, dtype, gpu)) and task.flops < FULL_S * task.units.flop_per_s:
        conv = replace(conv, images=2 * conv.images)
    return conv


def _case(level: int, shape: CaseShape, dtype: str, gpu: Gpu, library: Library, framework: str) -> Case | None:
    task = _task(shape, dtype, gpu)
    if task is None or task.flops > LONGEST_S * task.units.flop_per_s:
        return None
    unpadded = dtype == "tf32" or (dtype == "bfloat16" and task.arithmetic == "conv")
    if framework == "jax" and not unpadded and task.level is not None:  # XLA pads it
        return None
    sets = sets_of(sum(work.moved_bytes for work, _ in task.works), gpu.l2_bytes, gpu.memory_bytes)
    if not sets:
        return None
    return Case(level, dtype, {"gpu": gpu.id, "library": library, "dtype": dtype, **shape.columns()}, sets)


def _task(shape: CaseShape, dtype: str, gpu: Gpu) -> Task | None:
    return task_of(record_of({"dtype": dtype, **shape.columns()}), gpu)


def sets_of(moved_bytes: float, l2_bytes: float, memory_bytes: float) -> int:
    """Return how many sets of operands of a product take turns; 0 if one alone takes too much of the memory."""
    room = int(memory_bytes // MEMORY_DIVISOR // moved_bytes)
    return min(MOST_SETS, room, max(1, math.ceil(CACHES * l2_bytes / moved_bytes)))


def _once(cases: Iterable[Case]) -> list[Case]:
    """Leave out cases that repeat at a lower priority."""
    first: dict[str, Case] = {}
    for case in sorted(cases, key=lambda case: case.level):
        first.setdefault(repr(sorted(case.row.items(), key=str)), case)
    return list(first.values())
