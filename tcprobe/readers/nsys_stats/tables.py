"""Make tables of nsys's reports: launches and copies of a trace, kernels by name of a sum."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.nsys_stats.sheet import Sheet
from tcprobe.readers.rows import gpu_row, named_kernels, rows_as_text, triples_of
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import DEVICES, KERNELS, LAUNCH_CONFIGS, LAUNCHES, MEMORY_OPS

_GRID: Final = ("grdx", "grdy", "grdz")
_BLOCK: Final = ("blkx", "blky", "blkz")
_CONFIG: Final = ("reg/trd", "stcsmem", "dymsmem", *_GRID, *_BLOCK)
TRACE: Final = ("start", "duration", "corrid", *_CONFIG, "bytes", "throughput", "device", "strm", "stream", "name")
SUM: Final = (*("time", "total time", "instances", "min", "minimum", "max", "maximum", "gridxyz", "blockxyz", "name"),)
_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,4})\)")
_COPY: Final = re.compile(r"\[CUDA (?:memcpy (?P<kind>.*)|memset)\]")
_WAYS: Final = {
    **dict.fromkeys(("HtoD", "Host-to-Device"), "MemcpyH2D"),
    **dict.fromkeys(("DtoH", "Device-to-Host"), "MemcpyD2H"),
    **dict.fromkeys(("DtoD", "Device-to-Device"), "MemcpyD2D"),
    **dict.fromkeys(("PtoP", "Peer-to-Peer"), "MemcpyP2P"),
}


def trace_tables(sheet: Sheet) -> list[Table]:
    """Return `launches`, `launch_configs`, `memory_ops` and `devices` of a GPU trace.

    Raises:
        WrongFormat: a row is damaged.
    """
    sheet.parse(TRACE)
    start, duration, names = sheet.times("start"), sheet.times("duration"), sheet.names("name")
    copies = np.array([_COPY.fullmatch(name) is not None for name in (*names.names, "")], np.bool_)[names.ids]
    device = _devices(sheet)
    stream = _possible(sheet.numbers("strm" if "strm" in sheet.header.names else "stream"))
    common: dict[str, Any] = {"device": device, "stream": stream, "start_ns": start, "duration_ns": duration}
    kernels, moved = np.flatnonzero(~copies), np.flatnonzero(copies)
    configs, config_id = _configs(sheet, kernels)
    launches = {
        **{name: values[kernels] for name, values in common.items()},
        "kernel": named_kernels(names).take(kernels),
        "op_id": np.full(len(kernels), -1),
        "config_id": config_id,
        "correlation_id": sheet.numbers("corrid")[kernels],
    }
    memory = {
        **{name: values[moved] for name, values in common.items()},
        "kind": Names.of([_way(name) for name in (*names.names, "")]).take(names.ids[moved]),
        "size_bytes": _sizes(sheet, duration)[moved],
    }
    used = np.unique(device[kernels])
    return [Table(LAUNCHES, launches), configs, Table(MEMORY_OPS, memory), _device_table(sheet, device, used)]


def _way(name: str) -> str:
    found = _COPY.fullmatch(name)
    if found is None:
        return "other"
    return _WAYS.get(found["kind"], "other") if found["kind"] else "Memset"


def _devices(sheet: Sheet) -> IntArray:
    """Return the ordinal of each row's GPU: the number behind its name."""
    texts = sheet.names("device")
    ordinals = [_ordinal(text) for text in texts.names]
    return np.array([*ordinals, 0], np.int64)[texts.ids]


def _ordinal(text: str) -> int:
    found = _DEVICE.fullmatch(text)
    number = int(found[2]) if found else 0
    return number if number < MOST_DEVICES else 0


def _device_table(sheet: Sheet, device: IntArray, used: IntArray) -> Table:
    texts = sheet.names("device")
    names = {_ordinal(text): found[1] for text in texts.names if (found := _DEVICE.fullmatch(text))}
    return device_table({ordinal: names.get(ordinal, "") for ordinal in np.unique(device).tolist()}, used.tolist())


