"""Tell whether two series of lengths differ by more than they vary by themselves: a bootstrap of the ratio of medians.

docs/compare.md gives the formulas, the reasons for them, and how often they call equal runs different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tcprobe.schema.columns import FloatArray
from tcprobe.schema.comparison import Interval

RESAMPLES: Final = 10_000
TAILS: Final = (0.025, 0.975)
NORMAL: Final = 1.959964  # quantile 0.975 of the normal distribution
MOST_ALIKE: Final = 0.95
DIGITS: Final = 9  # beyond the third: from there on rounding shows in no percentage
LONG: Final = 64  # samples from which blocks of them tell of slow drift


def ratio_interval(first: FloatArray, other: FloatArray, rounded: bool = False) -> Interval | None:
    """Return the change of the median with its 95 % interval; None where a length is 0 or below, or no number.

    Swapping the two gives the inverse ratio, and the same samples always give the same interval.

    Args:
        first, other: lengths in the order in which they were measured, at least two of each.
        rounded: whether they were logged with a few digits, so that each median is known to half of the last one alone.
    """
    if not all(np.isfinite(values).all() and (values > 0.0).all() for values in (first, other)):
        return None
    swapped = (len(other), other.tobytes()) < (len(first), first.tobytes())
    one, two = (other, first) if swapped else (first, other)
    likely = math.log(np.median(two)) - math.log(np.median(one))
    rng = np.random.default_rng((len(one), len(two)))
    ends = np.log(medians(two, rng)), np.log(medians(one, rng))
    drawn = ends[0] - ends[1]
    alike = likeness(one, two)
    wider = _widening((two, one), ends, alike)
    low, high = (likely + wider * (float(np.quantile(drawn, tail)) - likely) for tail in TAILS)
    if rounded:
        unsure = -sum(math.log1p(-_last_digit(values) / 2.0 / float(np.median(values))) for values in (one, two))
        low, high = low - unsure, high + unsure
    if swapped:
        low, likely, high = -high, -likely, -low
    pct = [100.0 * math.expm1(min(value, 700.0)) for value in (low, likely, high)]
    return Interval(pct[0], pct[1], pct[2], samples=(len(first), len(other)), likeness=alike)


def _last_digit(values: FloatArray) -> float:
    """Return the power of ten that all values are multiples of; at most that of the third digit of their median."""
    place = math.floor(math.log10(float(np.median(values)))) - 2
    for power in range(place, place - DIGITS, -1):
        scaled = values / 10.0**power
        if np.allclose(scaled, np.rint(scaled), rtol=0.0, atol=1e-6):
            return float(10.0**power)
    return 0.0


def medians(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the medians of `RESAMPLES` resamples, drawn with replacement, of as many values each.

    The median of n values drawn from n is an order statistic of n uniform ranks, whose distribution is Beta's: one
    draw gives a resample's median, so time and memory do not grow with the number of values.
    """
    ordered, count = np.sort(values), len(values)
    half = count // 2
    if count % 2:
        return ordered[_places(rng.beta(half + 1, half + 1, RESAMPLES), count)]
    lower = rng.beta(half, half + 1, RESAMPLES)
    upper = lower + (1.0 - lower) * rng.beta(1, half, RESAMPLES)
    return (ordered[_places(lower, count)] + ordered[_places(upper, count)]) / 2.0


def _places(shares: FloatArray, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.minimum((shares * count).astype(np.int64), count - 1)


def likeness(*series: FloatArray) -> float:
    """Return the correlation of successive ranks, 0-1: of all series together, and free of the bias of short ones.

    The mean of n correlated values follows them, so that their correlation seems smaller by (1 + 3r) / n (Kendall 1954,
    "Note on bias in the estimation of autocorrelation").
    """
    above = below = 0.0
    for values in series:
        ranks = _ranks(values)
        above += float((ranks[1:] * ranks[:-1]).sum()) / len(ranks)
        below += float((ranks * ranks).sum()) / len(ranks)
    count = sum(len(values) for values in series) / len(series)
    if below == 0.0 or count <= 4.0:
        return 0.0
    return min(max((above / below + 1.0 / count) / (1.0 - 3.0 / count), 0.0), MOST_ALIKE)


def _ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each value, the mean rank of equal ones, less the mean of all."""
    order = np.argsort(values, kind="stable")
    new = np.append(True, np.diff(values[order]) > 0)
    group = np.cumsum(new) - 1
    starts = np.append(np.flatnonzero(new), len(values))
    ranks = np.empty(len(values))
    ranks[order] = ((starts[:-1] + starts[1:] - 1) / 2.0)[group]
    return ranks - (len(values) - 1) / 2.0


def _widening(series: tuple[FloatArray, FloatArray], drawn: tuple[FloatArray, FloatArray], alike: float) -> float:
    """Return by how much successive samples that are alike, and few of them, widen the interval: 1 or more.

    The variance of a mean of n values of an autoregressive series of order 1 is (1 + r) / (1 - r) times that of
    independent ones: so many fewer samples count. Of so few the t distribution stands for the normal one.

    Args:
        series: the lengths of both runs.
        drawn: medians of resamples of each, as logarithms.
        alike: how alike successive samples are.
    """
    more = max((1.0 + alike) / (1.0 - alike), _drift(*series))
    spread = [float(one.var()) for one in drawn]
    return math.sqrt(more) * student(_degrees(spread, [len(values) / more for values in series])) / NORMAL


def _degrees(spread: Sequence[float], counts: Sequence[float]) -> float:
    """Return the degrees of freedom of a difference, 2 or more: of 8 samples against 1,000 about those of the 8.

    Welch 1947, "The generalization of Student's problem when several different population variances are involved".

    Args:
        spread: variance of each median.
        counts: independent samples that each is as good as.
    """
    whole = sum(spread)
    if whole <= 0.0:
        return max(sum(counts) - 2.0, 2.0)
    shares = (one / whole for one in spread)
    return max(1.0 / sum(part**2 / max(n - 1.0, 1.0) for part, n in zip(shares, counts, strict=True)), 2.0)


def _drift(*series: FloatArray) -> float:
    """Return by how much means of blocks of successive ranks vary more than those of independent ones: 1 or more.

    Slow drift under fast jitter hardly shows in neighbours. Blocks are of about sqrt(n) samples; series too short to
    have several are not asked.
    """
    spread = expected = 0.0
    for values in series:
        if len(values) < LONG:
            continue
        ranks = _ranks(values) / len(values)
        size = math.isqrt(len(ranks))
        blocks = ranks[: len(ranks) // size * size].reshape(-1, size).mean(axis=1)
        spread += float(blocks.var(ddof=1))
        expected += float(ranks.var()) / size
    return max(spread / expected, 1.0) if expected else 1.0


def student(degrees: float) -> float:
    """Return quantile 0.975 of the t distribution: Abramowitz and Stegun, 26.7.5, within 1 % from 2 degrees on."""
    z = NORMAL
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return z + sum(term / degrees ** (power + 1) for power, term in enumerate(terms))
