"""Find what repeats in a sequence of numbers: launches of kernels, calls of a training.

The search is for lags at which most of a stretch equals what stands one lag before. How many numbers do at every lag at
once is a correlation, of random signs in place of the numbers; the lags where it is high are then looked at exactly.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.grouping import Numbers, count_by, distinct_numbers, distinct_rows, positions_in
from tcprobe.schema.columns import FloatArray, IntArray

LEAST_REPEATS: Final = 5  # of fewer, layers of one step that are alike by chance are as many
ALIKE: Final = 0.75  # of a period that must equal the one before; shapes that the data decides differ in a few launches
BRIDGED: Final = 2  # periods that may break the rule between two stretches of one unit: one more call shifts one period
LEAST_SHARE: Final = 0.25  # of the sequence that a unit covers: blocks of one stage of a network are fewer
BETTER: Final = 0.01  # of the sequence: a period that covers so much more beats a shorter one
MOST_UNITS: Final = 4
SIGNS: Final = 8  # correlations that are averaged
PEAKS: Final = 128  # lags at which the correlation is highest, mostly multiples of few
LOOKED_AT: Final = 16


class Repeats(Struct, frozen=True):
    """A unit that repeats: the regular ones, in order."""

    period: int  # numbers in a unit
    starts: IntArray  # index of the first number of each

    @property
    def end(self) -> int:
        """Return the index after the last unit."""
        return int(self.starts[-1]) + self.period


def find_repeats(values: Numbers, least: int = LEAST_REPEATS) -> list[Repeats]:
    """Return the units that repeat in a sequence, the one that covers most first; none overlap.

    A unit holds at least two distinct values. Of several periods the one counts that covers most, of such that cover as
    much the shortest: a step before its layers. A unit that some values more or less make irregular is no repeat, and
    interrupts none.

    Args:
        values: the sequence.
        least: times that a unit must repeat.
    """
    codes = positions_in(values, distinct_numbers(values)).astype(np.int64)
    codes = _by_first(codes)
    left = np.ones(len(codes), np.bool_)
    found: list[Repeats] = []
    while len(found) < MOST_UNITS and np.count_nonzero(left) >= max(2 * least, LEAST_SHARE * len(codes)):
        best = _best(codes, left, least)
        if best is None:
            break
        found.append(best)
        left[int(best.starts[0]) : best.end] = False
    return sorted(found, key=lambda one: -len(one.starts) * one.period)


def _by_first(codes: IntArray) -> IntArray:
    """Return the numbers renamed in order of their first place, which does not depend on how they were numbered."""
    first = np.full(int(codes.max(initial=-1)) + 1, len(codes))
    np.minimum.at(first, codes, np.arange(len(codes)))
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    renamed: IntArray = rank[codes]
    return renamed


def _best(codes: IntArray, left: NDArray[np.bool_], least: int) -> Repeats | None:
    """Return the unit that covers most of what is left."""
    weight = np.where(left, 1.0 - (count_by(codes, int(codes.max()) + 1) / len(codes))[codes], 0.0)
    best, covered = None, 0.0
    for period in _periods(codes, left, least):
        one = _unit(codes, weight, period, least)
        share = 0.0 if one is None else len(one.starts) * period / len(codes)
        if share >= LEAST_SHARE and share > covered + BETTER:
            best, covered = one, share
    return best


def _periods(codes: IntArray, left: NDArray[np.bool_], least: int) -> list[int]:
    """Return the lags at which most numbers equal those before, ascending, without multiples of one another."""
    longest = len(codes) // least
    if longest < 2:
        return []
    random, size = np.random.default_rng(len(codes)), 1 << (2 * len(codes) - 1).bit_length()
    power: FloatArray = np.zeros(size // 2 + 1)
    for _ in range(SIGNS):
        signs = random.permutation(np.arange(int(codes.max()) + 1) % 2 * 2.0 - 1.0)[codes]
        power += np.abs(np.fft.rfft(np.where(left, signs, 0.0), size)) ** 2
    alike = np.fft.irfft(power, size)[: longest + 1] / SIGNS
    alike /= len(codes) - np.arange(longest + 1)
    alike[:2] = -1.0
    peaks = np.argsort(-alike, kind="stable")[:PEAKS]
    chosen: list[int] = []
    for lag in sorted(peaks.tolist(), key=lambda lag: (-round(float(alike[lag]), 2), lag)):
        if lag > 1 and all(lag % other for other in chosen) and len(chosen) < LOOKED_AT:
            chosen.append(lag)
    return sorted(chosen)


def _unit(codes: IntArray, weight: FloatArray, period: int, least: int) -> Repeats | None:
    """Return what repeats with a period; None if nothing does often enough.

    Common values weigh little: two that are alike in most places need not repeat.
    """
    equal = np.append(np.zeros(period, np.bool_), codes[period:] == codes[:-period])
    summed = [np.append(0.0, np.cumsum(each)) for each in (equal * weight, weight)]
    same, total = (each[period:] - each[:-period] for each in summed)
    regular = np.concatenate([[False], (same >= ALIKE * total) & (total > 0), [False]])
    begins, ends = np.flatnonzero(~regular[:-1] & regular[1:]), np.flatnonzero(regular[:-1] & ~regular[1:]) - 1
    if not len(begins):
        return None
    longest = int(np.argmax(ends - begins))
    low, high = longest, longest
    while low and begins[low] - ends[low - 1] <= BRIDGED * period:
        low -= 1
    while high + 1 < len(begins) and begins[high + 1] - ends[high] <= BRIDGED * period:
        high += 1
    known, first = (max(_settles(equal, int(begins[at]), period) - period, 0) for at in (longest, low))
    if len(distinct_numbers(codes[known : known + period])) < 2:
        return None
    last = len(equal) - _settles(equal[::-1], len(equal) - int(ends[high]) - period, period)
    starts = _starts(codes[first:last], known - first, period)
    return Repeats(period, starts + first) if len(starts) >= least else None


def _settles(equal: NDArray[np.bool_], begin: int, period: int) -> int:
    """Return the index from which on most are equal, in a period of which most are."""
    gain = np.cumsum((equal[begin : begin + period] - ALIKE)[::-1])[::-1]
    return begin + int(np.argmax(gain))


def _starts(codes: IntArray, known: int, period: int) -> IntArray:
    """Return where each regular unit begins, by a run of values that a unit holds but once.

    Args:
        codes: the sequence, from the beginning of a unit on.
        known: beginning of a stretch of regular units.
        period: its length.
    """
    runs, length = codes, 1
    while length <= period:
        inside = runs[known : known + period]
        counts = count_by(runs, int(runs.max(initial=0)) + 1)
        once = count_by(inside, len(counts))[inside] == 1
        if once.any():
            offset = int(np.argmax(np.where(once, counts[inside], 0)))  # one that few irregular units lack
            places = np.flatnonzero(runs == inside[offset])
            starts = places - places[0] % period
            starts = starts[starts + period <= len(codes)]
            follows = np.diff(starts) == period
            regular: IntArray = starts[np.append(follows, follows[-1:])]  # no other begins after the last
            return regular
        _, pairs = distinct_rows(runs[:-length], runs[length:])
        runs, length = pairs.astype(np.int64), 2 * length
    return np.zeros(0, np.int64)
