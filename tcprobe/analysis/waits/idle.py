"""What one GPU ran, and every stretch in which it ran no kernel, with what the host recorded of that time.

Tell which calls of the framework train: those within which most kernels are launched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.host import processes_of
from tcprobe.analysis.ranges.nesting import latest
from tcprobe.grouping import count_by
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import CALL, EVENT_WORK, HOST_WORK, HostWork

LEAST: Final = 0.05  # of the launches: calls of one name that hold fewer prepare a step, or look at its results
MOST: Final = 0.5  # of the launches; where calls of large names hold fewer, the step is called op by op


def training_calls(events: Table, launches: Table) -> NDArray[np.bool_]:
    """Return which rows of `host_events` are outermost calls that train.

    These are the calls of all names with a twentieth of the launches each; where they hold less than half of them
    together, as in a loop that calls op by op, every call that launches.
    """
    names = events.names("name")
    rows = np.flatnonzero(events.names("work").among(CALL))
    rows = rows[np.argsort(events.numbers("start_ns")[rows], kind="stable")]
    trains = np.zeros(len(events), np.bool_)
    times = launches.numbers("launch_ns").astype(np.float64)
    launched = times[~np.isnan(times)].astype(np.int64)
    if not len(rows) or not len(launched):
        return trains
    start = events.numbers("start_ns")[rows].astype(np.int64)
    end = start + events.numbers("duration_ns")[rows].astype(np.int64)
    held = latest(start, end, launched, launched)
    of_name = count_by(names.ids[rows][held[held >= 0]], len(names.names))
    large = np.where(of_name >= LEAST * len(launched), of_name, 0)
    chosen = large if large.sum() >= MOST * len(launched) else of_name
    trains[rows] = chosen[names.ids[rows]] > 0
    return trains


KINDS: Final = tuple(HOST_WORK)
WORK: Final[dict[HostWork, int]] = {work: place for place, work in enumerate(KINDS)}
TRAINS: Final = EVENT_WORK.index(CALL)  # as the work of an event: an outermost call that trains
COPIES: Final = {"MemcpyH2D": "copy", "MemcpyD2H": "copy", "MemcpyP2P": "copy", "MemcpyD2D": "set", "Memset": "set"}
"""Kinds of `memory_ops` that keep a GPU busy, as what the host waits for."""

NO_NAME: Final = -2


class Events(NamedTuple):
    """Events of the host, and copies and sets of a GPU, as equally long columns."""

    # start_ns, end_ns: when each ran.
    start_ns: IntArray
    end_ns: IntArray
    work: IntArray  # what each shows, as its place in `KINDS`, or `TRAINS`
    thread: IntArray  # of the host; of copies and sets -1
    name: IntArray  # of each, as its place in `names`
    names: list[str]  # each once


class Idle(NamedTuple):
    """The stretches of a window in which a GPU ran no kernel, in order, as equally long columns."""

    # start_ns, end_ns: bounds, the end after the start.
    start_ns: IntArray
    end_ns: IntArray
    # before, after: rows of the launches around each, -1 where the window begins or ends.
    before: IntArray
    after: IntArray
    call_ns: FloatArray  # when the call began that launched the kernel after each; NaN where that is not known
    tuned: IntArray  # op of the autotuned call within which each lies, -1 where none, `NO_NAME` where one of no op

    @property
    def length_ns(self) -> IntArray:
        """Return how long each lasts."""
        return self.end_ns - self.start_ns


class Gpu(NamedTuple):
    """What one GPU ran, and the host for it."""

    device: int
    idle: Idle
    copies: Table  # its rows of `memory_ops` that move data between it and something else
    events: Events  # what the host did, its copies and sets included


class Host(NamedTuple):
    """Of which process, else thread, launches and events of the host are."""

    launches: FloatArray
    events: FloatArray
    callers: FloatArray  # thread of each launch; NaN where the source does not say
    trains: NDArray[np.bool_]  # which events are calls that train


def host_of(profile: Profile) -> Host:
    """Return which process each launch and each event of the host is of; where none is known, which thread."""
    threads = [profile.require(name).numbers("thread").astype(np.float64) for name in ("launches", "host_events")]
    launched, host = (processes_of(profile, thread) for thread in threads)
    known = not np.isnan(launched).all()
    trains = training_calls(profile.require("host_events"), profile.require("launches"))
    return Host(launched if known else threads[0], host if known else threads[1], threads[0], trains)


def gpu_of(profile: Profile, device: int, host: Host, window: tuple[int, int], tuned: IntArray) -> Gpu:
    """Return what a GPU ran, and its stretches without a kernel.

    Args:
        profile: with launches.
        device: ordinal of the GPU.
        host: of the profile.
        window: its start and end.
        tuned: for each launch the autotuned call of an op that it belongs to, -1 for none.
    """
    launches, memory = profile.require("launches"), profile.require("memory_ops")
    rows = np.flatnonzero(launches.numbers("device") == device)
    mine = memory.take(memory.numbers("device") == device)
    idle = _idle(launches, rows, window, tuned)
    events = _events(_of_gpu(profile.require("host_events"), host, rows), mine)
    copies = mine.take(mine.names("kind").among(*(kind for kind, work in COPIES.items() if work == "copy")))
    return Gpu(device, idle, copies, events)


def _of_gpu(events: Table, host: Host, rows: IntArray) -> Table:
    """Return the events but those of processes, or threads, that launch on other GPUs alone; ranges of launching ones.

    Of calls those that train. Where no thread of a launch is known, every range counts.
    """
    launched = host.launches
    others = np.setdiff1d(launched[~np.isnan(launched)], launched[rows])
    kept = ~np.isin(host.events, others) & (host.trains | ~events.names("work").among(CALL))
    callers = host.callers[rows]
    if not np.isnan(callers).all():
        kept &= ~events.names("work").among("range") | np.isin(events.numbers("thread"), callers)
    return events if kept.all() else events.take(kept)


def _idle(launches: Table, rows: IntArray, window: tuple[int, int], tuned: IntArray) -> Idle:
    start = launches.numbers("start_ns")[rows].astype(np.int64)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        rows, start = rows[order], start[order]
    end = start + launches.numbers("duration_ns")[rows].astype(np.int64)
    until = np.maximum.accumulate(end)  # when all kernels that started by then had ended
    last = np.maximum.accumulate(np.where(end == until, np.arange(len(end)), 0))  # which of them did so last
    begins, ends = np.append(start.clip(*window), window[1]), np.append(window[0], until.clip(*window))
    place = np.flatnonzero(begins > ends)
    before, after = np.full(len(place), -1, np.int64), np.full(len(place), -1, np.int64)
    inside = (place > 0) & (until[place - 1] > window[0])
    before[inside] = rows[last[place[inside] - 1]]
    inside = (place < len(start)) & (np.append(start, window[1])[place] < window[1])
    after[inside] = rows[place[inside]]
    called = np.append(launches.numbers("launch_ns").astype(np.float64), np.nan)[after]
    calls, op = np.append(tuned, -1), np.append(launches.numbers("op_id"), -1)
    alike = (calls[after] >= 0) & (calls[before] == calls[after])
    tunes = np.where(alike, np.where(op[after] >= 0, op[after], NO_NAME), -1)
    return Idle(ends[place], begins[place], before, after, called, tunes)


def _events(host: Table, memory: Table) -> Events:
    """Return the events of the host, and the copies and sets of one GPU, in one list."""
    kinds, events, moves = host.names("work"), host.names("name"), memory.names("kind")
    place = np.array([*(EVENT_WORK.index(name) for name in kinds.names), -1], np.int64)
    moved = np.array([*(KINDS.index(COPIES[name]) if name in COPIES else -1 for name in moves.names), -1], np.int64)
    work = np.append(place[kinds.ids], moved[moves.ids])
    name = np.append(events.ids, moves.ids + len(events.names)).astype(np.int64)
    start, length = (
        np.append(host.numbers(c), memory.numbers(c)).astype(np.int64) for c in ("start_ns", "duration_ns")
    )
    thread = np.append(host.numbers("thread"), np.full(len(memory), -1)).astype(np.int64)
    kept = (work >= 0) & (length > 0)
    columns = (start[kept], (start + length)[kept], work[kept], thread[kept], name[kept])
    return Events(*columns, [*events.names, *moves.names])


def names_of(gpu: Gpu, ops: Names) -> Names:
    """Return the names that `Moments.name` numbers: those of the events, then those of ops by row of `op_details`."""
    count = len(gpu.events.names)
    ids = np.append(np.arange(count), np.where(ops.ids >= 0, ops.ids + count, -1))
    return Names(ids, [*gpu.events.names, *ops.names])
