"""How well predicted times agree with measured ones."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Predicted:
    """A product's measured time, its likely time as predicted, and the range of that; in ns."""

    time_ns: float
    ns: float
    low_ns: float
    high_ns: float

    @property
    def error_pct(self) -> float:
        """Return how far the prediction is above the measured time, in percent of that."""
        return 100 * (self.ns / self.time_ns - 1)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Figures of products, in percent of measured times.

    Attributes:
        products: their number.
        error_pct, median_pct: mean and median of the absolute error.
        bias_pct: mean error; above 0 where predictions are too slow.
        near_pct: share of products less than 25 % off.
        in_range_pct: share of products within the predicted range.
        width: median of the range's upper over its lower end.
    """

    products: int
    error_pct: float
    bias_pct: float
    median_pct: float
    near_pct: float
    in_range_pct: float
    width: float


def accuracy(found: Sequence[Predicted]) -> Accuracy:
    """Return the figures of one product or more."""
    signed = [one.error_pct for one in found]
    off = [abs(error) for error in signed]
    inside = sum(one.low_ns <= one.time_ns <= one.high_ns for one in found)
    return Accuracy(
        len(found),
        statistics.fmean(off),
        statistics.fmean(signed),
        statistics.median(off),
        100 * sum(error <= 25 for error in off) / len(off),
        100 * inside / len(off),
        statistics.median(one.high_ns / one.low_ns for one in found),
    )
