"""Tell steps, ops and layers of launches by the ranges (NVTX, annotations) around them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.grouping import Codes, distinct_numbers, distinct_rows, positions_in, rows_by_group
from tcprobe.schema.columns import FloatArray, IntArray, Row, Table, Value
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import OP_DETAILS, STEP_MARKS

_PASS_OF: Final = {
    "forward": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "backward": "other", "optimizer": "other",
}  # fmt: skip


def with_ranges(profile: Profile) -> Profile:
    """Return the profile with step marks and ops from its ranges.

    A launch belongs to the step during which it was called, between two steps to the one before. Its op is the
    innermost range of an op around the call on its thread, its layer the path of the ranges of layers around that;
    in a layer and in no op of it, the layer stands for the op. A launch whose call was not recorded, or that no range
    holds, has no op. Steps or ops that the source itself tells stay as they are.
    """
    ranges = profile.table("ranges")
    if ranges is None:
        return profile
    kinds = ranges.names("kind")
    steps = kinds.ids == (kinds.names.index("step") if "step" in kinds.names else -2)
    return _with_ops(_with_steps(profile, ranges.take(steps)), ranges.take(~steps & (kinds.ids >= 0)))


def _with_steps(profile: Profile, ranges: Table) -> Profile:
    launches = profile.require("launches")
    if not len(ranges) or len(profile.require("step_marks")) or not np.isnan(launches.numbers("iteration")).all():
        return profile
    steps = _in_a_row(ranges)
    numbers, given = steps.values("step"), steps.numbers("step")
    known = not np.isnan(given).any()
    repeat = known and len(set(numbers)) < len(numbers)
    if not known or repeat:
        numbers = list(range(len(steps)))
    starts = steps.numbers("start_ns")
    ends = starts + steps.numbers("duration_ns")
    columns = {"iteration": numbers, "name": steps.names("name"), "start_ns": starts, "end_ns": ends}
    profile = profile.with_tables(Table(STEP_MARKS, columns))
    for name in ("launches", "memory_ops"):
        table = profile.table(name)
        if table is not None:
            at = _during(starts, np.array(numbers, np.float64), table.numbers("launch_ns"))
            profile = profile.with_tables(table.with_columns(iteration=at))
    message = "step numbers of the profile's ranges repeat: steps are numbered from 0 in order of time"
    return profile.with_notes(Note("step-numbers-repeat", message, level="note")) if repeat else profile


def _in_a_row(ranges: Table) -> Table:
    """Return the steps of the thread that marks most, in order, without steps that begin within another."""
    threads = np.nan_to_num(ranges.numbers("thread"), nan=-1.0)
    thread = min(Counter(threads.tolist()).items(), key=lambda item: (-item[1], item[0]))[0]
    mine = ranges.take(threads == thread)
    mine = mine.take(np.lexsort((-mine.numbers("duration_ns"), mine.numbers("start_ns"))))
    kept, until = [], -np.inf
    for row, (start, length) in enumerate(zip(mine.values("start_ns"), mine.values("duration_ns"), strict=True)):
        if int(start or 0) >= until:
            kept.append(row)
            until = int(start or 0) + int(length or 0)
    return mine.take(np.array(kept, np.int64))


def _during(starts: IntArray, numbers: FloatArray, called: FloatArray) -> FloatArray:
    place = np.searchsorted(starts, np.nan_to_num(called, nan=-np.inf), side="right") - 1
    return np.where(place >= 0, numbers[place], np.nan)


def _with_ops(profile: Profile, ranges: Table) -> Profile:
    launches = profile.require("launches")
    if not len(ranges) or not len(launches) or (launches.numbers("op_id") >= 0).any():
        return profile
    nested = _Nested(ranges, one_thread=bool(np.isnan(launches.numbers("thread")).all()))
    inner = nested.around(launches.numbers("launch_ns"), launches.numbers("thread"))
    paths, path = nested.paths()
    used = distinct_numbers(inner[inner >= 0])
    first = np.full(paths + 1, len(ranges))  # range of each path, in which something was launched
    np.minimum.at(first, path[used], used)
    index: dict[tuple[tuple[str, Value], ...], int] = {}
    ids = np.full(paths + 1, -1, np.int64)  # the last is that of no path
    for number in np.sort(first[first < len(ranges)]).tolist():
        if (row := nested.op(number)) is not None:
            ids[path[number]] = index.setdefault(tuple(row.items()), len(index))
    if not index:
        return profile
    details = Table.from_rows(OP_DETAILS, [dict(row) for row in index])
    return profile.with_tables(details, launches.with_columns(op_id=ids[path[inner]]))


@dataclass(frozen=True, slots=True)
class _Timeline:
    """The innermost range of one thread, from each of `times` to the next; -1 is none."""

    times: FloatArray
    inner: IntArray


class _Nested:
    """Ranges of ops, layers and phases, nested by thread.

    Ranges of a thread lie within one another; one that outlives the range around it counts until that one ends.

    Args:
        ranges: with a kind.
        one_thread: threads cannot be told apart, as that of the launches is not known.
    """

    def __init__(self, ranges: Table, one_thread: bool) -> None:
        names = ("kind", "name", "op_type", "dtype", "input_shapes")
        self._told = [ranges.names(name) for name in names]
        self._kind, self._name, self._op_type, self._dtype, self._shapes = self._told
        self._parent = np.full(len(ranges), -1)
        self._depth = np.zeros(len(ranges), np.int64)
        self._alone = one_thread or bool(np.isnan(ranges.numbers("thread")).all())
        threads = self._numbered(ranges.numbers("thread"))
        self._threads = distinct_numbers(threads)
        starts = ranges.numbers("start_ns")
        ends = starts + ranges.numbers("duration_ns")
        rows_of = rows_by_group(positions_in(threads, self._threads), len(self._threads))
        self._timelines = [self._timeline(rows, starts, ends) for rows in rows_of]

    def _numbered(self, threads: FloatArray) -> IntArray:
        """Return the number of each thread, -1 where it is not known; all are one where they cannot be told apart."""
        if self._alone:
            return np.zeros(len(threads), np.int64)
        return np.where(np.isnan(threads), -1, threads).astype(np.int64)

    def _timeline(self, rows: IntArray, starts: IntArray, ends: IntArray) -> _Timeline:
        order = rows[np.lexsort((-ends[rows], starts[rows]))]
        times: list[float] = []
        inner: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        until: list[float] = [np.inf]  # end of each open range, the innermost last; the first is no range
        open_: list[int] = [-1]
        ordered = zip(order.tolist(), starts[order].tolist(), ends[order].tolist(), strict=True)
        for row, start, end in (*ordered, (-1, np.inf, np.inf)):
            while until[-1] <= start and len(open_) > 1:
                times.append(until.pop())
                open_.pop()
                inner.append(open_[-1])
            parents.append(open_[-1])
            depths.append(len(open_) - 1)
            open_.append(row)
            until.append(min(end, until[-1]))
            times.append(start)
            inner.append(row)
        self._parent[order], self._depth[order] = parents[:-1], depths[:-1]
        return _Timeline(np.array(times, np.float64), np.array(inner, np.int64))

    def around(self, called: FloatArray, threads: FloatArray) -> IntArray:
        """Return the innermost range around each call; -1 where there is none, or the time is not known."""
        found = np.full(len(called), -1, np.int64)
        thread = positions_in(self._numbered(threads), self._threads)
        thread[np.isnan(called)] = -1
        for rows, line in zip(rows_by_group(thread, len(self._threads)), self._timelines, strict=True):
            place = np.searchsorted(line.times, called[rows], side="right") - 1
            found[rows] = np.where(place >= 0, line.inner[place], -1)
        return found

    def paths(self) -> tuple[int, Codes]:
        """Return the number of paths, and that of each range: ranges of one path are alike, and those around them.

        The last path is that of no range.
        """
        _, alike = distinct_rows(*(names.ids for names in self._told))
        path, count = np.full(len(alike) + 1, -1, np.int32), 0
        for rows in rows_by_group(self._depth, int(self._depth.max()) + 1):  # the outermost first
            (found, _), place = distinct_rows(path[self._parent[rows]], alike[rows])
            path[rows] = place + count
            count += len(found)
        return count, path

    def op(self, row: int) -> Row | None:
        """Return the row of `op_details` for launches in a range; None where no op or layer is around them."""
        op, phase = -1, None
        layers: list[str] = []
        while row >= 0:
            if self._kind[row] == "layer":
                layers.append(str(self._name[row]))
            elif self._kind[row] == "op" and op < 0 and not layers:
                op = row
            elif self._kind[row] == "phase" and phase is None:
                phase = str(self._name[row]).lower()
            row = int(self._parent[row])
        layer = ""
        for name in reversed(layers):
            layer = _below(layer, name)
        if op < 0 and not layer:
            return None
        told: Row = {"layer": layer or None, "pass": _PASS_OF.get(phase or "")}
        if op < 0:
            return {"op": layer, **told}
        path = str(self._name[op])
        kind = self._op_type[op] or path.rpartition("/")[2]
        given: Row = {"op_type": kind, "dtype": self._dtype[op], "input_shapes": self._shapes[op]}
        return {"op": _below(layer, path), **given, **told}


def _below(outer: str, name: str) -> str:
    """Join a name to the path around it, unless it starts with that path already."""
    return name if not outer or name == outer or name.startswith(f"{outer}/") else f"{outer}/{name}"
