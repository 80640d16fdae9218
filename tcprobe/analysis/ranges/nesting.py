"""Nest the ranges of each thread, and find those around each launch, by the thread and the time of the call.

Ranges that were pushed and popped nest. Ranges that were started and ended (`ranges.nests` is false) may overlap, and
end on another thread; they hold calls of the thread on which they began, until they end:

- A pushed range always stands within started ones. Of the launches in no pushed range, and of the outermost pushed
  ranges as a whole, the started range around is
- one that began and ended on the thread before one that ended on another, and
- of several the one that started last. No other started range is around it.

Sum how long NVTX ranges last on the host, by domain and name: what a recording without kernels tells too.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.forest import NEVER, Forest
from tcprobe.grouping import (
    Codes,
    Numbers,
    count_by,
    distinct_numbers,
    distinct_rows,
    positions_in,
    rows_by_group,
    sum_by,
)
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import RANGE_TIMES

MOST_LEVELS: Final = 200
"""Ranges around one another; what paths take grows with them. More is no nesting that somebody marked."""


class Paths(Struct, frozen=True):
    """Ranges that are alike, in ranges that are alike."""

    outer: Codes  # path around each; -1 where there is none
    alike: Codes  # what the ranges of each are, as a number
    of_range: Codes  # path of each range, and a last one, -1, for no range


class Around(Struct, frozen=True):
    """The ranges around launches."""

    ranges: Table  # all of the profile
    # those that are around a launch, ascending row numbers of `ranges`; what follows gives their positions
    rows: IntArray
    parent: Codes  # the range around each; -1 where there is none
    levels: list[Codes]  # those of each depth, the outermost first
    inner: Codes  # innermost range around each launch; -1 where there is none, or the time of the call is not known

    def names(self, column: str) -> Names:
        """Return a column of strings of the ranges around launches."""
        return self.ranges.names(column).take(self.rows)

    def nearest(self, own: Codes) -> Codes:
        """Return the number of each range, or of the nearest around it that has one; a last one, -1, is of no range.

        Args:
            own: number of each range; -1 where it has none.
        """
        numbers = np.append(own, np.int32(-1))
        for rows in self.levels[1:]:
            none = rows[numbers[rows] == -1]
            numbers[none] = numbers[self.parent[none]]
        return numbers

    def paths(self, alike: Codes) -> Paths:
        """Return the paths of the ranges.

        Args:
            alike: number of what each range is; one of -1 counts as if it were not there.
        """
        path, outer, kinds = np.full(len(alike) + 1, -1, np.int32), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        count = 0
        for rows in self.levels:
            above, mine = path[self.parent[rows]], alike[rows]
            path[rows] = above
            own = mine >= 0
            (outers, alikes), place = distinct_rows(above[own], mine[own])
            path[rows[own]] = place + count
            count += len(alikes)
            outer.append(outers)
            kinds.append(alikes)
        return Paths(np.concatenate(outer).astype(np.int32), np.concatenate(kinds).astype(np.int32), path)


class Nested(Struct, frozen=True):
    """All ranges as they nest, before those around no launch are left out; as `Around` has them."""

    ranges: Table
    parent: Codes
    level: Codes
    inner: Codes

    @property
    def deep(self) -> int:
        """Return how many ranges hold nothing, as they lie too deep."""
        return int(np.count_nonzero(self.level > MOST_LEVELS))

    def around(self, *rows: Numbers) -> IntArray:
        """Return ranges, each once, and all around them, ascending; -1 is none."""
        return closed(self.parent, np.concatenate(rows))

    def kept(self, *more: IntArray) -> Around:
        """Return the ranges around launches, and around `more` rows of ranges."""
        rows = self.around(self.inner, *more)
        place = np.full(len(self.parent) + 1, -1, np.int32)  # the last is that of no range
        place[rows] = np.arange(len(rows))
        level = self.level[rows]
        levels = [each.astype(np.int32) for each in rows_by_group(level, int(level.max(initial=-1)) + 1)]
        return Around(self.ranges, rows, place[self.parent[rows]], levels, place[self.inner])

    def nest_thread(self, rows: IntArray, calls: IntArray, times: IntArray) -> None:
        """Nest the ranges of one thread; what lies deeper than `MOST_LEVELS` holds nothing.

        Args:
            rows: its ranges.
            calls, times: its launches, and when each was called.
        """
        pushed = self.ranges.numbers("nests")[rows] != 0.0
        stack, started = rows[pushed], rows[~pushed]
        order, forest = _forest(self.ranges, stack)
        if len(deep := order[:-1][forest.depth >= MOST_LEVELS]):
            self.level[deep] = MOST_LEVELS + 1
            order, forest = _forest(self.ranges, np.setdiff1d(stack, deep))
        self.parent[order[:-1]], self.level[order[:-1]] = order[forest.parent], forest.depth
        self.inner[calls] = order[forest.innermost(times)]
        if not len(started):
            return
        free, roots = calls[self.inner[calls] < 0], order[:-1][forest.parent < 0]
        start, spent = self.ranges.numbers("start_ns")[roots], self.ranges.numbers("duration_ns")[roots]
        alone = times[self.inner[calls] < 0]
        outside = _started(
            self.ranges, started, np.concatenate([start, alone]), np.concatenate([start + spent - 1, alone])
        )
        self.parent[roots], self.inner[free] = outside[: len(roots)], outside[len(roots) :]
        self.level[order[:-1]] += 1


def nest(ranges: Table, launches: Table) -> Nested:
    """Nest ranges by thread, and find the innermost around the call of each launch.

    Threads that are known of no range or of no launch count as one.
    """
    called, count = launches.numbers("launch_ns"), len(ranges)
    thread, caller, threads = _threads(ranges.numbers("thread"), launches.numbers("thread"))
    caller[np.isnan(called)] = -1
    of_threads = zip(rows_by_group(thread, threads), rows_by_group(caller, threads), strict=True)
    del thread, caller
    nothing = (np.full(count, -1, np.int32), np.zeros(count, np.int32), np.full(len(called), -1, np.int32))
    nested = Nested(ranges, *nothing)
    for rows, calls in of_threads:
        nested.nest_thread(rows, calls, called[calls].astype(np.int64))
    return nested


def closed(parent: Codes, rows: Numbers) -> IntArray:
    """Return these ranges and all around them, ascending; -1 is none."""
    held = np.zeros(len(parent) + 1, np.bool_)
    held[-1] = True  # no range
    rows = rows[rows >= 0]
    while len(rows):
        held[rows] = True
        rows = parent[rows]
        rows = distinct_numbers(rows[~held[rows]])
    return np.flatnonzero(held[:-1])


def _threads(of_ranges: FloatArray, of_launches: FloatArray) -> tuple[Codes, Codes, int]:
    """Return the number of the thread of each range and launch, and how many there are; -1: of no range."""
    if np.isnan(of_ranges).all() or np.isnan(of_launches).all():
        return np.zeros(len(of_ranges), np.int32), np.zeros(len(of_launches), np.int32), 1
    mine, callers = (np.nan_to_num(each, nan=-1.0).astype(np.int64) for each in (of_ranges, of_launches))
    numbers = distinct_numbers(mine)
    return positions_in(mine, numbers), positions_in(callers, numbers), len(numbers)


def _forest(ranges: Table, rows: IntArray) -> tuple[Codes, Forest]:
    """Return ranges of one thread as they nest, and the row of each, and of none; what has no length holds nothing."""
    spent = ranges.numbers("duration_ns")[rows]
    if not (spent > 0).all():
        rows, spent = rows[spent > 0], spent[spent > 0]
    starts = ranges.numbers("start_ns")[rows]
    ends = starts + spent
    del spent
    if ((starts[1:] < starts[:-1]) | ((starts[1:] == starts[:-1]) & (ends[1:] > ends[:-1]))).any():
        order = np.lexsort((-ends, starts))
        rows, starts, ends = rows[order], starts[order], ends[order]
    return np.append(rows, -1).astype(np.int32), Forest.of(starts, ends)


def _started(ranges: Table, rows: IntArray, times: IntArray, least: IntArray) -> Codes:
    """Return the row of the started range around each time, as `latest` finds it; -1 where there is none."""
    rows = rows[np.lexsort((rows, ranges.numbers("start_ns")[rows]))]
    ended_on = ranges.numbers("end_thread")[rows]
    crosses = ~np.isnan(ended_on) & (ended_on != ranges.numbers("thread")[rows])
    around = np.full(len(times), -1, np.int32)
    for mine in (rows[~crosses], rows[crosses]):
        starts = ranges.numbers("start_ns")[mine]
        place = latest(starts, starts + ranges.numbers("duration_ns")[mine], times, least)
        around = np.where(around < 0, np.append(mine, -1)[place], around).astype(np.int32)
    return around


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


def range_times(ranges: Table) -> Table | None:
    """Return `range_times`, the longest sum first; None without a range."""
    if not len(ranges):
        return None
    domain, name, spent = ranges.names("domain"), ranges.names("name"), ranges.numbers("duration_ns").astype(np.int64)
    (domains, names), group = distinct_rows(domain.ids, name.ids)
    count = len(names)
    calls, total = count_by(group, count), sum_by(group, spent, count)
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, group, spent)
    np.maximum.at(most, group, spent)
    columns = {
        "domain": Names(domains.astype(np.int32), domain.names),
        "name": Names(names.astype(np.int32), name.names),
        "calls": calls,
        "sum_ns": total,
        "mean_ns": total / calls,
        "min_ns": least,
        "max_ns": most,
    }
    return Table(RANGE_TIMES, columns).take(np.lexsort((names, -total)))
