"""Check calibrated constants: their error on measurements that were not fitted, against the shipped constants."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.constants import Constants
from tcprobe.cost.measured import Measurement
from tcprobe.cost.predict import Target, op_cost
from tcprobe.cost.works import task_of
from tcprobe.hardware import Gpu

ALL: Final = "all"
HELD_OUT: Final = 4  # one row in this many is not fitted
FASTER: Final = 1.25  # clocks exceed the boost clock behind a peak by 8 % on an H100, more on boards of other makers


class Score(Struct, frozen=True):
    """The error of constants for one kind of product."""

    kind: str  # ``aligned GEMMs`` and the like, or ``all``
    rows: int  # number of predicted products
    error_pct: float  # mean absolute error of the calibrated constants, in percent of the measured time
    shipped_pct: float  # the same for the shipped constants


def split_rows(rows: Iterable[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Split rows into those to fit and a quarter to test on; a given product is always in the same part."""
    parts: tuple[list[Measurement], list[Measurement]] = ([], [])
    for row in rows:
        record = row.record
        key = repr((record.op_type, record.dtype, record.input_shapes, record.output_shape, record.attributes))
        parts[zlib.crc32(key.encode()) % HELD_OUT == 0].append(row)
    return parts


def scores(rows: Sequence[Measurement], gpu: Gpu, constants: Constants) -> list[Score]:
    """Return the errors by kind of product, ``all`` last; empty if no row can be predicted.

    Kinds count float32 as CUDA cores and tf32 as Tensor Cores.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        target = Target(gpu, row.library, tf32=False, channels_last=True, constants=constants)
        own, shipped = (op_cost(row.record, one) for one in (target, replace(target, constants=None)))
        if own is None or shipped is None:
            continue
        # with the launch that shows in what was measured: none where a CUDA graph is replayed
        off = abs(own.timed_ns / row.time_ns - 1), abs((shipped.ns + own.launch_ns) / row.time_ns - 1)
        found[kind_of_row(row, gpu)].append(off)
        found[ALL].append(off)
    ordered = [*sorted(kind for kind in found if kind != ALL), *([ALL] if found else [])]
    return [_score(kind, found[kind]) for kind in ordered]


def too_fast(rows: Iterable[Measurement], gpu: Gpu) -> list[Measurement]:
    """Return the GEMMs that beat the GPU's peak by more than clocks can explain: their times are not this GPU's.

    Convolutions are left out: Winograd's method multiplies less than their shapes imply.
    """
    tasks = ((row, task_of(row.record, gpu)) for row in rows)
    gemms = ((row, task) for row, task in tasks if task is not None and task.arithmetic == "gemm")
    return [row for row, task in gemms if task.flops > FASTER * task.units.flop_per_s * row.time_ns * 1e-9]


def kind_of_row(row: Measurement, gpu: Gpu) -> str:
    """Return the kind of a row: aligned or unaligned, GEMM or convolution."""
    task = task_of(row.record, gpu)
    if task is None:
        return "others"
    name = "convolutions" if task.arithmetic == "conv" else "GEMMs"
    return f"{'aligned' if task.level is None else 'unaligned'} {name}"


def _score(kind: str, off: Sequence[tuple[float, float]]) -> Score:
    own, shipped = (100 * math.fsum(values) / len(off) for values in zip(*off, strict=True))
    return Score(kind, len(off), own, shipped)
