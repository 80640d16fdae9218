"""List the long stretches in which a GPU ran no kernel, with what ran around them and what the host did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.host import processes_of
from tcprobe.grouping import union_by
from tcprobe.schema.columns import FloatArray, IntArray, Names, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import GAPS
from tcprobe.schema.waits import HOST_WORK, MOST_GAPS, HostWork

LEAST_NS: Final = 100_000  # shorter ones are the pace at which the host launches kernels
LEAST_OF_STEP: Final = 0.01
LEAST_OF_CAPTURE: Final = 0.0001  # of a capture without steps, which may hold thousands of them
MOVES: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyP2P")
MOST: Final = 0.5  # of the stretch: what covers less explains it no better than what is not recorded
KINDS: Final = tuple(HOST_WORK)
LAUNCH: Final = KINDS.index("launch")
DIRECT: Final[tuple[HostWork, ...]] = ("input", "compile", "copy")
INDIRECT: Final[tuple[HostWork, ...]] = ("communicate", "synchronise", "launch", "python")


class _Evidence(NamedTuple):
    """What the host did in a stretch; the event that shows it and the time of its overlap, None for ``unknown``."""

    work: HostWork = "unknown"
    op: str | None = None
    ns: int | None = None


class _Events(NamedTuple):
    """Events of the host, and copies of a GPU, as equally long columns."""

    # start_ns, end_ns: when each ran.
    start_ns: IntArray
    end_ns: IntArray
    work: IntArray  # what each shows, as its place in `KINDS`
    name: IntArray  # of each, as its place in `names`
    names: list[str]  # each once


class _Gpu(NamedTuple):
    """What one GPU ran, kernels in order of their starts."""

    device: int
    launches: Table  # those of all GPUs
    rows: IntArray  # its own rows there
    # start_ns, end_ns: of the kernels.
    start_ns: IntArray
    end_ns: IntArray
    until_ns: IntArray  # when all kernels that started until then had ended
    copies: Table  # its rows of `memory_ops` that move data
    events: _Events  # what the host did, these copies included
    ops: Names  # by `op_id`


class _Gap(NamedTuple):
    """A stretch without a kernel: the rows of the launches around it, -1 where the window begins or ends."""

    start: int
    end: int
    before: int
    after: int


def build_gaps(profile: Profile, tuned: IntArray) -> Table | None:
    """Return `gaps`; None where no clock tells when kernels ran.

    Args:
        profile: with its window and `waiting`.
        tuned: for each launch the autotuned call of an op that it belongs to, -1 for none.
    """
    window, launches = profile.metadata.window, profile.require("launches")
    span = window.length_ns
    if window.start_ns is None or window.end_ns is None or span is None or not len(launches):
        return None
    rows, owners = list[Row](), _owners(profile)
    for device in sorted(set(launches.numbers("device").tolist())):
        gpu = _gpu(profile, int(device), owners)
        gaps = _gaps(gpu, window.start_ns, window.end_ns, _least(profile, span))
        rows += [_row(gpu, gap, span, tuned) for gap in gaps]
    rows.sort(key=lambda row: (-int(row["duration_ns"] or 0), int(row["start_ns"] or 0)))
    return Table.from_rows(GAPS, rows)


def _least(profile: Profile, span: int) -> float:
    """Return the length of the shortest gap worth a row."""
    step = profile.waiting
    if step is None or step.length == "capture":
        return max(LEAST_NS, LEAST_OF_CAPTURE * span)
    return max(LEAST_NS, LEAST_OF_STEP * step.step_ns)


def _gpu(profile: Profile, device: int, owners: tuple[FloatArray, FloatArray]) -> _Gpu:
    launches = profile.require("launches")
    rows = np.flatnonzero(launches.numbers("device") == device)
    start = launches.numbers("start_ns")[rows].astype(np.int64)
    if (start[1:] < start[:-1]).any():
        order = np.argsort(start, kind="stable")
        rows, start = rows[order], start[order]
    end = start + launches.numbers("duration_ns")[rows].astype(np.int64)
    memory = profile.require("memory_ops")
    moves = memory.take((memory.numbers("device") == device) & memory.names("kind").among(*MOVES))
    events = _events_of(_of_gpu(profile.require("host_events"), owners, rows), moves)
    names = profile.require("op_details").names("op")
    return _Gpu(device, launches, rows, start, end, np.maximum.accumulate(end), moves, events, names)


def _owners(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Return the process of each launch and of each event of the host; where no process is known, the thread."""
    threads = [profile.require(name).numbers("thread").astype(np.float64) for name in ("launches", "host_events")]
    launched, host = (processes_of(profile, thread) for thread in threads)
    return (threads[0], threads[1]) if np.isnan(launched).all() else (launched, host)


