"""One recording of Nsight Systems as a `Profile`: its tables, and what is known of how it was made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from tcprobe.errors import EmptyInput
from tcprobe.readers.arrays import combine
from tcprobe.readers.nsys import ranges as nvtx
from tcprobe.readers.nsys.api import read_host_events
from tcprobe.readers.nsys.columns import NONE, Ints, count_rows
from tcprobe.readers.nsys.devices import Gpus, read_gpus
from tcprobe.readers.nsys.launches import (
    Calls,
    Ran,
    called_ns,
    configurations,
    graphs,
    kernel_names,
    memory_kinds,
    nullable,
    process_of,
    read_calls,
    read_kernels,
    read_memory,
)
from tcprobe.readers.nsys.opening import Database, open_database
from tcprobe.readers.nsys.session import EXPORTED, session
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Note, Profile

STRINGS: Final = "StringIds"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
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
    """

    kernels: Ran
    copies: Ran
    sets: Ran
    launched: tuple[Ints, Ints, Ints]
    calls: Calls

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
        if not is_recording(database.tables.keys() | database.others):
            raise EmptyInput(named, "is no recording of Nsight Systems: its tables are those of another program")
        return _profile(database, named)


def _profile(database: Database, named: Path) -> Profile:
    """Make the profile; without a kernel and a call of CUDA the workload used no GPU, or CUDA was not recorded."""
    run = _run(database)
    marked = nvtx.read_ranges(database, _last(run))
    launching = run.launching()
    thread = run.calls.thread[launching]
    held = np.ones(len(marked), np.bool_)
    if len(run.kernels):
        held = nvtx.holding(marked, run.calls.start_ns[launching], thread)
    gpus, origin, named_ranges = read_gpus(database), _origin(run, marked), nvtx.read_names(database, marked, held)
    host = read_host_events(database, run.kernels, gpus.numbers(run.kernels), named_ranges)
    seen = (thread, marked.thread, host.thread)
    threads = np.unique(np.concatenate([nvtx.distinct_threads(part) for part in seen]))
    threads = threads[threads > 0]
    made = [*_launched(database, run, gpus, threads, origin)]
    made += [_threads(threads), named_ranges.table(threads, origin), host.table(threads, origin)]
    tables = {table.spec.name: table for table in made if len(table)}
    told, notes = session(database)
    graphs = count_rows(database, GRAPHS)
    notes = [*_notes(run, marked, len(made[-2]), graphs), *_shared(run, gpus), *notes]
    used = bool(len(run.kernels) or graphs or len(run.calls.key))
    if not used and not len(marked):
        raise EmptyInput(named, "holds neither kernels nor NVTX ranges", "record with nsys profile --trace=cuda,nvtx")
    metadata = Metadata("nsys", (str(named),), gpu_used=used, notes=tuple(notes), **told)
    return Profile(metadata, tables, {name: why for name, why in _ABSENT.items() if name not in tables})


_ABSENT: Final = {
    "launches": "the recording holds no kernels",
    "launch_configs": "the recording holds no kernels",
    "memory_ops": "the recording holds no copies",
    "ranges": "the recording holds no NVTX ranges",
    "threads": "the recording holds no call and no range of a thread",
    "devices": "the recording names no GPU",
    "op_details": "the recording holds no op",
    "host_ops": "Nsight Systems records calls of the CUDA API, not the ops of a framework",
    "kernel_counters": "the SQLite export holds no hardware counter of a kernel",
}


def _run(database: Database) -> _Run:
    kernels, (copies, sets) = read_kernels(database), read_memory(database)
    calls = read_calls(database)
    launched = (calls.launch_of(kernels.rows), calls.launch_of(copies.rows), calls.launch_of(sets.rows))
    return _Run(kernels, copies, sets, launched, calls)


def _origin(run: _Run, marked: nvtx.Ranges) -> int:
    """Return the time at which the capture begins on the clock of the file: 0, unless that counts since the epoch."""
    starts = [run.calls.start_ns, marked.start, *(ran.rows["start"] for ran in (run.kernels, run.copies, run.sets))]
    first = min((int(start.min()) for start in starts if len(start)), default=0)
    return first if first > EPOCH else 0


def _last(run: _Run) -> int:
    """Return when the last thing that was recorded ended."""
    ends = [int(ran.rows["end"].max()) for ran in (run.kernels, run.copies, run.sets) if len(ran)]
    return max([*ends, *([int(run.calls.start_ns.max())] if len(run.calls.key) else [])], default=0)


