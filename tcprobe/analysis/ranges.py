"""What the ranges of a source mark: steps, and the op and layer of each launch, where it has none of its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

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
    """Return the steps of the thread that marks most, one after the other; one within another is part of it."""
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
    index: dict[tuple[tuple[str, Value], ...], int] = {}
    rows: list[Row] = []
    ids = np.full(len(ranges) + 1, -1, np.int64)
    for number in np.flatnonzero(np.bincount(inner + 1, minlength=len(ids))[1:]).tolist():
        row = nested.op(number)
        if row is not None:
            ids[number] = index.setdefault(tuple(row.items()), len(index))
            rows += [row] if ids[number] == len(rows) else []
    if not rows:
        return profile
    return profile.with_tables(Table.from_rows(OP_DETAILS, rows), launches.with_columns(op_id=ids[inner]))


@dataclass(frozen=True, slots=True)
class _Timeline:
    """Of one thread: from each of `times` on, the range `inner` is the innermost; -1 is none."""

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
        self._kind, self._name, self._op_type, self._dtype, self._shapes = (ranges.values(name) for name in names)
        self._parent = [-1] * len(ranges)
        threads = np.nan_to_num(ranges.numbers("thread"), nan=-1.0)
        self._alone = one_thread or bool((threads == -1.0).all())
        threads = np.zeros(len(ranges)) if self._alone else threads
        starts = ranges.numbers("start_ns")
        ends = starts + ranges.numbers("duration_ns")
        self._timelines = {t: self._timeline(np.flatnonzero(threads == t), starts, ends) for t in set(threads.tolist())}

    def _timeline(self, rows: IntArray, starts: IntArray, ends: IntArray) -> _Timeline:
        order = rows[np.lexsort((-ends[rows], starts[rows]))].tolist()
        times: list[int] = []
        inner: list[int] = []
        open_: list[tuple[int, int]] = []  # (end, row), the innermost last

        def close(until: float) -> None:
            while open_ and open_[-1][0] <= until:
                times.append(open_.pop()[0])
                inner.append(open_[-1][1] if open_ else -1)

        for row in order:
            start, end = int(starts[row]), int(ends[row])
            close(start)
            if open_:
                self._parent[row] = open_[-1][1]
                end = min(end, open_[-1][0])
            open_.append((end, row))
            times.append(start)
            inner.append(row)
        close(np.inf)
        return _Timeline(np.array(times, np.float64), np.array(inner, np.int64))

    def around(self, called: FloatArray, threads: FloatArray) -> IntArray:
        """Return the innermost range around each call; -1 where there is none, or the time is not known."""
        found = np.full(len(called), -1, np.int64)
        for thread, line in self._timelines.items():
            mine = ~np.isnan(called) & (self._alone | (np.nan_to_num(threads, nan=-1.0) == thread))
            place = np.searchsorted(line.times, called[mine], side="right") - 1
            found[mine] = np.where(place >= 0, line.inner[place], -1)
        return found

    def op(self, row: int) -> Row | None:
        """Return the row of `op_details` of what is launched in a range; None where it is neither op nor layer."""
        op, phase = -1, None
        layers: list[str] = []
        while row >= 0:
            if self._kind[row] == "layer":
                layers.append(str(self._name[row]))
            elif self._kind[row] == "op" and op < 0 and not layers:
                op = row
            elif self._kind[row] == "phase" and phase is None:
                phase = str(self._name[row]).lower()
            row = self._parent[row]
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
    """Return the path of a part: its name may be the whole path already."""
    return name if not outer or name == outer or name.startswith(f"{outer}/") else f"{outer}/{name}"
