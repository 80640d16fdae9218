"""What the host did while a GPU ran no kernel: long calls of CUDA, and ranges of MPI, NCCL and data loaders.

Times come first: only the few calls and ranges that are long and overlap a stretch without kernels are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.readers.host_work import KINDS, LEAST_NS, SHORTEST_GAP_NS, Stretches, stretches, work_code
from tcprobe.readers.nsys.calls import CALLS
from tcprobe.readers.nsys.columns import NONE, ROW, Columns, Ints, read_columns, read_strings
from tcprobe.readers.nsys.launches import LATEST, Ran
from tcprobe.readers.nsys.opening import Database
from tcprobe.readers.nsys.ranges import EVENTS
from tcprobe.readers.nsys.torch_names import cut
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.tables import HOST_EVENTS

LEAST_RANGE_NS: Final = SHORTEST_GAP_NS // 2  # of the shortest gap, what explains it covers half
MOST_RANGES: Final = 5_000  # the longest, as each is looked up by itself; a report lists 20 gaps of a GPU
_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?(?:_v\d+)?$")
_WAITS: Final = frozenset({KINDS.index("input"), KINDS.index("synchronise")})


@dataclass(frozen=True, slots=True)
class HostEvents:
    """Calls and ranges that say what the host did.

    Attributes:
        thread: globalTid.
        start_ns, end_ns: on the clock of the file.
        name: of each; calls without the version of their interface.
        work: place of the work in `KINDS`.
    """

    thread: Ints
    start_ns: Ints
    end_ns: Ints
    name: Names
    work: Ints

    def table(self, threads: Ints, origin: int) -> Table:
        """Return `host_events`.

        Args:
            threads: globalTid of each thread, ascending; a place in it is the thread's number.
            origin: start of the capture on the clock of the file.
        """
        columns = {
            "thread": np.searchsorted(threads, self.thread),
            "start_ns": self.start_ns - origin,
            "duration_ns": self.end_ns - self.start_ns,
            "name": self.name,
            "work": Names(self.work, KINDS),
        }
        return Table(HOST_EVENTS, columns)


def read_host_events(database: Database, kernels: Ran, devices: Ints, ranges: Columns) -> HostEvents:
    """Read what the host did while some GPU that ran kernels ran none.

    Args:
        database: open.
        kernels: of all GPUs.
        devices: number of the GPU of each.
        ranges: of NVTX, as `ranges.closed` leaves them.
    """
    start, duration = kernels.rows["start"], kernels.rows["end"] - kernels.rows["start"]
    by_gpu = [devices == device for device in np.unique(devices).tolist()]
    idle = stretches([(start[mine], duration[mine]) for mine in by_gpu])
    calls = _kept(_long_calls(database), idle, LEAST_NS)
    marked = _kept(ranges, idle, LEAST_RANGE_NS)
    marked = marked.take(np.sort(np.argsort(marked["start"] - marked["end"], kind="stable")[:MOST_RANGES]))
    names = [_bare(read_strings(database, calls["nameId"])), _texts(database, marked)]
    work = [_work(names[0]), _work(names[1])]
    work[1][~np.isin(work[1], [*_WAITS])] = -1
    return _joined([calls, marked], names, work)


def _long_calls(database: Database) -> Columns:
    names = ("start", "end", "globalTid", "nameId")
    known = database.has(CALLS, *names)
    rows = read_columns(database, CALLS, names, f"[end] - [start] >= {LEAST_NS}" if known else "0")
    sane = (rows["start"] > -LATEST) & (rows["end"] < LATEST) & (rows["globalTid"] != NONE)
    return rows.take(sane)


def _kept(rows: Columns, idle: Stretches, least: int) -> Columns:
    """Return rows that last `least` ns and overlap a stretch without kernels."""
    long = np.flatnonzero(rows["end"] - rows["start"] >= least)
    return rows.take(long[idle.meet(rows["start"][long], rows["end"][long])])


def _bare(names: Names) -> Names:
    """Return names of calls without the version of their interface: cudaLaunchKernel of cudaLaunchKernel_v7000."""
    return Names.of([_VERSION.sub("", name) for name in names.names]).take(names.ids) if len(names) else names


def _work(names: Names) -> Ints:
    codes = np.array([*(work_code(name) for name in names.names), -1], np.int64)
    return codes[names.ids]


def _texts(database: Database, rows: Columns) -> Names:
    """Return the names of a few ranges, each looked up by its row."""
    inline = np.flatnonzero(rows["textId"] == NONE)
    found = read_strings(database, rows["textId"]).tolist()
    if database.has(EVENTS, "text"):
        query = f"SELECT [text] FROM [{EVENTS}] WHERE {ROW} = ?"
        for place, row in zip(inline.tolist(), rows[ROW][inline].tolist(), strict=True):
            text = database.connection.execute(query, (row,)).fetchone()
            found[place] = text[0].decode(errors="replace") if text and isinstance(text[0], bytes) else None
    return Names.of([None if text is None else cut(text).text for text in found])


def _joined(parts: list[Columns], names: list[Names], work: list[Ints]) -> HostEvents:
    kept = [np.flatnonzero(codes >= 0) for codes in work]
    rows = [part.take(index) for part, index in zip(parts, kept, strict=True)]
    thread, start, end = (np.concatenate([part[name] for part in rows]) for name in ("globalTid", "start", "end"))
    texts = [text for name, index in zip(names, kept, strict=True) for text in name.take(index).tolist()]
    codes = np.concatenate([code[index] for code, index in zip(work, kept, strict=True)])
    return HostEvents(thread, start, end, Names.of(texts), codes)
