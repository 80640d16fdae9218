"""Kernels, copies and sets as the GPUs ran them, the CUDA calls that launched them, and which GPUs these are.

The calls in which the processes of a job wait for one another are told by the names that MPI gives its ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tcprobe.readers.arrays import combine, dense
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.nsys.columns import Columns, Ints, decoded, read_columns, read_strings
from tcprobe.readers.nsys.opening import Database
from tcprobe.readers.rows import gpu_row, named_kernels, rows_as_text
from tcprobe.schema import tables as contract
from tcprobe.schema.columns import FloatArray, Names, Table, Value
from tcprobe.schema.tables import COLLECTIVES

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
GPUS: Final = "TARGET_INFO_GPU"
CUDA_DEVICES: Final = "TARGET_INFO_CUDA_DEVICE"
_THREAD: Final = 0xFFFFFF  # Nsight Systems User Guide, "Exporting": globalTid holds the process above, the thread below

LATEST: Final = 1 << 62
LONGEST: Final = 1 << 53  # whole numbers of ns are exact below it
_RAN: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_NAMES: Final = ("demangledName", "shortName", "mangledName")
_GRID: Final = ("gridX", "gridY", "gridZ")
_BLOCK: Final = ("blockX", "blockY", "blockZ")
_RESOURCES: Final = {
    "registers": "registersPerThread",
    "static_shared_bytes": "staticSharedMemory",
    "dynamic_shared_bytes": "dynamicSharedMemory",
}
_KINDS: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyD2D", "MemcpyP2P", "Memset", "other")
_SET, _OTHER = 4, 5
# ENUM_CUDA_MEMCPY_OPER: to and from arrays, and pages that unified memory moves, go the same way as plain copies
_KIND_OF: Final = {1: 0, 3: 0, 11: 0, 2: 1, 4: 1, 12: 1, 5: 2, 6: 2, 7: 2, 8: 2, 13: 2, 10: 3}
_LARGEST: Final = 2**31
_FIGURES: Final = {
    "sm_count": ("smCount", 1),
    "clock_khz": ("clockRate", 1000),
    "memory_bytes": ("totalMemory", 1),
    "bandwidth_bytes_per_s": ("memoryBandwidth", 1),
}


def read_kernels(database: Database) -> Columns:
    """Read the kernels, with their configuration and the ids of their names."""
    database.need(KERNELS, *_RAN[:3])
    named = [f"[{name}]" for name in _NAMES if database.has(KERNELS, name)]
    made = {"name": f"coalesce({', '.join((*named, 'NULL', 'NULL'))})"}
    if database.has(KERNELS, "graphNodeId", "graphId"):
        query = f"SELECT 1 FROM [{KERNELS}] NOT INDEXED WHERE [graphNodeId] > 0 LIMIT 1"
        if database.connection.execute(query).fetchone() is not None:
            made["graph"] = "CASE WHEN [graphNodeId] > 0 THEN [graphId] END"
    return _possible(read_columns(database, KERNELS, (*_RAN, *_GRID, *_BLOCK, *_RESOURCES.values()), **made))


def read_memory(database: Database) -> tuple[Columns, Columns]:
    """Read the copies and the sets; the kind of each is its place in the names of `memory_kinds`."""
    for table in (COPIES, SETS):
        database.need(table, *_RAN[:3])
    copies = _possible(read_columns(database, COPIES, (*_RAN, "bytes", "copyKind")))
    return copies, _possible(read_columns(database, SETS, (*_RAN, "bytes")))


def _possible(rows: Columns) -> Columns:
    """Leave out what cannot be: an end before the start, a time that no clock gives, a GPU that no machine has."""
    start, end, device = rows["start"], rows["end"], rows["deviceId"]
    sane = (start > -LATEST) & (start < LATEST) & (end >= start) & (end < LATEST)
    sane &= (device >= 0) & (device < MOST_DEVICES)
    return rows.where(sane & (np.where(sane, end - start, 0) < LONGEST))


def nullable(values: Ints, most: int = LONGEST) -> FloatArray:
    """Return whole numbers from 0 as a nullable column; what lies outside is NA."""
    return np.where((values >= 0) & (values < most), values, np.nan)


def times(rows: Columns, device: Ints, origin: int) -> dict[str, Any]:
    """Return where and when kernels or copies ran, as columns of their table."""
    stream = np.where((rows["streamId"] >= 0) & (rows["streamId"] < LONGEST), rows["streamId"], -1)
    duration = rows["end"] - rows["start"]
    return {"device": device, "stream": stream, "start_ns": rows["start"] - origin, "duration_ns": duration}


def kernel_names(database: Database, rows: Columns) -> Names:
    """Return the name of each kernel: demangled, else short or mangled."""
    codes, used = dense(rows["name"])
    return named_kernels(read_strings(database, used)).take(codes)


def configurations(rows: Columns) -> tuple[Ints, dict[str, Any]]:
    """Return (configuration of each kernel, columns of `launch_configs`)."""
    codes, first = combine([rows[name] for name in (*_RESOURCES.values(), *_GRID, *_BLOCK)])
    distinct = rows.take(first)
    figures: dict[str, Any] = {name: nullable(distinct[column], _LARGEST) for name, column in _RESOURCES.items()}
    return codes, {**figures, "block": _sizes(distinct, _BLOCK), "grid": _sizes(distinct, _GRID)}


def _sizes(rows: Columns, names: Sequence[str]) -> Names:
    return rows_as_text([np.where(rows[name] > 0, rows[name], -1) for name in names], ",")


def memory_kinds(copies: Columns, sets: Columns) -> Names:
    """Return the kind of each copy, then of each set."""
    codes, kinds = dense(copies["copyKind"])
    lookup = np.array([_KIND_OF.get(kind, _OTHER) for kind in kinds.tolist()], np.int32)
    return Names(np.concatenate([lookup[codes], np.full(sets.rows, _SET, np.int32)]), _KINDS)


def graphs(rows: Columns) -> FloatArray:
    """Return the CUDA graph that held each kernel; NaN outside any."""
    return nullable(rows["graph"]) if "graph" in rows else np.full(rows.rows, np.nan)


def process_of(thread: Ints) -> Ints:
    """Return the globalPid of each globalTid; `NONE` of `NONE`."""
    return thread & ~_THREAD


def read_calls(database: Database) -> Columns:
    """Read the calls that may have launched something, in order of time."""
    names = ("start", "globalTid", "correlationId")
    database.need(CALLS, *names)
    calls = read_columns(database, CALLS, names, "[correlationId] > 0" if database.has(CALLS) else "")
    start = calls["start"]
    calls = calls.where((start > -LATEST) & (start < LATEST))
    start = calls["start"]
    return calls.take(np.argsort(start, kind="stable")) if (start[1:] < start[:-1]).any() else calls


def launching_calls(calls: Columns, parts: Sequence[Columns]) -> list[Ints]:
    """Return the call of each kernel or copy of each part, -1 where none was recorded.

    They share process and correlation id; of several calls with one id in a process the first counts.
    """
    process = np.concatenate([process_of(calls["globalTid"]), *(part["globalPid"] for part in parts)])
    correlation = np.concatenate([rows["correlationId"] for rows in (calls, *parts)])
    codes, _ = combine([process, correlation])
    own = codes[: calls.rows]
    first = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    first[own[::-1]] = np.arange(len(own) - 1, -1, -1)
    return np.split(first[codes], np.cumsum([calls.rows, *(part.rows for part in parts)]))[1:-1]


def called_ns(calls: Columns, call: Ints, origin: int) -> FloatArray:
    """Return when each call of `launching_calls` began, from `origin`; NaN where there is none."""
    return np.append(calls["start"] - origin, np.nan)[call]


class Gpus(Struct, frozen=True):
    """The GPUs."""

    # (process id, ordinal in that process) -> the GPU's number on the machine, where the file says
    of: Mapping[tuple[int, int], int]
    described: Mapping[int, dict[str, Value]]  # number -> columns of `devices`

    def numbers(self, rows: Columns) -> Ints:
        """Return the number of the GPU that ran each kernel or copy."""
        process, device = rows["globalPid"], rows["deviceId"]
        if not self.of or not rows.rows:
            return device
        codes, first = combine([process, device])
        pairs = zip((process[first] >> 24 & 0xFFFFFF).tolist(), device[first].tolist(), strict=True)
        return np.array([self.of.get(pair, pair[1]) for pair in pairs], np.int64)[codes]

    def table(self, used: set[int]) -> Table:
        """Return `devices`: those that ran kernels; where none did, those that the file describes.

        Other processes, which the recording does not follow, may use the rest of the machine's GPUs.
        """
        rows = []
        for number in sorted(used or self.described):
            row = self.described.get(number, {})
            name = row.get("name")
            rows.append({**gpu_row(number, str(name) if name else None, ran=number in used), **row})
        return Table.from_rows(contract.DEVICES, rows)


def read_gpus(database: Database) -> Gpus:
    """Read what the file says of the GPUs; older exports know only names, cut-out ones nothing."""
    of = {}
    for pid, ordinal, number in database.rows(CUDA_DEVICES, "pid", "cudaId", "gpuId"):
        if isinstance(pid, int) and isinstance(ordinal, int) and isinstance(number, int) and 0 <= number < MOST_DEVICES:
            of[pid & 0xFFFFFF, ordinal] = number
    wanted = ["id", "cuDevice", "name", "computeMajor", "computeMinor", *(column for column, _ in _FIGURES.values())]
    columns = [name for name in wanted if database.has(GPUS, name)]
    rows = [dict(zip(columns, row, strict=True)) for row in database.rows(GPUS, *columns)] if columns else []
    by_ordinal = not database.has(CUDA_DEVICES) and all(row.get("cuDevice") is not None for row in rows)
    numbered = [(row.get("cuDevice" if by_ordinal else "id"), row) for row in rows]
    return Gpus(of, {n: _described(row) for n, row in numbered if isinstance(n, int) and 0 <= n < MOST_DEVICES})


def _described(row: Mapping[str, Value]) -> dict[str, Value]:
    major, minor = row.get("computeMajor"), row.get("computeMinor")
    capability = f"{major}.{minor}" if isinstance(major, int) and isinstance(minor, int) and major > 0 else None
    name = row.get("name")
    named: dict[str, Value] = {"name": name if isinstance(name, str) and name else None}
    for ours, (column, unit) in _FIGURES.items():
        figure = row.get(column)
        named[ours] = figure // unit if isinstance(figure, int) and 0 < figure < LONGEST else None
    return {**named, "compute_capability": capability}


STRINGS: Final = "StringIds"
EVENTS: Final = ("NVTX_EVENTS", "MPI_COLLECTIVES_EVENTS")
"""Where nsys keeps them: as ranges of NVTX, in later versions in a table of their own."""
WAIT_FOR_ALL: Final = frozenset(
    f"MPI_{name}"
    for name in (
        *("Allreduce", "Barrier", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"),
        *("Reduce_scatter", "Reduce_scatter_block"),
    )
)
"""No process leaves these before all have come: what each gets depends on what all bring (MPI 4.1, chapter 6)."""


def read_collectives(database: Database, origin: int) -> Table:
    """Return the collectives of a recording in the order in which they began; empty where it has none.

    Args:
        database: open.
        origin: start of the capture on the clock of the file.
    """
    named = {}
    if database.has(STRINGS, "id", "value"):
        query = f"SELECT [id], [value] FROM [{STRINGS}] NOT INDEXED WHERE [value] GLOB 'MPI_*'"
        said = ((number, decoded(text)) for number, text in database.connection.execute(query))
        named = {number: text for number, text in said if text in WAIT_FOR_ALL}
    listed = ", ".join(str(int(number)) for number in named)
    where = f"[textId] IN ({listed}) AND [end] >= [start]"
    tables = [one for one in EVENTS if listed and database.has(one, "start", "end", "textId")]
    parts = [read_columns(database, one, ("start", "end", "textId"), where) for one in tables]
    start, end, text = (
        np.concatenate([np.zeros(0, np.int64), *(part[name] for part in parts)]) for name in ("start", "end", "textId")
    )
    order = np.argsort(start, kind="stable")
    place = {number: at for at, number in enumerate(named)}
    names = Names(np.array([place[number] for number in text[order].tolist()], np.int64), list(named.values()))
    columns = {"name": names, "start_ns": start[order] - origin, "duration_ns": (end - start)[order]}
    return Table(COLLECTIVES, columns)
