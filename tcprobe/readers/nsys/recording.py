"""One recording of Nsight Systems as a `Profile`: its tables, and what is known of how it was made."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tcprobe.errors import EmptyInput
from tcprobe.masking import REDACTED, mask_words
from tcprobe.probe.constants import DOMAIN
from tcprobe.probe.ranks import rank_of
from tcprobe.readers.arrays import combine, dense
from tcprobe.readers.host_work import KINDS, LEAST_NS, Stretches, overhead_work, stretches, work_code
from tcprobe.readers.nsys import ranges as nvtx
from tcprobe.readers.nsys.columns import NONE, Columns, Ints, count_rows, read_columns, read_strings
from tcprobe.readers.nsys.diagnostics import diagnostic_notes, traces_cuda
from tcprobe.readers.nsys.launches import (
    CALLS,
    LATEST,
    Gpus,
    called_ns,
    configurations,
    graphs,
    kernel_names,
    launching_calls,
    memory_kinds,
    nullable,
    process_of,
    read_calls,
    read_collectives,
    read_gpus,
    read_kernels,
    read_memory,
    times,
)
from tcprobe.readers.nsys.opening import Database, open_database
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import Names, Table, merge_names
from tcprobe.schema.profile import Metadata, Note, Profile

STRINGS: Final = "StringIds"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
OVERHEADS: Final = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
EPOCH: Final = 10**15  # ns; eleven days: no capture is as long, so such a clock counts from elsewhere
_VERSION: Final = re.compile(r"(?:_pt[sd][sz])?(?:_v\d+)?$")
_WAITS: Final = ("input", "communicate")


def is_recording(tables: Collection[str]) -> bool:
    """Say whether these are tables that only Nsight Systems writes."""
    marks = (*EXPORTED, nvtx.EVENTS)
    return STRINGS in tables and any(name in marks or name.startswith("CUPTI_ACTIVITY_KIND_") for name in tables)


class _Run(Struct, frozen=True):
    """What ran, and what launched it."""

    parts: tuple[Columns, Columns, Columns]  # kernels, copies, sets
    calls: Columns
    launched: list[Ints]  # for each part, the call that launched each row; -1 where none was recorded

    @property
    def kernels(self) -> Columns:
        return self.parts[0]


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
    parts, calls = (read_kernels(database), *read_memory(database)), read_calls(database)
    run = _Run(parts, calls, launching_calls(calls, parts))
    starts = [calls["start"], *(part["end"] for part in parts)]
    marked = nvtx.read_ranges(database, max((int(start.max()) for start in starts if len(start)), default=0))
    launched = np.concatenate(run.launched)
    launching = calls.take(dense(launched[launched >= 0])[1])
    held = np.ones(marked.rows, np.bool_)
    if run.kernels.rows:
        held = nvtx.holding(marked, launching["start"], launching["globalTid"])
    gpus, origin, ranges = read_gpus(database), _origin(run, marked), nvtx.read_names(database, marked, held)
    host, host_names = _host_events(database, run.kernels, gpus.numbers(run.kernels), ranges)
    seen = (launching["globalTid"], marked["thread"], host["thread"])
    threads = np.unique(np.concatenate([dense(of)[1] for of in seen]))
    threads = threads[threads > 0]
    marks = ranges.table(threads, origin)
    made = [*_launched(database, run, gpus, threads, origin), _threads(threads), marks]
    made += [_host_table(host, host_names, threads, origin), read_collectives(database, origin)]
    described, notes = _session(database)
    graph_launches = count_rows(database, GRAPHS)
    used, traced = bool(run.kernels.rows or graph_launches or calls.rows), traces_cuda(database)
    said = [*diagnostic_notes(database), *_no_kernels(run, graph_launches, traced)]
    notes = [*said, *_notes(run, marked, len(marks), graph_launches), *_shared(run, gpus), *notes]
    if not used and not marked.rows:
        raise EmptyInput(named, "holds neither kernels nor NVTX ranges", "record with nsys profile --trace=cuda,nvtx")
    metadata = Metadata(
        "nsys", (str(named),), gpu_used=used or (None if traced is False else False), notes=tuple(notes), **described
    )
    tables = {table.spec.name: table for table in made if len(table)}
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


def _origin(run: _Run, marked: nvtx.Ranges) -> int:
    """Return the time at which the capture begins on the clock of the file: 0, unless that counts since the epoch."""
    starts = [rows["start"] for rows in (run.calls, marked, *run.parts) if rows.rows]
    first = min((int(start.min()) for start in starts), default=0)
    return first if first > EPOCH else 0


def _launched(database: Database, run: _Run, gpus: Gpus, threads: Ints, origin: int) -> Iterator[Table]:
    rows, call = run.kernels, run.launched[0]
    device = gpus.numbers(rows)
    config, configs = configurations(rows)
    thread = np.full(rows.rows, np.nan)
    thread[call >= 0] = nvtx.numbered(threads, run.calls["globalTid"][call[call >= 0]])
    yield Table(contract.LAUNCH_CONFIGS, configs)
    yield Table(
        contract.LAUNCHES,
        {
            **times(rows, device, origin),
            "kernel": kernel_names(database, rows),
            "op_id": np.full(rows.rows, -1, np.int64),
            "config_id": config,
            "correlation_id": nullable(np.where(rows["correlationId"] > 0, rows["correlationId"], NONE)),
            "launch_ns": called_ns(run.calls, call, origin),
            "thread": thread,
            "cuda_graph": graphs(rows),
        },
    )
    _, copies, sets = run.parts
    parts = [
        {
            **times(part, gpus.numbers(part), origin),
            "size_bytes": nullable(part["bytes"]),
            "launch_ns": called_ns(run.calls, call, origin),
        }
        for part, call in zip((copies, sets), run.launched[1:], strict=True)
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    yield Table(contract.MEMORY_OPS, {**columns, "kind": memory_kinds(copies, sets)})
    yield gpus.table(set(np.unique(device).tolist()))


def _threads(threads: Ints) -> Table:
    _, process = np.unique(process_of(threads), return_inverse=True)
    return Table(contract.THREADS, {"thread": np.arange(len(threads)), "process": process})


def _host_events(
    database: Database, kernels: Columns, devices: Ints, ranges: nvtx.NamedRanges
) -> tuple[Columns, Names]:
    """Return what the host did while a GPU ran no kernel, and the names of that: long calls of CUDA, and ranges.

    Times come first: only the few calls and ranges that are long and overlap a stretch without kernels are named.

    Args:
        database: open.
        kernels: of all GPUs.
        devices: number of the GPU of each.
        ranges: of NVTX; those of MPI, NCCL and data loaders say what the host waits for, others where it is.
    """
    start, duration = kernels["start"], kernels["end"] - kernels["start"]
    by_gpu = [devices == device for device in np.unique(devices).tolist()]
    idle = stretches([(start[mine], duration[mine]) for mine in by_gpu])
    parts = [_long_calls(database, idle), *(_overheads(database, table, idle) for table in OVERHEADS)]
    texts = [one.text for one in ranges.named]
    work = np.array([*map(_range_code, ranges.named)], np.int64)[ranges["code"]]
    rows = np.flatnonzero((work >= 0) & (ranges["thread"] > 0) & (ranges["end"] - ranges["start"] >= LEAST_NS))
    rows = rows[idle.meet(ranges["start"][rows], ranges["end"][rows])]
    waits = {**ranges.take(rows), "work": work[rows]}
    parts.append((Columns(waits), Names.of(texts).take(waits["code"])))
    columns = {name: np.concatenate([part[name] for part, _ in parts]) for name in ("start", "end", "thread", "work")}
    return Columns(columns), merge_names([names for _, names in parts])


def _range_code(named: nvtx.Named) -> int:
    """Return the place in `KINDS` of what a range tells; -1 of a step, and of what tcprobe itself marks."""
    if named.domain == DOMAIN or named.told.kind == "step":
        return -1
    code = work_code(named.text)
    return code if code >= 0 and KINDS[code] in _WAITS else KINDS.index("range")


def _long_rows(database: Database, table: str, idle: Stretches) -> Columns:
    """Return the rows of a table on threads that last and overlap a stretch without kernels."""
    names = ("start", "end", "globalTid", "nameId")
    known = database.has(table, *names)
    rows = read_columns(database, table, names, f"[end] - [start] >= {LEAST_NS}" if known else "0")
    rows = rows.take((rows["start"] > -LATEST) & (rows["end"] < LATEST) & (rows["globalTid"] > 0))
    return rows.take(idle.meet(rows["start"], rows["end"]))


def _overheads(database: Database, table: str, idle: Stretches) -> tuple[Columns, Names]:
    """Return what the profiler itself cost, by name."""
    rows = _long_rows(database, table, idle)
    names = read_strings(database, rows["nameId"])
    kinds = [overhead_work(name or "") for name in names.names]
    work = np.array([*(-1 if kind is None else KINDS.index(kind) for kind in kinds), KINDS.index("profiler")], np.int64)
    rows = Columns(start=rows["start"], end=rows["end"], thread=rows["globalTid"], work=work[names.ids])
    return rows.take(rows["work"] >= 0), names.take(rows["work"] >= 0)


def _long_calls(database: Database, idle: Stretches) -> tuple[Columns, Names]:
    """Return the calls of CUDA that last and overlap a stretch without kernels and tell something, and their names.

    These are without the version of the interface: cudaLaunchKernel of cudaLaunchKernel_v7000.
    """
    rows = _long_rows(database, CALLS, idle)
    called = read_strings(database, rows["nameId"])
    bare = Names.of([*(_VERSION.sub("", name) for name in called.names), None]).take(called.ids)
    work = np.array([*map(work_code, bare.names), -1], np.int64)[bare.ids]
    rows = Columns(start=rows["start"], end=rows["end"], thread=rows["globalTid"], work=work)
    return rows.take(work >= 0), bare.take(work >= 0)


def _host_table(host: Columns, names: Names, threads: Ints, origin: int) -> Table:
    columns = {
        "thread": nvtx.numbered(threads, host["thread"]),
        "start_ns": host["start"] - origin,
        "duration_ns": host["end"] - host["start"],
        "name": names,
        "work": Names(host["work"], KINDS),
    }
    return Table(contract.HOST_EVENTS, columns)


def _no_kernels(run: _Run, graphs: int, traced: bool | None) -> Iterator[Note]:
    """Yield why a recording may hold no kernels, as far as it tells."""
    if run.kernels.rows or graphs:
        return
    if traced is False:
        message = "CUDA was not traced: the recording tells nothing of the GPU, whether or not one was used"
        yield Note("cuda-not-traced", message, "record with cuda among the words of --trace")
        return
    calls = f", but {run.calls.rows:,} calls of CUDA" if run.calls.rows else ""
    why = "none ran while it was made" + ("" if traced else ", or nsys did not trace CUDA")
    message = f"the recording holds no kernels{calls}: {why}"
    remedy = "if the program uses the GPU: record where it does, with cuda among the words of --trace"
    yield Note("no-kernels", message, remedy, "warning" if calls else "note")


def _notes(run: _Run, marked: nvtx.Ranges, kept: int, graphs: int) -> Iterator[Note]:
    """Yield what the tables lack, first what weakens a figure."""
    kernels, ranges = run.kernels.rows, marked.rows
    if graphs:
        message = f"{graphs:,} launches of CUDA graphs are recorded as one event each: the kernels inside are missing"
        yield Note(
            "cuda-graphs",
            message,
            "record with nsys profile --cuda-graph-trace=node",
            "warning" if kernels else "error",
        )
    if odd := sum(part.odd for part in run.parts):
        message = f"{odd:,} kernels and copies have times or a GPU that cannot be, and are not counted"
        yield Note("gpu-events-odd", message, "export the recording again")
    if kernels and kept < ranges:
        message = f"{ranges - kept:,} of {ranges:,} NVTX ranges hold no launch on their thread: left out"
        yield Note("ranges-left-out", message, level="note")
    if marked.open:
        message = f"{marked.open:,} NVTX ranges had not ended when the capture did: they count up to its end"
        yield Note("ranges-open", message, level="note")
    if marked.odd:
        yield Note("ranges-odd", f"{marked.odd:,} NVTX ranges have times that cannot be, and are not counted")


def _shared(run: _Run, gpus: Gpus) -> Iterator[Note]:
    """Yield a note where processes use the same ordinal, and nothing tells whether they mean one GPU."""
    rows = run.kernels
    _, first = combine([rows["deviceId"], rows["globalPid"]])
    if not gpus.of and len(np.unique(rows["deviceId"][first])) < len(first):
        message = (
            "several processes use the same GPU ordinal: they count as one GPU, as the file does not say otherwise"
        )
        yield Note("gpus-by-ordinal", message, "with CUDA_VISIBLE_DEVICES they may be several: record each by itself")


EXPORTED: Final = ("META_DATA_EXPORT", "EXPORT_META_DATA")
CAPTURED: Final = "META_DATA_CAPTURE"
MACHINE: Final = "TARGET_INFO_SYSTEM_ENV"
# which NVIDIA's containers of these frameworks set
FRAMEWORKS: Final = {"PYTORCH_VERSION": "pytorch", "TENSORFLOW_VERSION": "tensorflow", "JAX_VERSION": "jax"}
_RANK: Final = re.compile(r"MPI Rank (\d{1,9})")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def _session(database: Database) -> tuple[dict[str, Any], list[Note]]:
    """Return how the recording was made: fields of the metadata, those left out that the file does not tell; notes.

    Of the environment only what bears on the figures.
    """
    environment = dict(_environment(database))
    fields = {
        "profiler": _profiler(database),
        "host": _first(database, MACHINE, "Hostname"),
        "command": _command(database),
        "rank": _rank(database, environment),
        "framework": _framework(environment),
    }
    return {name: value for name, value in fields.items() if value is not None}, list(_environment_notes(environment))


def _first(database: Database, table: str, name: str) -> str | None:
    found = (value for key, value in database.rows(table, "name", "value") if key == name)
    return next((value for value in found if isinstance(value, str) and value), None)


def _profiler(database: Database) -> str:
    versions = (_first(database, table, "EXPORT_PRODUCT_VERSION") for table in EXPORTED)
    version = next((found for found in versions if found), "")
    return " ".join(["Nsight Systems", *([".".join(version.split(".")[:3])] if version else [])])


def _command(database: Database) -> tuple[str, ...] | None:
    """Return the command line of the first process, secrets masked."""
    words: dict[int, str] = {}
    for key, value in database.rows(CAPTURED, "name", "value"):
        place = re.fullmatch(r"PROCESS_0:(?:COMMAND|ARGUMENT_(\d{1,6}))", str(key))
        if place and isinstance(value, str):
            words[-1 if place[1] is None else int(place[1])] = value
    return mask_words([words[place] for place in sorted(words)]) if -1 in words else None


def _environment(database: Database) -> Iterator[tuple[str, str]]:
    """Yield the variables that nsys kept: of the process that it started, else of its own."""
    for name, value in database.rows(MACHINE, "name", "value"):
        if name == "DeviceEnvironment" and isinstance(value, str):
            for line in re.split(r"[\0\n]", value):
                yield from _variable(line)
    for name, value in database.rows(CAPTURED, "name", "value"):
        if name == "PROCESS_0:ENVIRONMENT_VARIABLE" and isinstance(value, str):
            yield from _variable(value)


def _variable(text: str) -> Iterator[tuple[str, str]]:
    name, sign, value = text.partition("=")
    if sign and _NAME.fullmatch(name):
        yield name, value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value


def _rank(database: Database, environment: Mapping[str, str]) -> int | None:
    """Return the rank of the only process of a distributed run that is in the file; None where several are."""
    ids = [number for (number,) in database.rows("ThreadNames", "nameId") if isinstance(number, int)]
    names = read_strings(database, np.array(ids, np.int64)).names
    ranks = {int(found[1]) for name in names if (found := _RANK.fullmatch(name))}
    if ranks:
        return ranks.pop() if len(ranks) == 1 else None
    return rank_of(environment)


def peek_rank(path: Path) -> int | None:
    """Return the rank that an SQLite export is of, without reading its events; None where it does not tell.

    Raises:
        InputError: it is damaged, or being written.
    """
    with open_database(path) as database:
        return _rank(database, dict(_environment(database)))


def _framework(environment: Mapping[str, str]) -> str | None:
    told = [f"{name} {environment[variable]}" for variable, name in FRAMEWORKS.items() if environment.get(variable)]
    return told[0] if len(told) == 1 else None


def _environment_notes(environment: Mapping[str, str]) -> Iterator[Note]:
    if environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        message = "TF32 was switched off where this was recorded (NVIDIA_TF32_OVERRIDE=0)"
        yield Note("tf32-override", message, "unset it to let float32 products run on Tensor Cores as TF32", "note")
    if environment and REDACTED not in environment:
        message = f"the file holds {len(environment):,} environment variables of the recording, which may be private"
        yield Note("environment-inside", message, "look at them before you pass the file on", "note")
