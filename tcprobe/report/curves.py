"""Curves of what workloads logged (losses, accuracies, throughput), thinned to what a picture can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from tcprobe import formatting as f
from tcprobe.report.drawn import CurveChart, Curves, Series
from tcprobe.schema.columns import Table

MOST_CHARTS: Final = 6
MOST_SERIES: Final = 12  # of a chart; a sweep may have hundreds of runs
MOST_POINTS: Final = 600  # of a curve: a page is no wider
THINNED: Final = f"Of more than {MOST_POINTS} steps, the least and the largest value of each stretch are drawn."
Logged = Mapping[str, Sequence[tuple[int, float]]]
"""What one run logged: name -> (step, value), by step."""


def logged_of(metrics: Table) -> dict[str, list[tuple[int, float]]]:
    """Return what a run logged in its steps, by name; of several values in one step the last."""
    logged: dict[str, dict[int, float]] = {}
    names, values = metrics.values("name"), metrics.numbers("value").tolist()
    for name, step, value in zip(names, metrics.values("step"), values, strict=True):
        if step is not None:
            logged.setdefault(str(name), {})[int(step)] = value
    return {name: sorted(series.items()) for name, series in logged.items()}


def curves_of(runs: Iterable[tuple[str, Logged]], title: str = "Losses and throughput") -> Curves | None:
    """Return a chart for each loss, accuracy and throughput with a curve for each run; None without two steps of one.

    Args:
        runs: what each run is called, and what it logged.
        title: text above the charts.
    """
    every = list(runs)
    names = sorted(filter(_is_followed, dict.fromkeys(name for _, logged in every for name in logged)), key=_order)
    charts, thinned = [], False
    for name in names:
        mine = [(label, logged[name]) for label, logged in every if len(logged.get(name, ())) > 1]
        if mine:
            charts.append(CurveChart(name, tuple(_series(label, points) for label, points in mine[:MOST_SERIES])))
            thinned |= any(len(points) > MOST_POINTS for _, points in mine)
    if not charts:
        return None
    left = len(charts) - MOST_CHARTS
    many = max(len(every), 1) > MOST_SERIES
    notes = (
        *((THINNED,) if thinned else ()),
        *((f"Of each figure {MOST_SERIES} runs are drawn; the tables have all.",) if many else ()),
        *((f"{left} more of these figures were logged, and are not drawn.",) if left > 0 else ()),
    )
    return Curves(title, tuple(charts[:MOST_CHARTS]), notes)


def _is_followed(name: str) -> bool:
    return any(word in name.lower() for word in ("loss", "acc", "throughput"))


def _order(name: str) -> tuple[bool, bool, str]:
    lower = name.lower()
    return "loss" not in lower, "throughput" in lower, name


def _series(label: str, points: Sequence[tuple[int, float]]) -> Series:
    last = points[-1][1]
    shown = thinned(points)
    values = tuple(value if math.isfinite(value) else None for _, value in shown)
    return Series(label, tuple(step for step, _ in shown), values, f.full_number(last, 4))


def thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return points in their order, of many the least and the largest of each stretch; one that is no number stays."""
    if len(points) <= MOST_POINTS:
        return list(points)
    kept: list[tuple[int, float]] = []
    for part in np.array_split(np.arange(len(points)), MOST_POINTS // 2):
        mine = [points[at] for at in part.tolist()]
        odd = [one for one in mine if not math.isfinite(one[1])]
        ends = {min(mine, key=lambda one: one[1]), max(mine, key=lambda one: one[1])} if not odd else {odd[0]}
        kept += sorted(ends)
    return kept
