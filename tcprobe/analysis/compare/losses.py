"""Put the figures that the workloads logged side by side, step by step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tcprobe.analysis.compare.basis import Run
from tcprobe.analysis.grouping import distinct_rows, rows_by_group
from tcprobe.schema.changes.comparison import Loss
from tcprobe.schema.columns import Table

Series: TypeAlias = dict[int | None, float]
"""Step -> what was logged in it; None: before the first step."""


def losses_of(runs: Sequence[Run]) -> tuple[Loss, ...]:
    """Return what the workloads logged, losses first, then by name; a name that one run logged alone has no steps."""
    logged = [_by_name(run.profile.require("metrics")) for run in runs]
    names = sorted({name for found in logged for name in found}, key=lambda name: ("loss" not in name.lower(), name))
    return tuple(_loss(name, [found.get(name, {}) for found in logged]) for name in names)


def _loss(name: str, series: Sequence[Series]) -> Loss:
    seen = Counter(step for one in series for step in one if step is not None)
    steps = tuple(sorted(step for step, runs in seen.items() if runs > 1))
    return Loss(name, steps, tuple(tuple(one.get(step) for step in steps) for one in series), tuple(map(_last, series)))


def _last(series: Series) -> float | None:
    return series[max(series, key=lambda step: -1 if step is None else step)] if series else None


def _by_name(metrics: Table) -> dict[str, Series]:
    """Return what was logged under each name; of several values in one step their mean."""
    names, values = metrics.names("name"), metrics.numbers("value")
    if not len(metrics):
        return {}
    steps = np.nan_to_num(metrics.numbers("step"), nan=-1.0).astype(np.int64)
    (name, step), group = distinct_rows(names.ids.astype(np.int64), steps)
    found: dict[str, Series] = {}
    rows = rows_by_group(group, len(name))
    for one, when, mine in zip(name.tolist(), step.tolist(), rows, strict=True):
        logged = values[mine].tolist()
        mean = logged[0] if len(logged) == 1 else _mean(logged)
        found.setdefault(names.names[one], {})[when if when >= 0 else None] = mean
    return found


def _mean(values: list[float]) -> float:
    """Return the mean; of what is no number or beyond all numbers that."""
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