def _of_gpu(host: Table, owners: tuple[FloatArray, FloatArray], rows: IntArray) -> Table:
    """Return the events of the host but those of processes, or of threads, that launch on other GPUs alone."""
    launched, mine = owners
    others = np.setdiff1d(launched[~np.isnan(launched)], launched[rows])
    return host.take(~np.isin(mine, others)) if len(others) else host


def _gaps(gpu: _Gpu, low: int, high: int, least: float) -> Iterator[_Gap]:
    """Yield the longest stretches from `low` to `high` without a kernel."""
    start = np.append(gpu.start_ns.clip(low, high), high)
    end = np.append(low, gpu.until_ns.clip(low, high))
    length = start - end
    long = np.flatnonzero(length >= least)
    for place in long[np.argsort(-length[long], kind="stable")][:MOST_GAPS].tolist():
        before = after = -1
        if place and gpu.until_ns[place - 1] > low:
            before = int(gpu.rows[np.flatnonzero(gpu.end_ns[:place] == gpu.until_ns[place - 1])[-1]])
        if place < len(gpu.start_ns) and gpu.start_ns[place] < high:
            after = int(gpu.rows[place])
        yield _Gap(int(end[place]), int(start[place]), before, after)


def _row(gpu: _Gpu, gap: _Gap, span: int, calls: IntArray) -> Row:
    length = gap.end - gap.start
    after, before = _around(gpu, gap)
    work = _host_work(gpu.events, gap.start, gap.end)
    if work.work in ("unknown", "launch", "synchronise") and _tunes(gap, calls):
        work = _Evidence("compile", gpu.ops[int(gpu.launches.numbers("op_id")[gap.after])], length)
    iterations = gpu.launches.numbers("iteration")
    of = next((int(iterations[k]) for k in (gap.after, gap.before) if k >= 0 and iterations[k] == iterations[k]), None)
    return {
        "device": gpu.device,
        "start_ns": gap.start,
        "duration_ns": length,
        "iteration": of,
        "share_pct": 100.0 * length / span if span else 0.0,
        "after": after,
        "before": before,
        "host_work": work.work,
        "host_op": work.op,
        "host_ns": work.ns,
    }


def _around(gpu: _Gpu, gap: _Gap) -> tuple[str | None, str | None]:
    """Return what ends before the wait and what starts after it.

    That is a copy within the gap where the GPU did nothing at all for most of the gap before or after it.
    """
    names = gpu.launches.names("kernel")
    after, before = (None if row < 0 else names[row] for row in (gap.before, gap.after))
    start = gpu.copies.numbers("start_ns").astype(np.int64)
    end = start + gpu.copies.numbers("duration_ns").astype(np.int64)
    inside = np.flatnonzero((start < gap.end) & (end > gap.start))
    inside = inside[np.argsort(start[inside], kind="stable")]
    begins = np.append(start[inside].clip(gap.start, gap.end), gap.end)
    ends = np.maximum.accumulate(np.append(gap.start, end[inside].clip(gap.start, gap.end)))
    silent = int((begins - ends).argmax())
    if 2 * (begins[silent] - ends[silent]) < gap.end - gap.start:
        return after, before
    after = after if silent == 0 else _copy(gpu.copies, int(inside[silent - 1]))
    return after, before if silent == len(inside) else _copy(gpu.copies, int(inside[silent]))


