"""Plan what to measure on a GPU, most informative first, so that a time budget cuts off the end."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tcprobe.calibration.shapes import (
    BATCHED,
    BOTH,
    CONVS,
    FEW_CHANNEL_CONVS,
    LARGE,
    SEED,
    SKINNY,
    SQUARES,
    UNALIGNED_CONVS,
    Conv,
    MatMul,
    both_transposed,
    drawn,
    unaligned,
    unaligned_convs,
)
from tcprobe.cost.alignment import Library, product_level
from tcprobe.cost.dtype import ComputeUnits, compute_units_of
from tcprobe.cost.works import Task, task_of
from tcprobe.hardware import Gpu

CaseShape: TypeAlias = MatMul | Conv
LONGEST_S: Final = 4e-3  # at the GPU's peak; a sample of one execution should not take much more than 10 ms
FULL_S: Final = 1.5e-4  # at the GPU's peak: arithmetic, not the launch, limits a product this long
CACHES: Final = 2  # sets of operands take turns that together are this many times the second-level cache
MOST_SETS: Final = 64
MEMORY_DIVISOR: Final = 8  # operands and results of a case may fill one part in this many of the memory
CPU: Final = "cpu"  # GPU id in the rows of a dry run
DRY_DTYPES: Final = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Case:
    """One product to measure.

    Attributes:
        level: priority, 1 first.
        dtype: dtype of the operands; ``tf32`` is float32 on Tensor Cores, ``float32`` is on CUDA cores.
        row: the columns of its row, without time and source.
        sets: number of sets of operands that take turns.
    """

    level: int
    dtype: str
    row: dict[str, object]
    sets: int


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
        # there are two classes of them (`tcprobe.cost.works.conv_classes`), and a fit needs 12 of each, a quarter apart
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
    units = compute_units_of(dtype, gpu, False)
    while units and (task := task_of(conv.record(dtype), units.width)) and task.flops < FULL_S * units.flop_per_s:
        conv = replace(conv, images=2 * conv.images)
    return conv


def _case(level: int, shape: CaseShape, dtype: str, gpu: Gpu, library: Library, framework: str) -> Case | None:
    units = compute_units_of(dtype, gpu, False)
    task = task_of(shape.record(dtype), units.width) if units else None
    if units is None or task is None or task.flops > LONGEST_S * units.flop_per_s:
        return None
    if framework == "jax" and _padded_by_xla(task, dtype, units):
        return None
    sets = sets_of(sum(work.moved_bytes for work, _ in task.works), gpu.l2_bytes, gpu.memory_bytes)
    if not sets:
        return None
    return Case(level, dtype, {"gpu": gpu.id, "library": library, "dtype": dtype, **shape.columns()}, sets)


def sets_of(moved_bytes: float, l2_bytes: float, memory_bytes: float) -> int:
    """Return how many sets of operands of a product take turns; 0 if one alone takes too much of the memory."""
    room = int(memory_bytes // MEMORY_DIVISOR // moved_bytes)
    return min(MOST_SETS, room, max(1, math.ceil(CACHES * l2_bytes / moved_bytes)))


def _padded_by_xla(task: Task, dtype: str, units: ComputeUnits) -> bool:
    unpadded = dtype == "tf32" or (dtype == "bfloat16" and task.arithmetic == "conv")
    return not unpadded and product_level(task.contiguous, units.family) is not None


def _once(cases: Iterable[Case]) -> list[Case]:
    """Leave out cases that repeat at a lower priority."""
    first: dict[str, Case] = {}
    for case in sorted(cases, key=lambda case: case.level):
        first.setdefault(repr(sorted(case.row.items(), key=str)), case)
    return list(first.values())
