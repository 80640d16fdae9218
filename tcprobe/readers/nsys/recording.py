"""One recording of Nsight Systems as a `Profile`: its tables, and what is known of how it was made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tcprobe.errors import EmptyInput
from tcprobe.readers.nsys import ranges as nvtx
from tcprobe.readers.nsys.calls import Calls, called_ns, read_calls
from tcprobe.readers.nsys.columns import NONE, Ints
from tcprobe.readers.nsys.devices import Gpus, read_gpus
from tcprobe.readers.nsys.launches import (
    Ran,
    configurations,
    graphs,
    kernel_names,
    memory_kinds,
    nullable,
    read_kernels,
    read_memory,
)
from tcprobe.readers.nsys.opening import Database, open_database
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Note, Profile

STRINGS: Final = "StringIds"
EXPORTED: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CAPTURED: Final = "META_DATA_CAPTURE"
EPOCH: Final = 10**15  # ns; eleven days: no capture is as long, so such a clock counts from elsewhere


def is_recording(tables: Collection[str]) -> bool:
    """Say whether these are tables that only Nsight Systems writes."""
    marks = (*EXPORTED, nvtx.EVENTS)
    return STRINGS in tables and any(name in marks or name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)


@dataclass(frozen=True, slots=True)
class _Run:
    """What ran, and what launched it.

    Attributes:
        kernels, copies, sets: what the GPUs ran.
        launched: for each of these, the call that launched it; -1 where none was recorded.
        calls: the calls.
        origin: start of the capture on the clock of the file.
    """

    kernels: Ran
    copies: Ran
    sets: Ran
    launched: tuple[Ints, Ints, Ints]
    calls: Calls
    origin: int

    def launching(self) -> Ints:
        """Return the calls that launched something, each once."""
        found = np.zeros(len(self.calls.key), np.bool_)
        for call in self.launched:
            found[call[call >= 0]] = True
        return np.flatnonzero(found)


def read_recording(path: Path, named: Path) -> Profile:
    """Read one recording.

    Args:
        path: its SQLite export.
        named: the file that the user named: the export, or the report that it was made of.

    Raises:
        EmptyInput: it holds neither kernels nor ranges.
        InputError: it is damaged, being written, or nothing of Nsight Systems's.
    """
    with open_database(path) as database:
        if not is_recording(database.tables):
            raise EmptyInput(named, "is no recording of Nsight Systems: its tables are those of another program")
        return _profile(database, named)


def _profile(database: Database, named: Path) -> Profile:
    run = _run(database)
    marked = nvtx.closed(nvtx.read_ranges(database), _last(run))
    launching = run.launching()
    thread = run.calls.thread[launching]
    threads = np.unique(np.concatenate([thread, marked.rows["globalTid"]]))
    held = nvtx.holding(marked.rows, run.calls.start_ns[launching], thread)
    kept = marked.rows.take(held) if len(run.kernels) else marked.rows
    gpus = read_gpus(database)
    tables = [*_launched(database, run, gpus, threads), nvtx.ranges_table(database, kept, threads, run.origin)]
    present = {table.spec.name: table for table in tables if len(table)}
    metadata = Metadata(
        "nsys", (str(named),), _profiler(database), gpu_used=bool(len(run.kernels)), notes=tuple(_notes(run, marked))
    )
    absent = {name: why for name, why in _ABSENT.items() if name not in present}
    return Profile(metadata, present, absent)


_ABSENT: Final = {
    "launches": "the recording holds no kernels",
    "launch_configs": "the recording holds no kernels",
    "memory_ops": "the recording holds no copies",
    "ranges": "the recording holds no NVTX ranges",
    "devices": "the recording names no GPU",
}


def _run(database: Database) -> _Run:
    kernels, (copies, sets) = read_kernels(database), read_memory(database)
    calls = read_calls(database)
    launched = (calls.launch_of(kernels.rows), calls.launch_of(copies.rows), calls.launch_of(sets.rows))
    starts = [ran.rows["start"] for ran in (kernels, copies, sets) if len(ran)]
    first = min((int(start.min()) for start in starts), default=0)
    return _Run(kernels, copies, sets, launched, calls, first if first > EPOCH else 0)


def _last(run: _Run) -> int:
    """Return when the last thing that was recorded ended."""
    ends = [int(ran.rows["end"].max()) for ran in (run.kernels, run.copies, run.sets) if len(ran)]
    return max([*ends, *([int(run.calls.start_ns.max())] if len(run.calls.key) else [])], default=0)


def _launched(database: Database, run: _Run, gpus: Gpus, threads: Ints) -> Iterator[Table]:
    kernels, call = run.kernels, run.launched[0]
    rows, device = kernels.rows, gpus.numbers(kernels)
    config, configs = configurations(rows)
    known = call >= 0
    thread = np.full(len(rows), np.nan)
    thread[known] = np.searchsorted(threads, run.calls.thread[call[known]])
    yield Table(contract.LAUNCH_CONFIGS, configs)
    yield Table(
        contract.LAUNCHES,
        {
            **_times(kernels, device, run.origin),
            "kernel": kernel_names(database, rows),
            "op_id": np.full(len(rows), -1, np.int64),
            "config_id": config,
            "correlation_id": nullable(np.where(rows["correlationId"] > 0, rows["correlationId"], NONE)),
            "launch_ns": called_ns(run.calls, call, run.origin),
            "thread": thread,
            "cuda_graph": graphs(rows),
        },
    )
    yield _memory(run, gpus)
    yield gpus.table(set(np.unique(device).tolist()))


def _times(ran: Ran, device: Ints, origin: int) -> dict[str, Any]:
    rows = ran.rows
    stream = np.where((rows["streamId"] >= 0) & (rows["streamId"] < 2**53), rows["streamId"], -1)
    duration = rows["end"] - rows["start"]
    return {"device": device, "stream": stream, "start_ns": rows["start"] - origin, "duration_ns": duration}


def _memory(run: _Run, gpus: Gpus) -> Table:
    both = (run.copies, run.sets)
    parts = [_times(ran, gpus.numbers(ran), run.origin) for ran in both]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    sizes = np.concatenate([nullable(ran.rows["bytes"]) for ran in both])
    launch = np.concatenate([called_ns(run.calls, call, run.origin) for call in run.launched[1:]])
    kinds = memory_kinds(run.copies, run.sets)
    return Table(contract.MEMORY_OPS, {**columns, "kind": kinds, "size_bytes": sizes, "launch_ns": launch})


def _profiler(database: Database) -> str:
    for table in EXPORTED:
        for name, value in database.rows(table, "name", "value"):
            if name == "EXPORT_PRODUCT_VERSION" and isinstance(value, str):
                return f"Nsight Systems {value}"
    return "Nsight Systems"


def _notes(run: _Run, marked: nvtx.Ranges) -> Iterator[Note]:
    missing = int(np.count_nonzero(run.launched[0] < 0))
    if missing:
        share = 100 * missing / len(run.kernels)
        message = f"{missing:,} of {len(run.kernels):,} kernels ({share:.3g} %) have no record of their launch"
        yield Note("no-launch-record", message, level="note")
    if marked.open:
        message = f"{marked.open:,} ranges were open when the capture ended: they count up to there"
        yield Note("ranges-open", message, level="note")
