"""Tell what the host did in a stretch of time, by what the events of the host that overlap it show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import union_by
from tcprobe.schema.columns import IntArray, Table
from tcprobe.schema.waits import HOST_WORK, HostWork

MOST: Final = 0.5  # of the stretch: what covers less explains it no better than what is not recorded
KINDS: Final = tuple(HOST_WORK)
LAUNCH: Final = KINDS.index("launch")
DIRECT: Final[tuple[HostWork, ...]] = ("input", "compile", "copy")
INDIRECT: Final[tuple[HostWork, ...]] = ("communicate", "synchronise", "launch", "python")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the host did in a stretch; the event that shows it and the time of its overlap, None for ``unknown``."""

    work: HostWork = "unknown"
    op: str | None = None
    ns: int | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """Events of the host, and copies of a GPU, as equally long columns.

    Attributes:
        start_ns, end_ns: when each ran.
        work: what each shows, as its place in `KINDS`.
        name: of each, as its place in `names`.
        names: each once.
    """

    start_ns: IntArray
    end_ns: IntArray
    work: IntArray
    name: IntArray
    names: list[str]


def events_of(host: Table, copies: Table) -> Events:
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
    return Events(start, start + length, work, name, [*events.names, *moves.names])


def host_work(events: Events, start: int, end: int) -> Evidence:
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

    def evidence(kind: HostWork) -> Evidence:
        mine = np.flatnonzero(work == KINDS.index(kind))
        most = mine[_best(events, row[mine], (ended - begun)[mine], kind)]
        return Evidence(kind, events.names[int(events.name[row[most]])], int(ended[most] - begun[most]))

    shares = {kind: covered(work == KINDS.index(kind)) for kind in DIRECT}
    best = max(DIRECT, key=lambda kind: shares[kind])
    if shares[best] >= least and shares[best] > 0:
        return evidence(best)
    known = np.isin(work, [KINDS.index(kind) for kind in DIRECT])
    before = covered(known)
    for kind in INDIRECT:
        if kind == "launch" and _one_op(events, row[(work == LAUNCH) & (ended - begun >= least)]):
            return Evidence()
        known = known | (work == KINDS.index(kind))
        after = covered(known)
        if after - before >= least and after > before:
            return evidence(kind)
        before = after
    return Evidence()


def _best(events: Events, rows: IntArray, overlap: IntArray, kind: HostWork) -> int:
    """Return which event is the evidence: of those that overlap the stretch most, the shortest, which says most."""
    if kind == "launch":
        return int(overlap.argmax())
    near = np.flatnonzero(overlap >= 0.9 * overlap.max())
    return int(near[(events.end_ns - events.start_ns)[rows[near]].argmin()])


def _one_op(events: Events, rows: IntArray) -> bool:
    """Return whether one of these events is an op of the executor: it computes on the host, and launches nothing."""
    names = (events.names[code] for code in events.name[rows].tolist())
    return any(":" in name and "::" not in name and " " not in name for name in names)
