"""Number distinct rows, and sum, count and unite intervals by group, without a loop over the rows.

Groups are numbered from 0; -1 stands for rows of no group and for values that are not there. Each function takes time
and memory in proportion to the rows (or that of sorting them), however many the groups are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tcprobe.schema.columns import FloatArray, IntArray

Numbers: TypeAlias = NDArray[np.integer[Any]]
_Time = TypeVar("_Time", np.int64, np.float64)
"""Whole numbers of any width."""
Codes: TypeAlias = NDArray[np.int32]
"""For each row the number of its group, or of its place in a list."""

DENSE_LIMIT: Final = 2  # up to so many possible values for each row, a table of them beats sorting the rows
LEAST_DENSE: Final = 1 << 16
WIDEST: Final = 1 << 62
BLOCK: Final = 1 << 16  # rows, of which temporary arrays stay in the processor's cache


def sum_by(groups: Numbers, values: Numbers | int, count: int) -> IntArray:
    """Return the exact sum of `values` in each of `count` groups."""
    sums = np.zeros(count + 1, np.int64)  # the last is that of no group
    np.add.at(sums, groups, values)
    return sums[:count]


def count_by(groups: Numbers, count: int) -> IntArray:
    """Return the number of rows in each of `count` groups."""
    return sum_by(groups, 1, count)


def rows_by_group(groups: Numbers, count: int) -> list[IntArray]:
    """Return the rows of each of `count` groups, in ascending order."""
    narrow = groups.astype(np.int16) if count < 1 << 15 else groups  # 16 bits sort at once
    order, sizes = np.argsort(narrow, kind="stable"), count_by(groups, count)
    ends = len(groups) - sizes.sum() + np.cumsum(sizes)  # rows of no group come first
    return [order[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]


def union_by(
    groups: Numbers, starts: IntArray, durations: IntArray, count: int, window: tuple[int, int] | None = None
) -> IntArray:
    """Return the time that the intervals of each of `count` groups cover together.

    Args:
        groups: group of each interval.
        starts, durations: the intervals; one of negative duration counts as empty.
        count: number of groups.
        window: start and end of the time that counts; None: all.
    """
    if not len(groups):
        return np.zeros(count, np.int64)
    low, high = int(starts.min()), int(starts.max()) + max(int(durations.max()), 0)
    if window:
        low, high = (min(max(time, window[0]), window[1]) for time in (low, high))
    width = high - low + 1
    if count == 1:
        low = width = 0  # times of any size cannot overflow
        if not (kept := groups == 0).all():
            return union_by(groups[kept], starts[kept], durations[kept], 1, window)
    elif (count + 1) * width > WIDEST:
        half, later = count // 2, groups >= count // 2
        parts = ((~later, groups, half), (later, groups - half, count - half))
        return np.concatenate([union_by(g[i], starts[i], durations[i], n, window) for i, g, n in parts])
    start, end = np.empty((2, len(groups)), np.int64)
    for first in range(0, len(groups), BLOCK):
        rows = slice(first, first + BLOCK)
        begun, ended = starts[rows], starts[rows] + np.maximum(durations[rows], 0)
        if window:
            begun, ended = np.clip(begun, *window), np.clip(ended, *window)
        shift = np.multiply(groups[rows], width, dtype=np.int64) - low  # one group after the other on one line of time
        np.add(begun, shift, out=start[rows])
        np.add(ended, shift, out=end[rows])
    return _covered(start, end, count_by(groups, count))


def merged(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """Return the starts and ends of what intervals, one or more, cover together: in order, none touching the next."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    new = np.flatnonzero(np.append(True, start[1:] > end[:-1]))
    return start[new], end[np.append(new[1:] - 1, len(end) - 1)]


def covered_until(at: NDArray[_Time], start: IntArray, end: IntArray) -> NDArray[_Time]:
    """Return how much of intervals, in order and none touching the next (`merged`), has passed at each time."""
    before, place = np.append(0, np.cumsum(end - start)), np.searchsorted(start, at, "right")
    last = np.maximum(place - 1, 0)
    return np.where(place > 0, before[last] + np.minimum(at, end[last]) - start[last], 0)


def _covered(start: IntArray, end: IntArray, sizes: IntArray) -> IntArray:
    """Return the time covered in each group of intervals on one line of time, group after group; rows of none first.

    Starts and ends are sorted apart: where one more interval has ended than begun before some start, nothing ran, and
    which end belongs to which start does not matter.
    """
    start.sort()
    end.sort()
    np.maximum(start[1:], end[:-1], out=start[1:])
    end -= start
    first = len(end) - sizes.sum() + np.cumsum(sizes) - sizes
    covered = np.zeros(len(sizes), np.int64)
    covered[sizes > 0] = np.add.reduceat(end, first[sizes > 0])
    return covered


