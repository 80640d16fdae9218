"""Nest the ranges of one thread, and find the innermost around a time, without a loop over the ranges.

Where ranges lie within one another, the number of those around a time is that of starts before it less that of ends,
and the innermost is the last one started of that depth. Only ranges that cross others are looked at one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import Codes
from tcprobe.schema.columns import IntArray

NEVER: Final = np.iinfo(np.int64).max
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(31))
"""Constants of the generator SplitMix64."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Ranges of one thread, each within its parent.

    Attributes:
        starts: of the ranges, ascending; of equal ones the longer range first.
        ended: the ends of all, ascending.
        depth: number of ranges around each.
        parent: position of the innermost range around each; -1 where there is none.
        order: positions by depth, then as they stand; and a last one, -1, for no range.
        keys: depth and position of each in that order, as one ascending number.
    """

    starts: IntArray
    ended: IntArray
    depth: Codes
    parent: Codes
    order: Codes
    keys: IntArray

    @classmethod
    def of(cls, starts: IntArray, ends: IntArray) -> Forest:
        """Return how ranges nest; one that outlives the range around it counts until that one ends.

        Args:
            starts: ascending; of equal ones the longer range comes first.
            ends: after the start of each.
        """
        forest = cls._counted(starts, ends)
        inner = np.flatnonzero(forest.parent >= 0)
        # the first range that crosses one has a right parent, which ends before it
        if (ends[forest.parent[inner]] < ends[inner]).any():
            return cls._counted(starts, _cut(starts, ends))
        return forest

    @classmethod
    def _counted(cls, starts: IntArray, ends: IntArray) -> Forest:
        count, ended = len(starts), np.sort(ends)
        depth = np.arange(count, dtype=np.int32)
        depth -= np.searchsorted(ended, starts, side="right").astype(np.int32)
        narrow = depth.astype(np.uint16) if int(depth.max(initial=0)) < 1 << 16 else depth  # 16 bits sort at once
        order = np.full(count + 1, -1, np.int32)
        order[:-1] = np.argsort(narrow, kind="stable")
        keys = np.multiply(depth[order[:-1]], count + 1, dtype=np.int64)
        keys += order[:-1]
        parent = np.empty(count, np.int32)
        parent[order[:-1]] = order[np.searchsorted(keys, keys - (count + 1)) - 1]
        return cls(starts, ended, depth, parent, order, keys)

    def innermost(self, times: IntArray) -> Codes:
        """Return the position of the innermost range at each time; -1 where there is none."""
        return self.last(np.searchsorted(self.starts, times, side="right"), times)

    def last(self, begun: IntArray, times: IntArray) -> Codes:
        """Return the innermost of the first `begun` ranges that still last at each time; -1: none does."""
        depth = begun - np.searchsorted(self.ended, times, side="right") - 1
        place = np.searchsorted(self.keys, depth * (len(self.starts) + 1) + begun) - 1
        return self.order[place]


def _cut(starts: IntArray, ends: IntArray) -> IntArray:
    """Return the end of each range, at most that of the range around it.

    What crosses no range has the end that it was recorded with; of the others one after the other is cut, by the
    innermost range of either sort that lasts when it starts.
    """
    crosses = _may_cross(starts, ends)
    some, others = np.flatnonzero(crosses), np.flatnonzero(~crosses)
    forest = Forest._counted(starts[others], ends[others])
    around = forest.last(np.searchsorted(others, some), starts[some])
    limit = np.append(ends[others], NEVER)[around]
    cut, until = ends.copy(), [NEVER]
    each = zip(some.tolist(), starts[some].tolist(), np.minimum(ends[some], limit).tolist(), strict=True)
    for row, start, end in each:
        while until[-1] <= start:
            until.pop()
        until.append(min(end, until[-1]))
        cut[row] = until[-1]
    return cut


def _may_cross(starts: IntArray, ends: IntArray) -> NDArray[np.bool_]:
    """Return which ranges hold the start of a range without its end, or the reverse.

    What starts and what ends within a range are compared by sums of random numbers of 64 bits, one for each range.
    """
    count = len(starts)
    mark = np.arange(1, count + 1, dtype=np.uint64) * _MIX[0]
    mark = (mark ^ (mark >> _MIX[2])) * _MIX[1]
    mark ^= mark >> _MIX[2]
    by_end = np.lexsort((-np.arange(count), ends))
    place = np.empty(count, np.int64)
    place[by_end] = np.arange(count)
    nothing = np.zeros(1, np.uint64)
    begun, ended = (np.concatenate([nothing, np.cumsum(m)]) for m in (mark, mark[by_end]))
    before = np.searchsorted(ends[by_end], starts, side="right")
    crosses: NDArray[np.bool_] = begun[np.searchsorted(starts, ends)] - begun[1:] != ended[place] - ended[before]
    return crosses


def latest(starts: IntArray, ends: IntArray, times: IntArray, least: IntArray) -> Codes:
    """Return for each time the last range that has started by then and ends after `least`; -1 where there is none.

    Args:
        starts: ascending. The ranges may overlap in any way.
        ends: of each.
        times, least: a range holds a time that it ends after; another range, where it does not end before that.
    """
    tops = [ends]  # the latest end of 1, 2, 4, ... neighbours
    while len(tops[-1]) > 1:
        below = tops[-1] if len(tops[-1]) % 2 == 0 else np.append(tops[-1], -NEVER)
        tops[-1] = below
        tops.append(np.maximum(below[::2], below[1::2]))
    before = np.searchsorted(starts, times, side="right")
    node, height = np.full(len(times), -1), np.full(len(times), -1)
    for level, top in enumerate(tops):
        rows = np.flatnonzero((height < 0) & (before % 2 == 1))
        rows = rows[top[before[rows] - 1] > least[rows]]
        node[rows], height[rows] = before[rows] - 1, level
        before = before // 2
    for level in range(len(tops) - 2, -1, -1):
        rows = np.flatnonzero(height > level)
        node[rows] = 2 * node[rows] + 1
        node[rows] -= tops[level][node[rows]] <= least[rows]
    return node.astype(np.int32)
