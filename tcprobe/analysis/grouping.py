"""Sums and unions of intervals by group, without a loop over the rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.schema.columns import FloatArray, IntArray

DENSE_LIMIT: Final = 1 << 24  # up to so many possible keys, a table of them (128 MB) beats sorting the rows


def sum_by(groups: IntArray, values: NDArray[Any], count: int) -> IntArray:
    """Return the sum of `values` in each of `count` groups; exact up to 2**53."""
    return np.bincount(groups, weights=values, minlength=count).astype(np.int64)


def count_by(groups: IntArray, count: int) -> IntArray:
    """Return the number of rows in each of `count` groups."""
    return np.bincount(groups, minlength=count).astype(np.int64)


def union_by(groups: IntArray, starts: NDArray[Any], ends: NDArray[Any], count: int) -> IntArray:
    """Return the length of the union of the intervals in each of `count` groups.

    Args:
        groups: group of each interval, from 0.
        starts, ends: the intervals; one that ends before it starts counts as empty.
    """
    if not len(groups):
        return np.zeros(count, np.int64)
    order = np.lexsort((starts, groups))
    group, start, end = groups[order], starts[order], np.maximum(ends, starts)[order]
    reached = _running_end(group, end)
    first = np.r_[True, group[1:] != group[:-1]]
    covered = np.where(first, start, np.r_[start[:1], reached[:-1]])
    return sum_by(group, np.maximum(reached - np.maximum(start, covered), 0), count)


def _running_end(group: IntArray, end: NDArray[Any]) -> NDArray[Any]:
    """Return the latest end so far within each group, by ranks: times of any size cannot overflow."""
    by_end = np.argsort(end, kind="stable")
    rank = np.empty(len(end), np.int64)
    rank[by_end] = np.arange(len(end))
    latest = np.maximum.accumulate(rank + group * len(end)) - group * len(end)
    running: NDArray[Any] = end[by_end][latest]
    return running


def distinct(keys: IntArray, bound: int) -> tuple[IntArray, IntArray]:
    """Return the distinct keys in ascending order, and for each row the position of its key among them.

    Args:
        keys: from 0 to below `bound`.
        bound: number of possible keys.
    """
    if bound > DENSE_LIMIT:
        found, inverse = np.unique(keys, return_inverse=True)
        return found.astype(np.int64), inverse.astype(np.int64).ravel()
    present = np.zeros(bound, np.bool_)
    present[keys] = True
    found = np.flatnonzero(present).astype(np.int64)
    position = np.zeros(bound, np.int64)
    position[found] = np.arange(len(found))
    return found, position[keys]


def ratio_pct(part: NDArray[Any] | float, whole: NDArray[Any] | float) -> FloatArray:
    """Return 100 * part / whole; NaN where the whole is 0 or either is NaN."""
    above, below = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, np.clip(100.0 * above / np.where(below > 0, below, np.nan), 0.0, 100.0), np.nan)


def total(values: NDArray[Any]) -> float | None:
    """Return the sum of the known values; None where none is known."""
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return float(known.sum()) if len(known) else None


def distinct_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct numbers in ascending order; ``np.unique`` would load ``numpy.ma`` for that."""
    ordered = np.sort(values)
    different: NDArray[Any] = ordered[np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]]
    return different
