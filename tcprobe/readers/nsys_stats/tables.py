"""Make tables of nsys's reports: launches and copies of a trace, kernels by name of a sum."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.nsys_stats.sheet import Sheet
from tcprobe.readers.rows import costliest, gpu_row, named_kernels, rows_as_text, summed, triples_of
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.tables import DEVICES, KERNELS, LAUNCH_CONFIGS, LAUNCHES, MEMORY_OPS

_GRID: Final = ("grdx", "grdy", "grdz")
_BLOCK: Final = ("blkx", "blky", "blkz")
_RESOURCES: Final = {"registers": "reg/trd", "static_shared_bytes": "stcsmem", "dynamic_shared_bytes": "dymsmem"}
TRACE: Final = (
    *("start", "duration", "corrid", *_RESOURCES.values(), *_GRID, *_BLOCK),
    *("bytes", "throughput", "device", "strm", "stream", "name"),
)
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
    names, gpus = sheet.names("name"), sheet.names("device")
    start, duration = sheet.times("start"), sheet.times("duration")
    device = gpus.each(lambda text: _gpu(text)[0], 0)
    common: dict[str, Any] = {
        "device": device,
        "stream": _possible(sheet.numbers(_either(sheet, "strm", "stream"))),
        "start_ns": start,
        "duration_ns": duration,
    }
    copies = names.each(lambda name: _COPY.fullmatch(name) is not None, False)
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
        "kind": names.map(_way).take(moved),
        "size_bytes": _sizes(sheet, duration)[moved],
    }
    held = dict.fromkeys(np.unique(device).tolist(), "") | dict(map(_gpu, gpus.names))
    devices = device_table(held, np.unique(device[kernels]).tolist())
    return [Table(LAUNCHES, launches), configs, Table(MEMORY_OPS, memory), devices]


def _way(name: str) -> str:
    found = _COPY.fullmatch(name)
    way = found["kind"] if found else "none"
    return _WAYS.get(way, "other") if way else "Memset"


def _gpu(text: str) -> tuple[int, str]:
    """Return ordinal and name of a GPU, which stand one behind the other."""
    found = _DEVICE.fullmatch(text)
    number = int(found[2]) if found else 0
    return number if number < MOST_DEVICES else 0, found[1] if found else ""


def device_table(names: dict[int, str], used: list[int]) -> Table:
    """Return `devices`: GPUs by ordinal, with their names, empty where not known, and which ran kernels."""
    return Table.from_rows(DEVICES, [gpu_row(gpu, name, ran=gpu in used) for gpu, name in sorted(names.items())])


def _configs(sheet: Sheet, kernels: IntArray) -> tuple[Table, IntArray]:
    """Return the distinct configurations of kernels, and which each has."""
    columns = {name: _possible(sheet.numbers(name)[kernels]) for name in (*_RESOURCES.values(), *_GRID, *_BLOCK)}
    first, which = distinct_rows(*(np.round(column * 1000) for column in columns.values()))
    held = {name: column[first] for name, column in columns.items()}
    # a size is exact where it is given in bytes; in MB it has three digits
    exact = {ours: name for ours, name in _RESOURCES.items() if ours == "registers" or sheet.header.unit(name) == "B"}
    table = {
        **{ours: np.where(held[name] < 0, np.nan, held[name]) for ours, name in exact.items()},
        "grid": rows_as_text([held[name] for name in _GRID], ","),
        "block": rows_as_text([held[name] for name in _BLOCK], ","),
    }
    return Table(LAUNCH_CONFIGS, table), which


def _possible(values: FloatArray) -> FloatArray:
    """Return values with -1 for what is unknown or that no kernel has."""
    return np.where((values >= 0) & (values < 2**40), values, -1.0)


def _sizes(sheet: Sheet, duration: FloatArray) -> FloatArray:
    """Return the bytes of each copy; NaN where the report only has them rounded.

    Sizes are in MB with three digits, but the rate, from which they follow, has more: it is the size times
    (1000000000 / duration) in whole numbers (gputrace.py of 2022.4, cuda_gpu_trace.py of 2024.2).
    """
    if sheet.header.unit("bytes") == "B":
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
    chosen = costliest(kernel, len(first), total)
    bounds = [sheet.times(_either(sheet, *names)) for names in (("min", "minimum"), ("max", "maximum"))]
    columns: dict[str, Any] = {
        "kernel": names.take(first),
        **summed(kernel, len(first), total, calls=sheet.numbers("instances", needed=True), each=bounds),
        "uses_tc": ["unknown"] * len(first),
        "evidence": [""] * len(first),
        **{name: triples_of(sheet.names(f"{name}xyz")).take(chosen) for name in ("grid", "block")},
    }
    return Table(KERNELS, columns)


def _either(sheet: Sheet, *names: str) -> str:
    return next((name for name in names if name in sheet.header.names), names[-1])