def _copy(copies: Table, row: int) -> str:
    size = copies.numbers("size_bytes")[row]
    return f"{copies.names('kind')[row]}{'' if size != size else f' {int(size)} B'}"


def _tunes(gap: _Gap, calls: IntArray) -> bool:
    """Return whether the gap lies within one autotuned call of an op."""
    return min(gap.before, gap.after) >= 0 and 0 <= calls[gap.before] == calls[gap.after]


def _events_of(host: Table, copies: Table) -> _Events:
    """Return the events of a profile and the copies of one GPU in one list.

    Args:
        host: `host_events`.
        copies: rows of `memory_ops` that move data between the GPU and something else.
    """
    kinds, events, moves = host.names("work"), host.names("name"), copies.names("kind")
    place = np.array([*(KINDS.index(name) for name in kinds.names), -1], np.int64)
    work = np.append(place[kinds.ids], np.full(len(copies), KINDS.index("copy")))
    name = np.append(events.ids, moves.ids + len(events.names)).astype(np.int64)
    start, length = (
        np.append(host.numbers(c), copies.numbers(c)).astype(np.int64) for c in ("start_ns", "duration_ns")
    )
    return _Events(start, start + length, work, name, [*events.names, *moves.names])


def _host_work(events: _Events, start: int, end: int) -> _Evidence:
    """Return what the host did from `start` to `end`: what covers at least half of it.

    An input pipeline, compiling or a copy that covers the most comes first. What such an event may only be a part or
    a consequence of (waiting, launching, running Python) counts for the time that none of them covers.
    """
    row = np.flatnonzero((events.start_ns < end) & (events.end_ns > start))
    begun, ended = events.start_ns[row].clip(min=start), events.end_ns[row].clip(max=end)
    work, least = events.work[row], MOST * (end - start)

    def covered(mine: NDArray[np.bool_]) -> int:
        none = np.zeros(int(mine.sum()), np.int32)
        return int(union_by(none, begun[mine], (ended - begun)[mine], 1)[0])

    def evidence(kind: HostWork) -> _Evidence:
        mine = np.flatnonzero(work == KINDS.index(kind))
        most = mine[_best(events, row[mine], (ended - begun)[mine], kind)]
        return _Evidence(kind, events.names[int(events.name[row[most]])], int(ended[most] - begun[most]))

    shares = {kind: covered(work == KINDS.index(kind)) for kind in DIRECT}
    best = max(DIRECT, key=lambda kind: shares[kind])
    if shares[best] >= least and shares[best] > 0:
        return evidence(best)
    known = np.isin(work, [KINDS.index(kind) for kind in DIRECT])
    before = covered(known)
    for kind in INDIRECT:
        if kind == "launch" and _one_op(events, row[(work == LAUNCH) & (ended - begun >= least)]):
            return _Evidence()
        known = known | (work == KINDS.index(kind))
        after = covered(known)
        if after - before >= least and after > before:
            return evidence(kind)
        before = after
    return _Evidence()


def _best(events: _Events, rows: IntArray, overlap: IntArray, kind: HostWork) -> int:
    """Return which event is the evidence: of those that overlap the stretch most, the shortest, which says most."""
    if kind == "launch":
        return int(overlap.argmax())
    near = np.flatnonzero(overlap >= 0.9 * overlap.max())
    return int(near[(events.end_ns - events.start_ns)[rows[near]].argmin()])


def _one_op(events: _Events, rows: IntArray) -> bool:
    """Return whether one of these events is an op of the executor: it computes on the host, and launches nothing."""
    names = (events.names[code] for code in events.name[rows].tolist())
    return any(":" in name and "::" not in name and " " not in name for name in names)