def device_table(names: dict[int, str], used: list[int]) -> Table:
    """Return `devices`: GPUs by ordinal, with their names, empty where not known, and which ran kernels."""
    return Table.from_rows(DEVICES, [gpu_row(gpu, name, ran=gpu in used) for gpu, name in sorted(names.items())])


def _configs(sheet: Sheet, kernels: IntArray) -> tuple[Table, IntArray]:
    """Return the distinct configurations of kernels, and which each has."""
    columns = [_possible(sheet.numbers(name)[kernels]) for name in _CONFIG]
    first, which = distinct_rows(*(np.round(column * 1000) for column in columns))
    registers, static, dynamic, *sizes = (column[first] for column in columns)
    table = {
        "registers": _known(registers),
        "static_shared_bytes": _known(static) if _exact(sheet, "stcsmem") else np.full(len(first), np.nan),
        "dynamic_shared_bytes": _known(dynamic) if _exact(sheet, "dymsmem") else np.full(len(first), np.nan),
        "grid": rows_as_text(sizes[:3], ","),
        "block": rows_as_text(sizes[3:], ","),
    }
    return Table(LAUNCH_CONFIGS, table), which


def _exact(sheet: Sheet, name: str) -> bool:
    """Return whether a size is given in bytes; in MB it has three digits."""
    return name in sheet.header.names and sheet.header.unit(name) == "B"


def _possible(values: FloatArray) -> FloatArray:
    """Return values with -1 for what is unknown or that no kernel has."""
    return np.where((values >= 0) & (values < 2**40), values, -1.0)


def _known(values: FloatArray) -> FloatArray:
    return np.where(values < 0, np.nan, values)


def _sizes(sheet: Sheet, duration: FloatArray) -> FloatArray:
    """Return the bytes of each copy; NaN where the report only has them rounded.

    Sizes are in MB with three digits, but the rate, from which they follow, has more: it is the size times
    (1000000000 / duration) in whole numbers (gputrace.py of 2022.4, cuda_gpu_trace.py of 2024.2).
    """
    if _exact(sheet, "bytes"):
        return sheet.numbers("bytes")
    rounded = sheet.numbers("bytes") * 1e6
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.round(sheet.numbers("throughput") * 1e6 / np.floor(1e9 / duration))
    agrees: NDArray[np.bool_] = np.abs(size - rounded) <= 500.5
    return np.where(agrees, size, np.nan)


def kernels_table(sheet: Sheet) -> Table:
    """Return `kernels` of a sum: a row per name, with the configuration that took the most time.

    Raises:
        WrongFormat: a row is damaged.
    """
    sheet.parse(SUM)
    total, names = sheet.times("total time"), named_kernels(sheet.names("name"))
    first, kernel = distinct_rows(names.ids)
    least, most = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(least, kernel, sheet.times(_either(sheet, "min", "minimum")))
    np.maximum.at(most, kernel, sheet.times(_either(sheet, "max", "maximum")))
    order = np.argsort(total, kind="stable")
    costliest = np.zeros(len(first), np.int64)
    costliest[kernel[order]] = order
    columns: dict[str, Any] = {
        "kernel": names.take(first),
        "calls": np.bincount(kernel, weights=sheet.numbers("instances", needed=True), minlength=len(first)),
        "sum_ns": np.bincount(kernel, weights=total, minlength=len(first)),
        "min_ns": least,
        "max_ns": most,
        "uses_tc": ["unknown"] * len(first),
        "evidence": [""] * len(first),
        **{name: triples_of(sheet.names(f"{name}xyz")).take(costliest) for name in ("grid", "block")},
    }
    return Table(KERNELS, columns)


def _either(sheet: Sheet, *names: str) -> str:
    return next((name for name in names if name in sheet.header.names), names[-1])
