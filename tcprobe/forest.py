"""How intervals lie within one another, without a loop over them: ranges of a thread, ops that call others."""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.grouping import Codes
from tcprobe.schema.columns import IntArray

NEVER: Final = np.iinfo(np.int64).max


class Forest(Struct, frozen=True):
    """Intervals that nest, each within its parent.

    Where they do, the number of those around a time is that of starts before it less that of
    ends, and the innermost is the last one started of that depth.
    """

    starts: IntArray  # of the ranges, ascending; of equal ones the longer range first
    ended: IntArray  # the ends of all, ascending
    depth: Codes  # number of ranges around each
    parent: Codes  # position of the innermost range around each; -1 where there is none
    order: Codes  # positions by depth, then as they stand; and a last one, -1, for no range
    keys: IntArray  # depth and position of each in that order, as one ascending number

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
        begun = np.searchsorted(self.starts, times, side="right")
        depth = begun - np.searchsorted(self.ended, times, side="right") - 1
        return self.order[np.searchsorted(self.keys, depth * (len(self.starts) + 1) + begun) - 1]


def _cut(starts: IntArray, ends: IntArray) -> IntArray:
    """Return the end of each range, at most that of the range around it, as it was cut."""
    cut, lasting = ends.tolist(), [NEVER]
    for row, start in enumerate(starts.tolist()):
        while lasting[-1] <= start:
            lasting.pop()
        cut[row] = min(cut[row], lasting[-1])
        lasting.append(cut[row])
    return np.array(cut, np.int64)
