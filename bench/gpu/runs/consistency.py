"""What must hold of any correct run, whatever the GPU: each breach as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from bench.gpu.runs.marks import faults
from bench.gpu.runs.told import Told
from tcprobe.analysis.validity import ENOUGH_COVERAGE_PCT
from tcprobe.probe.core.stepper import SURE_AFTER

Kind = Literal[
    "exit code",
    "no kernels",
    "steps lost",
    "no window",
    "step time",
    "logged time",
    "throughput",
    "kernel time",
    "busy",
    "unknown kernels",
    "beyond peak",
    "tensor cores",
    "FLOPs",
    "range left open",
    "marks",
    "unmarked",
]
Figures = Mapping[str, float | str | None]
NEAR: Final = 0.05
"""The same steps' length by two clocks: the median of some, and of some of them."""
ROUNDED: Final = 0.001
NO_KERNELS: Final = 2
"""Exit code where a GPU was used and no kernel recorded: right under nsys, to which TensorFlow's profiler gives way."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A breach.

    Attributes:
        kind: what does not hold.
        unit: where.
        figures: what was found, by name.
    """

    kind: Kind
    unit: str
    figures: Figures


def violations(rows: Sequence[Told]) -> list[Violation]:
    """Return what does not hold, by unit."""
    found = [Violation(kind, row.unit, figures) for row in rows for kind, figures in _of_unit(row)]
    return sorted([*found, *_flops(rows)], key=lambda one: (one.unit, one.kind))


def _of_unit(row: Told) -> Iterator[tuple[Kind, Figures]]:
    if row.exit_code and (row.kind, row.exit_code) != ("nvtx", NO_KERNELS):
        yield "exit code", {"exit_code": row.exit_code}
    if row.kind == "plain":
        return
    yield from _steps(row)
    if row.kind == "nvtx":
        yield from _marks(row)
    elif row.gpu_used:
        yield from _kernels(row)


def _steps(row: Told) -> Iterator[tuple[Kind, Figures]]:
    """Check the steps against what the workload logs, and the report against the steps."""
    if len(row.steps) != row.logged:
        yield "steps lost", {"steps": len(row.steps), "logged": row.logged}
    if row.kind == "profile" and not row.window_steps:
        yield "no window", {"notes": " ".join(row.notes)}
    if _apart(row.step_ns, row.outside_ns, NEAR):
        yield "step time", {"report_ns": row.step_ns, "steps_ns": row.outside_ns}
    if row.around_ns is not None and row.logged_ns is not None and row.around_ns < row.logged_ns * (1 - ROUNDED):
        yield "logged time", {"steps_ns": row.around_ns, "logged_ns": row.logged_ns}
    if _apart(row.throughput, row.logged_throughput, NEAR):
        yield "throughput", {"report": row.throughput, "logged": row.logged_throughput}


def _kernels(row: Told) -> Iterator[tuple[Kind, Figures]]:
    """Check what the kernels of a run on a GPU add up to; TensorFlow computes on one stream of each GPU."""
    if not row.kernels:
        yield "no kernels", {"notes": " ".join(row.notes)}
        return
    room = (row.window_ns or 0) * (row.devices or 0)
    if row.kernel_ns is not None and row.kernel_ns > room * (1 + ROUNDED):
        yield "kernel time", {"kernel_ns": row.kernel_ns, "window_ns": row.window_ns, "devices": row.devices}
    if row.busy_pct is not None and not 0 < row.busy_pct <= 100 * (1 + ROUNDED):
        yield "busy", {"busy_pct": row.busy_pct}
    if row.coverage_pct is not None and row.coverage_pct < ENOUGH_COVERAGE_PCT:
        yield "unknown kernels", {"coverage_pct": row.coverage_pct}
    if row.peak_pct is not None and row.peak_pct > 100:
        yield "beyond peak", {"peak_pct": row.peak_pct, "tflop_per_s": row.tflop_per_s}
    if row.precision == "float32" and row.tc_low_pct:  # NVIDIA_TF32_OVERRIDE=0 leaves it none
        yield "tensor cores", {"tc_low_pct": row.tc_low_pct, "expected_pct": 0.0}
    if row.precision == "mixed_float16" and row.sizes == "good" and row.tc_high_pct == 0:
        yield "tensor cores", {"tc_high_pct": row.tc_high_pct}


def _marks(row: Told) -> Iterator[tuple[Kind, Figures]]:
    """Check that each step is marked once, in its order, by a range that ends, once steps are numbered."""
    marked = row.marked or ()
    for kind, numbers in faults(marked, row.steps).items():
        yield "marks", {kind: " ".join(map(str, numbers))}
    if row.open_ranges:
        yield "range left open", {"open": row.open_ranges}
    if missing := sorted(set(row.steps[SURE_AFTER:]) - set(marked)):
        yield "unmarked", {"steps": " ".join(map(str, missing))}


def _flops(rows: Sequence[Told]) -> Iterator[Violation]:
    """Check that the same sizes have the same FLOPs in a step, in every arithmetic and version."""

    def same(row: Told) -> tuple[str, int, bool]:
        return row.sizes, row.batch, row.xla

    known = sorted((row for row in rows if row.flops_per_step is not None), key=same)
    for _, group in groupby(known, same):
        first, *others = group
        for row in others:
            if _apart(row.flops_per_step, first.flops_per_step, ROUNDED):
                figures = {"flops": row.flops_per_step, "other": first.unit, "other_flops": first.flops_per_step}
                yield Violation("FLOPs", row.unit, figures)


def _apart(one: float | None, other: float | None, share: float) -> bool:
    """Return whether two figures are further apart than a share of the second; not where one is unknown."""
    return one is not None and other is not None and abs(one - other) > share * other
