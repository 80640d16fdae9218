"""Build sweeps of made-up runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.sweep import result_of
from tcprobe.schema.comparison import Side
from tcprobe.schema.sweep import Combination, Factor, Plan, PlannedRun, RunFigures, SweepResult, SweepRun

NO_GPU = Side(None, reason="no GPU: its time was not measured")


def plan(factors: Mapping[str, Sequence[str]], repeat: int = 1, baseline: int = 1, workload: str = "gan") -> Plan:
    """A plan of all combinations; `precision` and `xla` are options, all else arguments."""
    made = tuple(
        Factor(name, "option" if name in ("precision", "xla") else "argument", name, tuple(values))
        for name, values in factors.items()
    )
    combinations = tuple(Combination(n, values) for n, values in enumerate(product(*factors.values()), 1))
    runs = tuple(
        PlannedRun(f"c{one.number:02}-r{turn}", one.number, turn)
        for turn in range(1, repeat + 1)
        for one in combinations
    )
    return Plan(workload, made, combinations, runs, baseline)


def figures(*steps: float, rates: Sequence[float] = (), logged: Any = None, **more: Any) -> RunFigures:
    """The figures of a run with steps of these lengths in ms."""
    lengths = np.array(steps) * 1e6
    rate = np.array(rates, dtype=np.float64)
    base = RunFigures(
        steps={"outside the profiler": lengths, "under the profiler": np.zeros(0)},
        rates={"outside the profiler": rate} if len(rate) else {},
        step=Side(float(np.median(lengths))) if steps else Side(None, reason="no step"),
        throughput=Side(float(np.median(rate))) if len(rate) else Side(None, reason="none was logged"),
        unit="img/s" if len(rate) else None,
        tc_pct=NO_GPU,
        busy_pct=NO_GPU,
        peak_bytes=None,
        flops=None,
        gpu_used=None,
        gpus=(),
        predicted=None,
        target=None,
        batch=None,
        logged={name: dict(enumerate(values)) for name, values in (logged or {}).items()},
    )
    return replace(base, **more)


def around(ms: float, count: int = 9) -> list[float]:
    """Lengths whose median is `ms`, spread by 2 %."""
    return [ms * (1.0 + 0.02 * (n % 5 - 2) / 2.0) for n in range(count)]


def result(made: Plan, runs: Sequence[RunFigures | None], **more: Any) -> SweepResult:
    """The result of runs in the order of the plan; None of one that failed."""
    held = [
        SweepRun(planned, "whole", figures=one) if one is not None else SweepRun(planned, "failed", "exit code 1")
        for planned, one in zip(made.runs, runs, strict=True)
    ]
    return result_of("sweep", made, held, **more)
