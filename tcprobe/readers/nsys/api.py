"""What the host did while a GPU ran no kernel: long calls of CUDA, and ranges of MPI, NCCL and data loaders.

Times come first: only the few calls and ranges that are long and overlap a stretch without kernels are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.readers.host_work import KINDS, LEAST_NS, Stretches, stretches, work_code
from tcprobe.readers.nsys.columns import Columns, Ints, read_columns, read_strings
from tcprobe.readers.nsys.launches import CALLS, LATEST, Ran
from tcprobe.readers.nsys.opening import Database
from tcprobe.readers.nsys.ranges import NamedRanges, numbered
from tcprobe.schema.columns import Names, Table, merge_names
from tcprobe.schema.tables import HOST_EVENTS

_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?(?:_v\d+)?$")
_WAITS: Final = frozenset(KINDS.index(kind) for kind in ("input", "communicate"))


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

    def telling(self) -> HostEvents:
        """Return those whose name tells what the host did."""
        row = np.flatnonzero(self.work >= 0)
        name = self.name.take(row)
        return HostEvents(self.thread[row], self.start_ns[row], self.end_ns[row], name, self.work[row])

    def table(self, threads: Ints, origin: int) -> Table:
        """Return `host_events`.

        Args:
            threads: globalTid of each thread, ascending; a place in it is the thread's number.
            origin: start of the capture on the clock of the file.
        """
        columns = {
            "thread": numbered(threads, self.thread),
            "start_ns": self.start_ns - origin,
            "duration_ns": self.end_ns - self.start_ns,
            "name": self.name,
            "work": Names(self.work, KINDS),
        }
        return Table(HOST_EVENTS, columns)


def read_host_events(database: Database, kernels: Ran, devices: Ints, ranges: NamedRanges) -> HostEvents:
    """Read what the host did while some GPU that ran kernels ran none.

    Args:
        database: open.
        kernels: of all GPUs.
        devices: number of the GPU of each.
        ranges: of NVTX.
    """
    start, duration = kernels.rows["start"], kernels.rows["end"] - kernels.rows["start"]
    by_gpu = [devices == device for device in np.unique(devices).tolist()]
    idle = stretches([(start[mine], duration[mine]) for mine in by_gpu])
    return _joined([_calls(database, idle), _marked(ranges, idle)])


def _calls(database: Database, idle: Stretches) -> HostEvents:
    """Return the calls of CUDA that last and overlap a stretch without kernels, and tell something."""
    rows = _long_calls(database)
    rows = rows.take(idle.meet(rows["start"], rows["end"]))
    names = _bare(read_strings(database, rows["nameId"]))
    work = np.array([*(work_code(name) for name in names.names), -1], np.int64)[names.ids]
    return HostEvents(rows["globalTid"], rows["start"], rows["end"], names, work).telling()


def _marked(ranges: NamedRanges, idle: Stretches) -> HostEvents:
    """Return the ranges that mark waiting for data or for other processes, likewise."""
    codes = [work_code(one.text) for one in ranges.named]
    work = np.array([code if code in _WAITS else -1 for code in codes], np.int64)[ranges.code]
    row = np.flatnonzero((work >= 0) & (ranges.thread > 0) & (ranges.end - ranges.start >= LEAST_NS))
    row = row[idle.meet(ranges.start[row], ranges.end[row])]
    names = Names.of([one.text for one in ranges.named]).take(ranges.code[row])
    return HostEvents(ranges.thread[row], ranges.start[row], ranges.end[row], names, work[row])


def _long_calls(database: Database) -> Columns:
    names = ("start", "end", "globalTid", "nameId")
    known = database.has(CALLS, *names)
    rows = read_columns(database, CALLS, names, f"[end] - [start] >= {LEAST_NS}" if known else "0")
    sane = (rows["start"] > -LATEST) & (rows["end"] < LATEST) & (rows["globalTid"] > 0)
    return rows.take(sane)


def _bare(names: Names) -> Names:
    """Return names of calls without the version of their interface: cudaLaunchKernel of cudaLaunchKernel_v7000."""
    return Names.of([*(_VERSION.sub("", name) for name in names.names), None]).take(names.ids)


def _joined(parts: list[HostEvents]) -> HostEvents:
    thread, start, end, work = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("thread", "start_ns", "end_ns", "work")
    )
    return HostEvents(thread, start, end, merge_names([part.name for part in parts]), work)