def _launched(database: Database, run: _Run, gpus: Gpus, threads: Ints, origin: int) -> Iterator[Table]:
    kernels, call = run.kernels, run.launched[0]
    rows, device = kernels.rows, gpus.numbers(kernels)
    config, configs = configurations(rows)
    known = call >= 0
    thread = np.full(len(rows), np.nan)
    thread[known] = nvtx.numbered(threads, run.calls.thread[call[known]])
    yield Table(contract.LAUNCH_CONFIGS, configs)
    yield Table(
        contract.LAUNCHES,
        {
            **_times(kernels, device, origin),
            "kernel": kernel_names(database, rows),
            "op_id": np.full(len(rows), -1, np.int64),
            "config_id": config,
            "correlation_id": nullable(np.where(rows["correlationId"] > 0, rows["correlationId"], NONE)),
            "launch_ns": called_ns(run.calls, call, origin),
            "thread": thread,
            "cuda_graph": graphs(rows),
        },
    )
    yield _memory(run, gpus, origin)
    yield gpus.table(set(np.unique(device).tolist()))


def _threads(threads: Ints) -> Table:
    _, process = np.unique(process_of(threads), return_inverse=True)
    return Table(contract.THREADS, {"thread": np.arange(len(threads)), "process": process})


def _times(ran: Ran, device: Ints, origin: int) -> dict[str, Any]:
    rows = ran.rows
    stream = np.where((rows["streamId"] >= 0) & (rows["streamId"] < 2**53), rows["streamId"], -1)
    duration = rows["end"] - rows["start"]
    return {"device": device, "stream": stream, "start_ns": rows["start"] - origin, "duration_ns": duration}


def _memory(run: _Run, gpus: Gpus, origin: int) -> Table:
    both = (run.copies, run.sets)
    parts = [_times(ran, gpus.numbers(ran), origin) for ran in both]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    sizes = np.concatenate([nullable(ran.rows["bytes"]) for ran in both])
    launch = np.concatenate([called_ns(run.calls, call, origin) for call in run.launched[1:]])
    kinds = memory_kinds(run.copies, run.sets)
    return Table(contract.MEMORY_OPS, {**columns, "kind": kinds, "size_bytes": sizes, "launch_ns": launch})


def _notes(run: _Run, marked: nvtx.Ranges, kept: int, graphs: int) -> Iterator[Note]:
    """Yield what the tables lack, first what weakens a figure."""
    kernels = len(run.kernels)
    if graphs:
        message = f"{graphs:,} launches of CUDA graphs are recorded as one event each: the kernels inside are missing"
        yield Note("cuda-graphs", message, "record with nsys profile --cuda-graph-trace=node", _level(kernels))
    if not kernels and not graphs:
        message = "the recording holds no kernels: none ran while it was made, or nsys did not trace CUDA"
        remedy = "if the program uses the GPU: record where it does, with cuda among the words of --trace"
        yield Note("no-kernels", message, remedy, "note")
    odd = sum(ran.odd for ran in (run.kernels, run.copies, run.sets))
    if odd:
        message = f"{odd:,} kernels and copies have times or a GPU that cannot be, and are not counted"
        yield Note("gpu-events-odd", message, "export the recording again")
    if kernels and kept < len(marked):
        message = f"{len(marked) - kept:,} of {len(marked):,} NVTX ranges hold no launch on their thread: left out"
        yield Note("ranges-left-out", message, level="note")
    if marked.open:
        message = f"{marked.open:,} NVTX ranges had not ended when the capture did: they count up to its end"
        yield Note("ranges-open", message, level="note")
    if marked.odd:
        yield Note("ranges-odd", f"{marked.odd:,} NVTX ranges have times that cannot be, and are not counted")


def _level(kernels: int) -> Literal["warning", "error"]:
    return "warning" if kernels else "error"


def _shared(run: _Run, gpus: Gpus) -> Iterator[Note]:
    """Yield a note where processes use the same ordinal, and nothing tells whether they mean one GPU."""
    rows = run.kernels.rows
    _, first = combine([rows["deviceId"], rows["globalPid"]])
    if not gpus.of and len(np.unique(rows["deviceId"][first])) < len(first):
        message = (
            "several processes use the same GPU ordinal: they count as one GPU, as the file does not say otherwise"
        )
        yield Note("gpus-by-ordinal", message, "with CUDA_VISIBLE_DEVICES they may be several: record each by itself")
