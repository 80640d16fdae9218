"""Kernels, copies and sets as the GPU ran them, and the CUDA calls that launched them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import combine, dense
from tcprobe.readers.limits import MOST_DEVICES, NAMELESS
from tcprobe.readers.nsys.columns import NONE, Columns, Ints, read_columns, read_strings
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import FloatArray, Names

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
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
# ENUM_CUDA_MEMCPY_OPER: to and from arrays, and pages that unified memory moves, go the same way as plain copies
_KIND_OF: Final = {1: 0, 3: 0, 11: 0, 2: 1, 4: 1, 12: 1, 5: 2, 6: 2, 7: 2, 8: 2, 13: 2, 10: 3}
_LARGEST: Final = 2**31


@dataclass(slots=True)
class Ran:
    """What GPUs ran, of one table or several.

    Attributes:
        rows: start, end, deviceId, streamId, correlationId, globalPid of each.
        odd: rows that were left out, as their times or their GPU cannot be.
    """

    rows: Columns
    odd: int

    def __len__(self) -> int:
        return len(self.rows)


def read_kernels(database: Database) -> Ran:
    """Read the kernels, with their configuration and the ids of their names."""
    names = [*_RAN, *_GRID, *_BLOCK, *_RESOURCES.values()]
    if database.has(KERNELS):
        database.need(KERNELS, *_RAN[:3])
    named = [f"[{name}]" for name in _NAMES if database.has(KERNELS, name)]
    made = {"name": f"coalesce({', '.join((*named, 'NULL', 'NULL'))})"}
    if database.has(KERNELS, "graphNodeId", "graphId") and _any(database, "[graphNodeId] > 0"):
        made["graph"] = "CASE WHEN [graphNodeId] > 0 THEN [graphId] END"
    return _possible(read_columns(database, KERNELS, names, **made))


def _any(database: Database, condition: str) -> bool:
    query = f"SELECT 1 FROM [{KERNELS}] NOT INDEXED WHERE {condition} LIMIT 1"
    return database.connection.execute(query).fetchone() is not None


def read_memory(database: Database) -> list[Ran]:
    """Read the copies and the sets."""
    for table in (COPIES, SETS):
        if database.has(table):
            database.need(table, *_RAN[:3])
    copies = read_columns(database, COPIES, (*_RAN, "bytes", "copyKind"))
    sets = read_columns(database, SETS, (*_RAN, "bytes"))
    return [_possible(copies), _possible(sets)]


def _possible(rows: Columns) -> Ran:
    """Leave out what cannot be: an end before the start, a time that no clock gives, a GPU that no machine has."""
    start, end, device = rows["start"], rows["end"], rows["deviceId"]
    sane = (start > -LATEST) & (start < LATEST) & (end >= start) & (end < LATEST)
    sane &= (device >= 0) & (device < MOST_DEVICES)
    sane &= np.where(sane, end - start, 0) < LONGEST
    odd = len(rows) - int(np.count_nonzero(sane))
    return Ran(rows.take(sane) if odd else rows, odd)


def nullable(values: Ints, most: int = LONGEST) -> FloatArray:
    """Return whole numbers from 0 as a nullable column; what lies outside is NA."""
    return np.where((values >= 0) & (values < most), values, np.nan)


def kernel_names(database: Database, rows: Columns) -> Names:
    """Return the name of each kernel: demangled, else short or mangled."""
    codes, used = dense(rows["name"])
    names = read_strings(database, used)
    texts = [*names.names, NAMELESS]
    return Names(np.where(names.ids < 0, len(texts) - 1, names.ids)[codes] if len(codes) else codes, texts)


def configurations(rows: Columns) -> tuple[Ints, dict[str, Any]]:
    """Return (configuration of each kernel, columns of `launch_configs`)."""
    columns = [*_RESOURCES.values(), *_GRID, *_BLOCK]
    codes, first = combine([rows[name] for name in columns])
    distinct = rows.take(first)
    figures: dict[str, Any] = {name: nullable(distinct[column], _LARGEST) for name, column in _RESOURCES.items()}
    return codes, {**figures, "block": _sizes(distinct, _BLOCK), "grid": _sizes(distinct, _GRID)}


def _sizes(rows: Columns, names: Sequence[str]) -> list[str | None]:
    sizes = zip(*(rows[name].tolist() for name in names), strict=True)
    return [",".join(map(str, size)) if all(0 < s < _LARGEST for s in size) else None for size in sizes]


def memory_kinds(copies: Ran, sets: Ran) -> Names:
    """Return the kind of each copy, then of each set."""
    lookup = np.full(max(_KIND_OF) + 2, len(_KINDS) - 1, np.int32)
    lookup[list(_KIND_OF)] = list(_KIND_OF.values())
    kind = copies.rows["copyKind"]
    known = np.where((kind >= 0) & (kind <= max(_KIND_OF)), kind, len(lookup) - 1)
    return Names(np.concatenate([lookup[known], np.full(len(sets), _KINDS.index("Memset"), np.int32)]), _KINDS)


def graphs(rows: Columns) -> FloatArray:
    """Return the CUDA graph that held each kernel; NaN outside any."""
    return nullable(rows["graph"]) if "graph" in rows else np.full(len(rows), np.nan)


def process_of(thread: Ints) -> Ints:
    """Return the globalPid of each globalTid."""
    return np.where(thread == NONE, NONE, thread & ~_THREAD)


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that launched something, by process and correlation id.

    Attributes:
        key: process and correlation id as one number, ascending.
        start_ns: when each began, on the clock of the file.
        thread: globalTid.
        processes, correlations: what the keys are made of, ascending.
    """

    key: Ints
    start_ns: Ints
    thread: Ints
    processes: Ints
    correlations: Ints

    def launch_of(self, launched: Columns) -> Ints:
        """Return the call of each kernel or copy, as a row here; -1 where none was recorded."""
        process, known = _positions(self.processes, launched["globalPid"])
        correlation, listed = _positions(self.correlations, launched["correlationId"])
        place, found = _positions(self.key, process * len(self.correlations) + correlation)
        return np.where(known & listed & found, place, -1)


