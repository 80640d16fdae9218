"""Lay out what ran when as lanes: steps, and of each GPU layers, classes, waits and streams, and the host's threads."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.iterations import Iterations, counted
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.kernels.launches import UNKNOWN, YES, Launched
from tcprobe.analysis.kernels.table import label_ids
from tcprobe.analysis.screen.answer import row_kind
from tcprobe.analysis.waits.idle import KINDS, gpu_of, host_of, names_of
from tcprobe.analysis.waits.moments import moments_of
from tcprobe.analysis.waits.tuning import TunedCalls
from tcprobe.forest import NEVER, Forest
from tcprobe.grouping import Codes, Numbers, distinct_numbers, distinct_rows, rows_by_group
from tcprobe.schema.columns import IntArray, Row, Table
from tcprobe.schema.kinds import PRODUCTS, KernelKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.screen import RowKind
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline

OF_KERNEL: Final = ("uses_tc", "basis", "evidence", "precision", "cause", "memory_pct", "tile", "waves")
"""Columns of `kernels` that slices of kernels take."""


def build_timeline(
    profile: Profile, launched: Launched | None, iterations: Iterations, tuned: TunedCalls
) -> Timeline | None:
    """Return the lanes of a profile; None where nothing of it has a time.

    Every launch, copy, range and event of the host is one slice, whether it counts or not; waits are those of the
    window, moment by moment, so that of each kind they add up to `waits`.

    Args:
        profile: analysed.
        launched: its launches with their class; None where the source has sums only.
        iterations, tuned: its steps, and the launches of autotuned calls.
    """
    lanes = [*_phases(profile, iterations), *_iterations(profile, iterations)]
    launches, memory = profile.require("launches"), profile.require("memory_ops")
    slices = _Kernels(profile, launched) if launched is not None else None
    ordinals = np.concatenate([table.numbers("device") for table in (launches, memory)])
    gpus = dict[int, str | None]()
    named = {row["device"]: row["name"] for row in profile.require("devices").rows()}
    for device in distinct_numbers(ordinals).tolist():
        gpus[device] = str(name) if (name := named.get(device)) is not None else None
        if slices is not None:
            lanes += [*slices.runs("layer", device), *slices.runs("class", device)]
        lanes += [*_waits(profile, device, tuned), *_streams(slices, memory, device)]
    lanes += [*_host(profile.require("ranges"), "range"), *_host(_calls(profile), "event")]
    return Timeline(tuple(lanes), gpus) if lanes else None


def lanes_of(
    kind: LaneKind,
    device: int | None,
    number: int | None,
    times: tuple[IntArray, IntArray],
    thing: Numbers,
    things: tuple[Thing, ...],
) -> Iterator[Lane]:
    """Yield slices in as few lanes as need be: in each they follow or hold one another; without any, none.

    Args:
        kind, device, number: of the lanes.
        times: starts and lengths.
        thing: place of each slice in `things`.
        things: what slices are.
    """
    start, spent = times[0].astype(np.int64), np.maximum(times[1].astype(np.int64), 0)
    order = np.lexsort((-spent, start))
    start, spent, code = start[order], spent[order], thing[order].astype(np.int32)
    end = start + np.maximum(spent, 1)  # what has no length holds nothing, and lies within what begins with it
    part, parts = _parts(start, end)
    for place, rows in enumerate(rows_by_group(part, parts)):
        depth = Forest.of(start[rows], end[rows]).depth
        yield Lane(kind, device, number, place, start[rows], spent[rows], depth, code[rows], things)


def _parts(start: IntArray, end: IntArray) -> tuple[Codes, int]:
    """Return for each slice the lane that it goes to, and how many there are: the innermost that holds it whole."""
    part = np.zeros(len(start), np.int32)
    parent = Forest.of(start, end).parent if len(start) else part
    inner = np.flatnonzero(parent >= 0)
    if not (end[parent[inner]] < end[inner]).any():
        return part, int(len(start) > 0)
    held, ends = list[list[int]](), list[tuple[int, int]]()  # of each lane what lasts; and the innermost end of each
    for row, (begun, ended) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while ends and ends[0][0] <= begun:
            lane = ends.pop(0)[1]
            held[lane].pop()
            insort(ends, (held[lane][-1] if held[lane] else NEVER, lane))
        at = bisect_left(ends, (ended, -1))
        if at == len(ends):
            held.append([])
            ends.append((NEVER, len(held) - 1))
        part[row] = lane = ends.pop(at)[1]
        held[lane].append(ended)
        insort(ends, (ended, lane))
    return part, len(held)


def _filled(pairs: Sequence[tuple[str, Any]]) -> tuple[tuple[str, str | int], ...]:
    return tuple((name, value) for name, value in pairs if value is not None)


def _iterations(profile: Profile, found: Iterations) -> Iterator[Lane]:
    """Yield the steps: start to start; one of unknown length, which it says, until its mark ends."""
    unknown = np.isnan(found.duration_ns)
    length = np.where(unknown, found.end_ns - found.start_ns, found.duration_ns)
    rows = np.flatnonzero(~np.isnan(found.start_ns) & (length >= 0))
    inside = counted(profile.metadata.window, found.numbers.astype(np.float64))
    things = [
        Thing(
            None,
            "counted" if inside[row] else "left_out",
            more=(
                ("iteration", int(found.numbers[row])),
                ("steps", int(found.steps[row])),
                *((("length", "unknown"),) if unknown[row] else ()),
            ),
        )
        for row in rows.tolist()
    ]
    times = found.start_ns[rows].astype(np.int64), length[rows].astype(np.int64)
    yield from lanes_of("iteration", None, None, times, np.arange(len(rows)), tuple(things))


def _phases(profile: Profile, found: Iterations) -> Iterator[Lane]:
    """Yield the phases of a run that has several, from the first to the last of their steps that are here."""
    phases, slices = profile.require("phases"), list[tuple[int, int, Thing]]()
    for phase, first, last in zip(*(phases.values(c) for c in ("phase", "first_step", "last_step")), strict=True):
        mine = (found.numbers >= first) & (found.numbers <= last) & ~np.isnan(found.start_ns)
        if len(phases) > 1 and mine.any():
            start, end = int(found.start_ns[mine].min()), int(np.nanmax(found.end_ns[mine]))
            slices.append((start, end - start, Thing(None, more=_filled([("phase", phase)]))))
    times = np.array([one[0] for one in slices], np.int64), np.array([one[1] for one in slices], np.int64)
    yield from lanes_of("phase", None, None, times, np.arange(len(slices)), tuple(one[2] for one in slices))


def _waits(profile: Profile, device: int, tuned: TunedCalls) -> Iterator[Lane]:
    """Yield what a GPU waits for: neighbours of one wait that one event tells are one slice."""
    window = profile.metadata.window
    if window.start_ns is None or window.end_ns is None or profile.table("waits") is None:
        return
    gpu = gpu_of(profile, device, host_of(profile), (window.start_ns, window.end_ns), tuned.call)
    moments = moments_of(gpu)
    before = np.cumsum(moments.ns) - moments.ns
    first = np.flatnonzero(np.diff(moments.stretch, prepend=-1))
    start = gpu.idle.start_ns[moments.stretch] + before - before[first][np.cumsum(_flags(first, len(before))) - 1]
    (_, works, codes), code = distinct_rows(moments.stretch, moments.work, moments.name)
    begins = np.flatnonzero(np.diff(code, prepend=-1))
    spent = np.add.reduceat(moments.ns, begins) if len(begins) else moments.ns
    names = names_of(gpu, profile.require("op_details").names("op"))
    (work, name), thing = distinct_rows(works, codes)
    each = zip(work.tolist(), name.tolist(), strict=True)
    things = tuple(Thing(names[n] if n >= 0 else None, KINDS[w]) for w, n in each)
    yield from lanes_of("wait", device, None, (start[begins], spent), thing[code[begins]], things)


def _flags(rows: IntArray, count: int) -> NDArray[np.int64]:
    flags = np.zeros(count, np.int64)
    flags[rows] = 1
    return flags


class _Kernels:
    """Launches as slices: what those of a group are."""

    def __init__(self, profile: Profile, launched: Launched) -> None:
        groups = self.groups = launched.groups
        self.launches = groups.launches
        details, configs = profile.require("op_details"), list(profile.require("launch_configs").rows())
        labels, label_of = label_ids(details)
        of_op = {(row["op"], row["op_type"]): row for row in profile.require("ops").rows()}
        rows = {(r["device"], r["kernel"], r["op"], r["op_type"]): r for r in profile.require("kernels").rows()}
        self.things, self.layers = list[Thing](), list[tuple[str, str | None] | None]()
        for group in range(len(groups)):
            op, op_type = labels[int(label_of[groups.op[group]])]
            name, config = groups.names[groups.kernel[group]], int(groups.config[group])
            row = rows.get((int(groups.device[group]), name, op, op_type))
            of, kind, told = _class_of(name, row, int(launched.verdicts[group]))
            place = of_op.get((op, op_type), {})
            shape = configs[config] if 0 <= config < len(configs) else {}
            whose = [("op", op), ("op_type", op_type), *((c, place.get(c)) for c in ("layer", "pass", "source"))]
            sizes = [(c, shape.get(c)) for c in ("grid", "block", "registers", "occupancy_pct")]
            counts = [("counted", "yes" if groups.counted[group] else "no")]
            self.things.append(Thing(name, of, kind, _filled([*told, *whose, *sizes, *counts])))
            layer, passed = place.get("layer"), place.get("pass")
            self.layers.append(None if layer is None else (str(layer), text_of(passed)))

    def runs(self, kind: LaneKind, device: int) -> Iterator[Lane]:
        """Yield layers, or classes, of successive kernels of one step: until the next one begins, or the last ends."""
        keys = self.layers if kind == "layer" else [thing.of for thing in self.things]
        index: dict[Any, int] = {None: -1}
        key_of = np.array([index.setdefault(key, len(index) - 1) for key in keys], np.int32)
        start = self.launches.numbers("start_ns")
        rows = np.flatnonzero(self.launches.numbers("device") == device)
        rows = rows[np.argsort(start[rows], kind="stable")]
        if not len(rows):
            return
        key, step = key_of[self.groups.of_launch[rows]], self.launches.numbers("iteration")[rows]
        step = np.nan_to_num(step, nan=-1.0)
        first = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]) | (step[1:] != step[:-1])])
        end = np.maximum.reduceat(start[rows] + self.launches.numbers("duration_ns")[rows], first)
        begun = start[rows][first]
        end[:-1] = np.minimum(end[:-1], begun[1:])
        shown = (key[first] >= 0) & (end > begun)  # those that begin at one time are the last one's
        things = tuple(_thing_of(kind, each) for each in list(index)[1:])
        times = begun[shown], (end - begun)[shown]
        yield from lanes_of(kind, device, None, times, key[first][shown], things)


def _thing_of(kind: LaneKind, key: Any) -> Thing:
    return Thing(key[0], more=_filled([("pass", key[1])])) if kind == "layer" else Thing(None, key)


def _class_of(name: str, row: Row | None, verdict: int) -> tuple[RowKind, KernelKind, list[tuple[str, Any]]]:
    """Return the row of the bar that a kernel is in, what it does and why: by its row, else by its class alone."""
    if row is not None and row["cause"] is not None:
        kind: KernelKind = row["kind"] or "unknown"  # type: ignore[assignment]
        of: RowKind = row_kind(row["cause"])
        moves = of == "others" and kind == "communication"
        return "communication" if moves else of, kind, [(c, _plain(row[c])) for c in OF_KERNEL]
    kind = kind_of(name)
    if verdict in (YES, UNKNOWN):
        of = "used" if verdict == YES else "unknown"
    else:
        of = "matmul" if kind in PRODUCTS else "communication" if kind == "communication" else "others"
    return of, kind, [("uses_tc", {YES: "yes", UNKNOWN: "unknown"}.get(verdict, "no"))]


def _plain(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _streams(slices: _Kernels | None, memory: Table, device: int) -> Iterator[Lane]:
    """Yield the kernels, copies and sets of each stream of a GPU."""
    mine = np.flatnonzero(memory.numbers("device") == device)
    size = np.nan_to_num(memory.numbers("size_bytes")[mine], nan=-1.0).astype(np.int64)
    kinds = memory.names("kind")
    (kind, moved), move = distinct_rows(kinds.ids[mine], size)
    things = [
        Thing(kinds.names[k], "copy", more=(("size_bytes", n),) if n >= 0 else ())
        for k, n in zip(kind.tolist(), moved.tolist(), strict=True)
    ]
    columns = [[memory.numbers(c)[mine] for c in ("stream", "start_ns", "duration_ns")]]
    codes = [move]
    if slices is not None:
        rows = np.flatnonzero(slices.launches.numbers("device") == device)
        columns.append([slices.launches.numbers(c)[rows] for c in ("stream", "start_ns", "duration_ns")])
        codes.append(slices.groups.of_launch[rows] + np.int32(len(things)))
        things += slices.things
    stream, start, spent = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    thing, all_things = np.concatenate(codes), tuple(things)
    for number in distinct_numbers(stream).tolist():
        own = stream == number
        yield from lanes_of("stream", device, int(number), (start[own], spent[own]), thing[own], all_things)


def _calls(profile: Profile) -> Table:
    """Return the events of the host that are no ranges, which have lanes of their own."""
    events, ranges = profile.require("host_events"), profile.require("ranges")
    names, own = ranges.names("name"), events.names("name")
    place = {name: at for at, name in enumerate(names.names)}
    codes = np.array([*(place.get(name, -1) for name in own.names), -1], np.int64)[own.ids]
    each = [
        np.concatenate([np.nan_to_num(table.numbers(c), nan=-1.0).astype(np.int64) for table in (ranges, events)])
        for c in ("thread", "start_ns", "duration_ns")
    ]
    code = distinct_rows(*each, np.concatenate([names.ids.astype(np.int64), codes]))[1]
    return events.take(np.flatnonzero(~np.isin(code[len(ranges) :], code[: len(ranges)])))


def _host(table: Table, kind: LaneKind) -> Iterator[Lane]:
    """Yield the ranges, or the events, of each thread of the host."""
    columns = ("name", "domain", "kind") if kind == "range" else ("name", "work")
    names = [table.names(column) for column in columns]
    distinct, thing = distinct_rows(*(column.ids for column in names))
    each = zip(*([None if i < 0 else n.names[i] for i in ids.tolist()] for n, ids in zip(names, distinct, strict=True)),
               strict=True)  # fmt: skip
    if kind == "range":
        things = tuple(Thing(n, more=_filled([("domain", domain), ("range_kind", what)])) for n, domain, what in each)
    else:
        things = tuple(Thing(n, None if work == "call" else work) for n, work in each)
    thread = np.nan_to_num(table.numbers("thread"), nan=-1.0).astype(np.int64)
    start, spent = table.numbers("start_ns"), table.numbers("duration_ns")
    for number in distinct_numbers(thread).tolist():
        own = thread == number
        yield from lanes_of(kind, None, int(number), (start[own], spent[own]), thing[own], things)
