"""How many times as fast one combination is as another, and whether that is more than noise.

Two noises count. That of steps, as `tcprobe.analysis.compare.noise` judges it of the steps of both. And that of runs,
where combinations are repeated: the logarithm of a run's median is what its combination gives, plus what its round
gives (interleaved runs drift together), plus a rest whose variance is taken to be one for all combinations (a
randomised block design: Montgomery, Design and Analysis of Experiments, chapter 4). The wider interval holds.

What each change gives: beside its others, by itself, in the mean over all settings, and in pairs.

The losses of the runs side by side: their curves, and the runs whose losses leave those of the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np

from tcprobe.analysis.compare.noise import ratio_interval, student
from tcprobe.analysis.compare.rows import last_of
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.comparison import FEWEST_STEPS
from tcprobe.schema.sweep import Change, Curve, Gain, LastValue, Measure, Plan, Speedup, Stray, SweepRun, WhySpeed

FEWEST_DEGREES: Final = 2
"""Degrees of freedom of the rest under which nothing is told from it: the t distribution of 1 says next to nothing."""


class Measured(NamedTuple):
    """One run: its combination, its round, and its steps; a single figure where no steps are known."""

    combination: int
    repeat: int
    samples: FloatArray  # lengths, or rates; all above 0


class _Fit(NamedTuple):
    places: dict[int, int]  # combination -> its column
    level: FloatArray  # logarithm of the speed of each
    covariance: FloatArray  # of the levels, for a rest of variance 1
    variance: float | None  # of the rest; None where there are too few runs
    degrees: int


class Speeds:
    """The speeds of combinations.

    Args:
        runs: at least one.
        measure: what their samples are.
    """

    def __init__(self, runs: Sequence[Measured], measure: Measure) -> None:
        self.measure = measure
        ordered = sorted(runs, key=lambda run: run.repeat)
        self._pooled = {
            each: np.concatenate([run.samples for run in ordered if run.combination == each])
            for each in {run.combination for run in runs}
        }
        self._fit = self._fitted(ordered)

    def _fitted(self, runs: Sequence[Measured]) -> _Fit:
        sign = 1.0 if self.measure == "throughput" else -1.0
        speeds = np.array([sign * math.log(float(np.median(run.samples))) for run in runs])
        places = {each: at for at, each in enumerate(sorted(self._pooled))}
        rounds = sorted({run.repeat for run in runs})
        design = np.zeros((len(runs), len(places) + len(rounds) - 1))
        for row, run in enumerate(runs):
            design[row, places[run.combination]] = 1.0
            if run.repeat != rounds[0]:
                design[row, len(places) + rounds.index(run.repeat) - 1] = 1.0
        levels, _, rank, _ = np.linalg.lstsq(design, speeds, rcond=None)
        degrees = len(runs) - int(rank)
        rest = float(((speeds - design @ levels) ** 2).sum())
        covariance: FloatArray = np.linalg.pinv(design.T @ design).astype(np.float64)
        return _Fit(places, levels, covariance, rest / degrees if degrees >= FEWEST_DEGREES else None, degrees)

    @property
    def known(self) -> list[int]:
        """Combinations with figures, the fastest first."""
        return sorted(self._pooled, key=lambda each: (-self._fit.level[self._fit.places[each]], each))

    def over(self, one: int, other: int) -> Speedup:
        """Return how many times as fast one combination is as another."""
        if one not in self._pooled or other not in self._pooled:
            return Speedup("not known", why="not measured")
        if one == other:
            return Speedup("same", 1.0, 1.0, 1.0)
        of_runs, of_steps = self.contrast({one: 1.0, other: -1.0}), self._of_steps(one, other)
        if isinstance(of_steps, str):
            return of_runs if of_runs.low is not None else Speedup("cannot tell", of_runs.ratio, why=of_steps)
        if of_runs.low is None or of_runs.high is None or of_steps.low is None or of_steps.high is None:
            return of_steps
        return _judged(of_steps.ratio or 1.0, min(of_runs.low, of_steps.low), max(of_runs.high, of_steps.high))

    def _of_steps(self, one: int, other: int) -> Speedup | WhySpeed:
        """Return what the steps of both say by themselves, or why they do not."""
        mine, theirs = self._pooled[one], self._pooled[other]
        fewest = min(len(mine), len(theirs))
        if fewest < FEWEST_STEPS:
            return "few steps" if fewest > 1 else "one figure"
        rates = self.measure == "throughput"
        found = ratio_interval(theirs, mine, rounded=True) if rates else ratio_interval(mine, theirs)
        if found is None:
            return "one figure"
        ends = (found.likely_pct, found.low_pct, found.high_pct)
        return _judged(*(1.0 + pct / 100.0 for pct in ends))

    def contrast(self, weights: Mapping[int, float]) -> Speedup:
        """Return the product of speeds, each to the power of its weight; the weights add up to 0.

        Without enough repeats the ratio alone is known.
        """
        fit = self._fit
        by = np.zeros(len(fit.level))
        for each, weight in weights.items():
            by[fit.places[each]] = weight
        likely = float(by @ fit.level)
        if fit.variance is None:
            return Speedup("cannot tell", math.exp(likely), why="no repeats")
        wide = student(fit.degrees) * math.sqrt(max(fit.variance * float(by @ fit.covariance @ by), 0.0))
        return _judged(math.exp(likely), math.exp(likely - wide), math.exp(likely + wide))


def _judged(ratio: float, low: float, high: float) -> Speedup:
    return Speedup("faster" if low > 1.0 else "slower" if high < 1.0 else "within noise", ratio, low, high)


Values = tuple[str, ...]


def gains_of(plan: Plan, speeds: Speeds, fastest: int) -> Iterator[Gain]:
    """Yield what every change gives over the baseline's value, as far as what it is held against was run.

    Args:
        plan: of the sweep.
        speeds: of its combinations.
        fastest: number of the fastest combination.
    """
    known = set(speeds.known)
    found = {one.values: one.number for one in plan.combinations if one.number in known}
    base = plan.combination(plan.baseline).values
    changes = [(at, value) for at, factor in enumerate(plan.factors) for value in factor.values if value != base[at]]
    for values, number in found.items():
        mine = [at for at, value in enumerate(values) if value != base[at]]
        for at in mine:
            change = (Change(plan.factors[at].name, values[at], base[at]),)
            if (without := _with(values, at, base[at])) in found:
                yield Gain("beside", change, speeds.over(number, found[without]), number)
            alone = found.get(_with(base, at, values[at]))
            if number == fastest and len(mine) > 1 and alone is not None and base in found:
                yield Gain("alone", change, speeds.over(alone, found[base]), number)
    of_one, of_two = ([*combinations(changes, count)] for count in (1, 2))
    for chosen in (*of_one, *(pair for pair in of_two if pair[0][0] != pair[1][0])):
        if squares := _squares(found, base, dict(chosen)):
            named = tuple(Change(plan.factors[at].name, value, base[at]) for at, value in chosen)
            speedup = speeds.contrast(_mean(squares))
            yield Gain("mean" if len(chosen) == 1 else "pair", named, speedup, contexts=len(squares))


def _with(values: Values, at: int, value: str) -> Values:
    return (*values[:at], value, *values[at + 1 :])


def _squares(found: Mapping[Values, int], base: Values, changed: Mapping[int, str]) -> list[dict[int, float]]:
    """Return, for each setting of the other factors, the combinations with and without some changes, if all were run.

    Those with all changes count 1, those without one of them -1, those without two 1 again.
    """
    squares = []
    for setting in found:
        if all(setting[at] == value for at, value in changed.items()):
            corners = {setting: 1.0}
            for at in changed:
                corners |= {_with(each, at, base[at]): -weight for each, weight in corners.items()}
            if corners.keys() <= found.keys():
                squares.append({found[each]: weight for each, weight in corners.items()})
    return squares


def _mean(squares: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the weights of the mean of contrasts."""
    weights: dict[int, float] = {}
    for square in squares:
        for number, weight in square.items():
            weights[number] = weights.get(number, 0.0) + weight / len(squares)
    return weights


CURVE: Final = re.compile(r"loss|(?<![a-z])acc(uracy)?(?![a-z])")
FEWEST_OTHERS: Final = 2
"""Other combinations that make a band: of two curves that part, nobody knows which one strays."""
FEWEST_SHARED: Final = 10
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
    if len(steps) < FEWEST_SHARED:
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
