"""Kernels, copies and sets as the GPU ran them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tcprobe.readers.arrays import combine, dense
from tcprobe.readers.nsys.columns import NONE, Columns, Ints, read_columns, read_strings
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import FloatArray, Names

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
NAMELESS: Final = "(no name)"
MOST_DEVICES: Final = 1024
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
    names = [*_RAN, *_NAMES, *_GRID, *_BLOCK, *_RESOURCES.values(), "graphNodeId", "graphId"]
    return _possible(read_columns(database, KERNELS, names))


def read_memory(database: Database) -> list[Ran]:
    """Read the copies and the sets."""
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
    chosen = rows["demangledName"]
    for other in _NAMES[1:]:
        chosen = np.where(chosen == NONE, rows[other], chosen)
    codes, used = dense(chosen)
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
    return nullable(np.where(rows["graphNodeId"] > 0, rows["graphId"], NONE))
