"""Build small runs whose figures can be worked out by hand."""

from __future__ import annotations

from typing import Any

from tcprobe.analysis import analyse
from tcprobe.analysis.compare import compare
from tcprobe.schema.comparison import ComparedFigure, ComparedRow, Comparison
from tcprobe.schema.profile import Profile
from tests.analysis.builders import FP32, OTHER, TC, details, devices, launches, marks, profile, steps

CONV = ("model/conv/Conv2D", "Conv2D")
RELU = ("model/relu/Relu", "Relu")


def run(*rows: tuple[Any, ...], count: int = 2, dtype: str = "float32", **metadata: Any) -> Profile:
    """A run of marked steps of 1000 ns, each with the same launches: rows of (kernel, op, start, duration)."""
    made = [(k, op, i, 1000 * i + at, ns) for i in range(count) for k, op, at, ns in rows]
    marked, ops = marks([1000 * i for i in range(count)], 1000), details((*CONV, dtype), (*RELU, dtype))
    return analyse(profile(launches(*made), ops, marked, devices({}), gpu_used=True, **metadata))


def timed(lengths: list[int], kind: str = "measured") -> Profile:
    """A run of which the workload's clock alone tells: one step for each length, and a last one without."""
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    rows = [(i, start, ns, kind) for i, (start, ns) in enumerate(zip(starts, [*lengths, None], strict=True))]
    return analyse(profile(steps(*rows), gpu_used=False))


BEFORE = ((FP32, 0, 0, 400), (OTHER, 1, 500, 100))
AFTER = ((TC, 0, 0, 150), (OTHER, 1, 500, 100), (OTHER, 1, 700, 100))


def pair(*profiles: Profile) -> Comparison:
    return compare(profiles, [f"run {number}" for number in range(len(profiles))])


def figure(found: Comparison, metric: str) -> ComparedFigure:
    return next(one for one in found.figures if one.metric == metric)


def row(rows: tuple[ComparedRow, ...], name: str) -> ComparedRow:
    return next(one for one in rows if one.name == name)
