"""Put the figures that the workloads logged side by side, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tcprobe.analysis.compare.basis import Run
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
    if not len(metrics):
        return {}
    names, values = metrics.names("name"), metrics.numbers("value")
    steps = np.nan_to_num(metrics.numbers("step"), nan=-1.0).astype(np.int64)
    order = np.lexsort((values, steps, names.ids))  # the values too: a sum depends on the order
    name, step, value = names.ids[order], steps[order], values[order]
    starts = np.flatnonzero(np.append(True, (np.diff(name) != 0) | (np.diff(step) != 0)))
    with np.errstate(invalid="ignore", over="ignore"):
        means = np.add.reduceat(value, starts) / np.diff(np.append(starts, len(value)))
    found: dict[str, Series] = {}
    for one, when, mean in zip(name[starts].tolist(), step[starts].tolist(), means.tolist(), strict=True):
        found.setdefault(names.names[one], {})[when if when >= 0 else None] = mean
    return found
