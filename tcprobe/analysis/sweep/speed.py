"""How many times as fast one combination is as another, and whether that is more than noise.

Two noises count. That of steps, as `tcprobe.analysis.compare.noise` judges it of the steps of both. And that of runs,
where combinations are repeated: the logarithm of a run's median is what its combination gives, plus what its round
gives (interleaved runs drift together), plus a rest whose variance is taken to be one for all combinations (a
randomised block design: Montgomery, Design and Analysis of Experiments, chapter 4). The wider interval holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tcprobe.analysis.compare.noise import ratio_interval, student
from tcprobe.schema.changes.comparison import FEWEST_STEPS
from tcprobe.schema.changes.sweep import Measure, Speedup, WhySpeed
from tcprobe.schema.columns import FloatArray

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
