"""The losses of the runs side by side: their curves, and the runs whose losses leave those of the others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tcprobe.analysis.compare.rows import last_of
from tcprobe.schema.changes.sweep import Curve, LastValue, Stray, SweepRun
from tcprobe.schema.columns import FloatArray

CURVE: Final = re.compile(r"loss|(?<![a-z])acc(uracy)?(?![a-z])")
FEWEST_OTHERS: Final = 2
"""Other combinations that make a band: of two curves that part, nobody knows which one strays."""
FEWEST_STEPS: Final = 10
"""Steps that a run must share with the others."""
JITTER: Final = 4.0
"""Times the usual distance of single values from their smooth curve that the band is wider than the curves."""
LEVEL: Final = 0.1
"""Of the level of the curves: the least that the band is wider, as runs of equal seeds hardly differ."""
LEAST_END: Final = 0.1
"""Share of the steps, at the end, that a curve must be outside for: one that comes back has not left."""


def is_curve(name: str) -> bool:
    """Return whether a figure that a workload logs is one to follow: a loss or an accuracy, of validation too."""
    return CURVE.search(name.lower()) is not None and "scale" not in name.lower()


def curves_of(runs: Sequence[SweepRun]) -> tuple[Curve, ...]:
    """Return what each run logged of its losses and accuracies, losses first, then by name."""
    logged = [run.figures.logged if run.figures else {} for run in runs]
    names = sorted(
        {name for each in logged for name in each if is_curve(name)}, key=lambda n: ("loss" not in n.lower(), n)
    )
    return tuple(
        Curve(name, number, *zip(*points, strict=True))
        for name in names
        for number, each in enumerate(logged)
        if (points := sorted((step, value) for step, value in each.get(name, {}).items() if step is not None))
    )


def last_values(runs: Sequence[SweepRun]) -> dict[str, LastValue]:
    """Return the last value of each curve: the median of some runs; not finite where one of them ends so."""
    ends: dict[str, list[tuple[float, int | None]]] = {}
    for run in runs:
        for name, series in (run.figures.logged if run.figures else {}).items():
            value, since = last_of(series)
            if is_curve(name) and value is not None:
                ends.setdefault(name, []).append((value, since))
    return {name: LastValue(*_median(each)) for name, each in ends.items()}


def _median(ends: list[tuple[float, int | None]]) -> tuple[float, int | None]:
    odd = [end for end in ends if not math.isfinite(end[0])]
    return odd[0] if odd else (float(np.median([value for value, _ in ends])), None)


def strays_of(curves: Sequence[Curve], combinations: Sequence[int]) -> Iterator[Stray]:
    """Yield the runs whose losses end as no number, and those whose losses leave the band of all others.

    The band is of the runs of other combinations whose losses are finite to the end: between the lowest and the highest
    of their smoothed curves, wider at both ends by its own width, by what values scatter about one, or by a tenth of
    their level, whichever is most.

    Args:
        curves: of all runs.
        combinations: that of each run.
    """
    for name in dict.fromkeys(curve.name for curve in curves if "loss" in curve.name.lower()):
        mine = [curve for curve in curves if curve.name == name]
        for curve in mine:
            value, since = last_of(dict(zip(curve.steps, curve.values, strict=True)))
            if since is not None and value is not None:
                yield Stray(curve.run, name, "not finite", since, value)
        sane = [curve for curve in mine if all(map(math.isfinite, curve.values))]
        for curve in sane:
            others = [one for one in sane if combinations[one.run] != combinations[curve.run]]
            enough = len({combinations[one.run] for one in others}) >= FEWEST_OTHERS
            if enough and (step := _left_at(curve, others)) is not None:
                yield Stray(curve.run, name, "apart", step, curve.values[-1])


def _left_at(curve: Curve, others: Sequence[Curve]) -> int | None:
    """Return the step since which a curve is outside the band of others; None where it is not, at the end."""
    steps = sorted(set(curve.steps).intersection(*(one.steps for one in others)))
    if len(steps) < FEWEST_STEPS:
        return None
    raw = np.array([_at(one, steps) for one in (curve, *others)])
    smooth = np.array([_smoothed(each) for each in raw])
    scatter = float(np.median(np.abs(raw - smooth), axis=1).max())
    low, high = smooth[1:].min(axis=0), smooth[1:].max(axis=0)
    margin = np.maximum(np.maximum(high - low, JITTER * scatter), LEVEL * np.abs(np.median(smooth[1:], axis=0)))
    inside = np.flatnonzero((smooth[0] >= low - margin) & (smooth[0] <= high + margin))
    first = int(inside[-1]) + 1 if len(inside) else 0
    return steps[first] if len(steps) - first >= max(3, LEAST_END * len(steps)) else None


def _at(curve: Curve, steps: Sequence[int]) -> list[float]:
    values = dict(zip(curve.steps, curve.values, strict=True))
    return [values[step] for step in steps]


def _smoothed(values: FloatArray) -> FloatArray:
    """Return the running median of a tenth of the values, at least 3."""
    half = max(1, len(values) // 20)
    padded = np.pad(values, half, mode="edge")
    smooth: FloatArray = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    return smooth