def distinct(keys: Numbers, bound: int) -> tuple[IntArray, Codes]:
    """Return the distinct keys in ascending order, and for each row the position of its key among them.

    Args:
        keys: from 0 to below `bound`.
        bound: number of possible keys.
    """
    if _is_dense(bound, keys):
        found = _present(keys, bound)
        position = np.empty(bound, np.int32)
        position[found] = np.arange(len(found))
        return found, position[keys]
    order = np.argsort(keys)
    ordered = keys[order].astype(np.int64)
    new = _differs(ordered)
    codes = np.empty(len(keys), np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], codes


def _is_dense(bound: int, rows: Numbers) -> bool:
    return bound <= max(DENSE_LIMIT * len(rows), LEAST_DENSE)


def distinct_rows(*columns: Numbers) -> tuple[list[IntArray], Codes]:
    """Return the distinct rows of some columns, by column and in ascending order, and for each row its place there."""
    found: list[IntArray] = []
    codes = np.zeros(len(columns[0]), np.int32)
    for column in columns if len(codes) else ():
        low, high = int(column.min()), int(column.max())
        if _is_dense(high - low + 1, column):
            values, place = np.arange(low, high + 1), column
        else:
            values, low = distinct_numbers(column), 0
            place = np.searchsorted(values, column)
        keys = np.multiply(codes, len(values), dtype=np.int64)
        keys += place
        keys -= low
        rows, codes = distinct(keys, (len(found[0]) if found else 1) * len(values))
        before, value = np.divmod(rows, len(values))
        found = [*(part[before] for part in found), values[value]]
    return found or [np.zeros(0, np.int64) for _ in columns], codes


def distinct_numbers(values: Numbers) -> IntArray:
    """Return the distinct numbers in ascending order; ``np.unique`` would load ``numpy.ma`` for that."""
    if len(values):
        low, high = int(values.min()), int(values.max())
        if _is_dense(high - low + 1, values):
            return _present(values - low, high - low + 1) + low
    ordered = np.sort(values).astype(np.int64)
    return ordered[_differs(ordered)]


def _present(keys: Numbers, bound: int) -> IntArray:
    """Return which keys below `bound` occur, in ascending order."""
    present = np.zeros(bound, np.bool_)
    present[keys] = True
    return np.flatnonzero(present)


def _differs(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row whether it differs from the one before it."""
    new: NDArray[np.bool_] = np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]
    return new


def positions_in(values: Numbers, numbers: IntArray) -> Codes:
    """Return the position of each value among `numbers`, which ascend; -1 where it is not there."""
    if not len(numbers):
        return np.full(len(values), -1, np.int32)
    low, size = int(numbers[0]), int(numbers[-1]) - int(numbers[0]) + 1
    if _is_dense(size, values):
        position = np.full(size + 1, -1, np.int32)  # the last is that of what is not there
        position[numbers - low] = np.arange(len(numbers))
        return position[np.clip(values - low, -1, size)]
    place = np.searchsorted(numbers, values).clip(max=len(numbers) - 1)
    return np.where(numbers[place] == values, place, -1).astype(np.int32)


def ranks(values: Sequence[Any]) -> IntArray:
    """Return the place of each value in ascending order; equal ones have one place."""
    index = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([index[value] for value in values], dtype=np.int64)


def ratio_pct(part: NDArray[Any] | float, whole: NDArray[Any] | float) -> FloatArray:
    """Return 100 * part / whole; NaN where the whole is 0 or either is NaN."""
    above, below = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, np.clip(100.0 * above / np.where(below > 0, below, np.nan), 0.0, 100.0), np.nan)


def known_total(values: NDArray[Any]) -> float | None:
    """Return the sum of the known values; None where none is known."""
    known = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return float(known.sum()) if len(known) else None


def lasting_since(values: NDArray[Any]) -> int | None:
    """Return the row from which on values are the NaN, or the infinity, that the last one is; None: it is finite."""
    if not len(values) or np.isfinite(values[-1]):
        return None
    others = np.flatnonzero((values != values[-1]) & ~(np.isnan(values) & np.isnan(values[-1])))
    return int(others[-1]) + 1 if len(others) else 0
