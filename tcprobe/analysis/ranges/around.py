"""Find the ranges around each launch, by the thread and the time of the call.

Ranges that were pushed and popped nest. Ranges that were started and ended (`ranges.nests` is false) may overlap, and
end on another thread; they hold calls of the thread on which they began, until they end:

- A pushed range always stands within started ones. Of the launches in no pushed range, and of the outermost pushed
  ranges as a whole, the started range around is
- one that began and ended on the thread before one that ended on another, and
- of several the one that started last. No other started range is around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import (
    Codes,
    Numbers,
    distinct_numbers,
    distinct_rows,
    positions_in,
    rows_by_group,
)
from tcprobe.analysis.ranges.nesting import Forest, latest
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table

MOST_LEVELS: Final = 200
"""Ranges around one another; what paths take grows with them. More is no nesting that somebody marked."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Ranges that are alike, in ranges that are alike.

    Attributes:
        outer: path around each; -1 where there is none.
        alike: what the ranges of each are, as a number.
        of_range: path of each range, and a last one, -1, for no range.
    """

    outer: Codes
    alike: Codes
    of_range: Codes


@dataclass(frozen=True, slots=True)
class Around:
    """The ranges around launches.

    Attributes:
        ranges: all of the profile.
        rows: those that are around a launch, ascending row numbers of `ranges`; what follows gives their positions.
        parent: the range around each; -1 where there is none.
        levels: those of each depth, the outermost first.
        inner: innermost range around each launch; -1 where there is none, or the time of the call is not known.
    """

    ranges: Table
    rows: IntArray
    parent: Codes
    levels: list[Codes]
    inner: Codes

    def names(self, column: str) -> Names:
        """Return a column of strings of the ranges around launches."""
        return self.ranges.names(column).take(self.rows)

    def nearest(self, own: Codes) -> Codes:
        """Return the number of each range, or of the nearest around it that has one; a last one, -1, is of no range.

        Args:
            own: number of each range; -1 where it has none.
        """
        found = np.append(own, np.int32(-1))
        for rows in self.levels[1:]:
            none = rows[found[rows] == -1]
            found[none] = found[self.parent[none]]
        return found

    def paths(self, alike: Codes) -> Paths:
        """Return the paths of the ranges.

        Args:
            alike: number of what each range is; one of -1 counts as if it were not there.
        """
        path, outer, told = np.full(len(alike) + 1, -1, np.int32), [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        count = 0
        for rows in self.levels:
            around, mine = path[self.parent[rows]], alike[rows]
            path[rows] = around
            known = mine >= 0
            (above, what), place = distinct_rows(around[known], mine[known])
            path[rows[known]] = place + count
            count += len(what)
            outer.append(above)
            told.append(what)
        return Paths(np.concatenate(outer).astype(np.int32), np.concatenate(told).astype(np.int32), path)

    def closed(self, rows: Numbers) -> IntArray:
        """Return these ranges and all around them, ascending."""
        return _closed(self.parent, rows)


@dataclass(frozen=True, slots=True)
class Nested:
    """All ranges as they nest, before those around no launch are left out; as `Around` has them."""

    ranges: Table
    parent: Codes
    level: Codes
    inner: Codes

    @property
    def deep(self) -> int:
        """Return how many ranges hold nothing, as they lie too deep."""
        return int(np.count_nonzero(self.level > MOST_LEVELS))

    def kept(self, *more: IntArray) -> Around:
        """Return the ranges around launches, and around `more` rows of ranges."""
        rows = self.around(self.inner, *more)
        place = np.full(len(self.parent) + 1, -1, np.int32)  # the last is that of no range
        place[rows] = np.arange(len(rows))
        level = self.level[rows]
        levels = [each.astype(np.int32) for each in rows_by_group(level, int(level.max(initial=-1)) + 1)]
        return Around(self.ranges, rows, place[self.parent[rows]], levels, place[self.inner])

    def around(self, *rows: Numbers) -> IntArray:
        """Return ranges, each once, and all around them, ascending; -1 is none."""
        return _closed(self.parent, np.concatenate(rows))


def _closed(parent: Codes, rows: Numbers) -> IntArray:
    held = np.zeros(len(parent) + 1, np.bool_)
    held[-1] = True  # no range
    rows = rows[rows >= 0]
    while len(rows):
        held[rows] = True
        rows = parent[rows]
        rows = distinct_numbers(rows[~held[rows]])
    return np.flatnonzero(held[:-1])


def nest(ranges: Table, launches: Table) -> Nested:
    """Nest ranges by thread, and find the innermost around the call of each launch.

    Threads that are known of no range or of no launch count as one.
    """
    called, count = launches.numbers("launch_ns"), len(ranges)
    thread, caller, threads = _threads(ranges.numbers("thread"), launches.numbers("thread"))
    caller[np.isnan(called)] = -1
    inner = np.full(len(called), -1, np.int32)
    parent, level = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    of_calls, pushed = rows_by_group(caller, threads), _pushed(ranges)
    of_ranges = rows_by_group(thread, threads)
    del thread, caller
    for rows, calls in zip(of_ranges, of_calls, strict=True):
        times = called[calls].astype(np.int64)
        _nest_one(ranges, rows, pushed, (calls, times), (parent, level, inner))
    return Nested(ranges, parent, level, inner)


def _nest_one(
    ranges: Table,
    rows: IntArray,
    pushed: NDArray[np.bool_] | None,
    called: tuple[IntArray, IntArray],
    found: tuple[Codes, Codes, Codes],
) -> None:
    """Nest the ranges of one thread, as `_hold` describes it; `pushed` says which nest, None: all.

    What lies deeper than `MOST_LEVELS` holds nothing.
    """
    (calls, times), (parent, level, inner) = called, found
    stack, started = (rows, rows[:0]) if pushed is None else (rows[pushed[rows]], rows[~pushed[rows]])
    order, forest = _forest(ranges, stack)
    if len(deep := order[:-1][forest.depth >= MOST_LEVELS]):
        level[deep] = MOST_LEVELS + 1
        order, forest = _forest(ranges, np.setdiff1d(stack, deep))
    parent[order[:-1]], level[order[:-1]] = order[forest.parent], forest.depth
    inner[calls] = order[forest.innermost(times)]
    if len(started):
        _hold(ranges, started, (order, forest), called, found)


def _threads(of_ranges: FloatArray, of_launches: FloatArray) -> tuple[Codes, Codes, int]:
    """Return the number of the thread of each range and launch, and how many there are; -1: of no range."""
    if np.isnan(of_ranges).all() or np.isnan(of_launches).all():
        return np.zeros(len(of_ranges), np.int32), np.zeros(len(of_launches), np.int32), 1
    mine = np.nan_to_num(of_ranges, nan=-1.0).astype(np.int64)
    numbers = distinct_numbers(mine)
    callers = positions_in(np.nan_to_num(of_launches, nan=-1.0).astype(np.int64), numbers)
    return positions_in(mine, numbers), callers, len(numbers)


def _pushed(ranges: Table) -> NDArray[np.bool_] | None:
    """Return which ranges were pushed and popped; None: all."""
    started = ranges.numbers("nests") == 0.0
    return ~started if started.any() else None


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


def _hold(
    ranges: Table,
    rows: IntArray,
    pushed: tuple[Codes, Forest],
    called: tuple[IntArray, IntArray],
    found: tuple[Codes, Codes, Codes],
) -> None:
    """Find the started range around outermost pushed ranges, and around launches in none, of one thread.

    Args:
        ranges: all of the profile.
        rows: the started ones of the thread.
        pushed: rows of the pushed ones, and how they nest.
        called: launches of the thread, and when each was called.
        found: parent and level of each range, innermost range of each launch; completed here.
    """
    (order, forest), (calls, times), (parent, level, inner) = pushed, called, found
    roots = np.flatnonzero(forest.parent < 0)
    free = np.flatnonzero(inner[calls] < 0)
    start, end = ranges.numbers("start_ns")[order[roots]], ranges.numbers("duration_ns")[order[roots]]
    at = np.concatenate([start, times[free]])
    around = _started(ranges, rows, at, np.concatenate([start + end - 1, times[free]]))
    parent[order[roots]], inner[calls[free]] = around[: len(roots)], around[len(roots) :]
    level[order[:-1]] += 1


def _started(ranges: Table, rows: IntArray, times: IntArray, least: IntArray) -> Codes:
    """Return the row of the started range around each time, as `latest` asks for it."""
    rows = rows[np.lexsort((rows, ranges.numbers("start_ns")[rows]))]
    starts, spent = ranges.numbers("start_ns")[rows], ranges.numbers("duration_ns")[rows]
    ended_on, own = ranges.numbers("end_thread")[rows], ranges.numbers("thread")[rows]
    crosses = ~np.isnan(ended_on) & (ended_on != own)
    around = np.full(len(times), -1, np.int32)
    for chosen in (~crosses, crosses):
        mine = np.append(rows[chosen], -1)
        place = mine[latest(starts[chosen], starts[chosen] + spent[chosen], times, least)]
        around = np.where(around < 0, place, around).astype(np.int32)
    return around