def _positions(among: Ints, values: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return where values stand among ascending ones, and whether they do."""
    if not len(among):
        return np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return place, among[place] == values


def read_calls(database: Database) -> Calls:
    """Read the calls; of several with one correlation id in a process the first counts."""
    if database.has(CALLS):
        database.need(CALLS, "start", "globalTid", "correlationId")
    calls = read_columns(database, CALLS, ("start", "globalTid", "correlationId"), _where(database))
    sane = (calls["start"] > -LATEST) & (calls["start"] < LATEST)
    calls = calls if sane.all() else calls.take(sane)
    calls = calls.take(np.argsort(calls["start"], kind="stable")) if _unsorted(calls["start"]) else calls
    process, processes = dense(process_of(calls["globalTid"]))
    correlation, correlations = dense(calls["correlationId"])
    key = process * len(correlations) + correlation
    order = np.argsort(key, kind="stable")
    first = np.ones(len(order), np.bool_)
    first[1:] = key[order[1:]] != key[order[:-1]]
    rows = order[first]
    return Calls(key[rows], calls["start"][rows], calls["globalTid"][rows], processes, correlations)


def _where(database: Database) -> str:
    return "[correlationId] > 0" if database.has(CALLS, "correlationId") else ""


def _unsorted(values: Ints) -> bool:
    return bool((values[1:] < values[:-1]).any())


def called_ns(calls: Calls, call: Ints, origin: int) -> FloatArray:
    """Return when each call of `launch_of` began, from `origin`; NaN where there is none."""
    if not len(calls.start_ns):
        return np.full(len(call), np.nan)
    return np.where(call < 0, np.nan, (calls.start_ns[call] - origin).astype(np.float64))
