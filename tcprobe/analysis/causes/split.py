"""Divide the time of a GPU among the kernels that run: while n run at once, each has an n-th of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcprobe.analysis.grouping import Numbers, union_by
from tcprobe.schema.columns import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class DividedTime:
    """The window of one GPU, divided: `busy_ns` + `copy_ns` + `idle_ns` is its length.

    Attributes:
        parts_ns: of each kernel its part of the window, not rounded; they add up to `busy_ns`.
        busy_ns: time in which at least one kernel ran.
        copy_ns: time in which copies or sets ran and no kernel.
        idle_ns: the rest.
    """

    parts_ns: FloatArray
    busy_ns: int
    copy_ns: int
    idle_ns: int


def divide(
    window: tuple[int, int], kernels: tuple[IntArray, IntArray], copies: tuple[IntArray, IntArray]
) -> DividedTime:
    """Divide a GPU's window among its kernels, copies and idleness.

    Args:
        window: start and end, ns.
        kernels: starts and durations of its kernels; what lies outside the window does not count.
        copies: likewise of copies and sets.
    """
    begin, end = window
    start, stop = (np.clip(times, begin, end) for times in (kernels[0], kernels[0] + np.maximum(kernels[1], 0)))
    parts = _shares(start, stop)
    one = np.zeros(len(start), np.int32)
    busy = int(union_by(one, start, stop - start, 1)[0])
    both = (np.concatenate([kernels[0], copies[0]]), np.concatenate([kernels[1], copies[1]]))
    used = int(union_by(np.zeros(len(both[0]), np.int32), *both, 1, window)[0])
    return DividedTime(parts, busy, used - busy, end - begin - used)


def _shares(start: IntArray, stop: IntArray) -> FloatArray:
    """Return of each interval the integral of 1 / n over it, where n is how many intervals hold a moment."""
    if not len(start):
        return np.zeros(0)
    times = np.concatenate([start, stop])
    change = np.concatenate([np.ones(len(start), np.int64), np.full(len(stop), -1, np.int64)])
    order = np.argsort(times, kind="stable")
    sorted_times, running = times[order], np.cumsum(change[order])
    length = np.diff(sorted_times).astype(np.float64)
    each = np.where(running[:-1] > 0, length / np.maximum(running[:-1], 1), 0.0)
    passed = np.concatenate([[0.0], np.cumsum(each)])
    at = passed[np.searchsorted(sorted_times, times)]  # equal times have no time between them
    found: FloatArray = at[len(start) :] - at[: len(start)]
    return found


def whole_ns(parts: FloatArray, total: int) -> IntArray:
    """Return parts in whole ns that add up to `total`: the largest remainders are rounded up.

    Args:
        parts: 0 or more; they add up to `total` but for errors of arithmetic.
        total: 0 or more.
    """
    floors = np.floor(parts).astype(np.int64)
    left = int(total - floors.sum())
    order = np.lexsort((np.arange(len(parts)), floors - parts))
    if 0 < left <= len(parts):
        floors[order[:left]] += 1
    elif left and len(parts):
        floors[int(np.argmax(parts))] += left
    return floors


def spread_of(groups: Numbers, parts: FloatArray, count: int) -> FloatArray:
    """Return the sum of the parts of each of `count` groups; rows of group -1 are of none."""
    kept = groups >= 0
    found: FloatArray = np.bincount(groups[kept], weights=parts[kept], minlength=count).astype(np.float64)
    return found
