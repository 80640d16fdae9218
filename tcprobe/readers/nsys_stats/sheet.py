"""The reports in what `nsys stats` wrote, as columns and as tables: a file holds one, or all that was printed.

A trace gives launches and copies, a sum kernels by name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.base import MOST_DEVICES
from tcprobe.readers.nsys_stats.layout import PROCESSING, SKIPPED, Header, header_of, named
from tcprobe.readers.rows import (
    TO_NS,
    Texts,
    cells_of,
    costliest,
    gpu_row,
    named_kernels,
    number_of,
    rows_as_text,
    summed,
    tables_in,
    triples_of,
)
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import DEVICES, KERNELS, LAUNCH_CONFIGS, LAUNCHES, MEMORY_OPS

COARSEST_NS: Final = 1000.0  # a digit of times that are rounded more says nothing of kernels
CHUNK: Final = 500  # rows held as Python strings at a time
MOST_DIGITS: Final = 18  # of a float behind its point
_AGAIN: Final = "run nsys stats again, without --timeunit and with --format csv, and wait until it has ended"
_NOTHING: Final = (None, "None")  # before 2023 a cell without a value held the second


class Sheet(Struct, eq=False):
    """One report."""

    path: Path  # its file
    header: Header  # its columns
    rows: list[str] = field(default_factory=list)  # their text
    lines: list[int] = field(default_factory=list)  # where they begin
    columns: dict[str, Names] = field(default_factory=dict)
    coarse_ns: float = 1.0  # what the last digit of its coarsest time stands for

    def parse(self, names: tuple[str, ...]) -> None:
        """Parse columns, those that are there, and check that each row has all its cells.

        Raises:
            WrongFormat: a row has more or fewer cells than the header.
        """
        places = {name: self.header.names.index(name) for name in names if name in self.header.names}
        texts = Texts(places)
        for at in range(0, len(self.rows), CHUNK):
            part = slice(at, at + CHUNK)
            columns = list(
                zip(*cells_of(self.path, self.header, self.lines[part], self.rows[part], _AGAIN), strict=True)
            )
            texts.add(columns[place] for place in places.values())
        self.columns = texts.names()

    def names(self, name: str) -> Names:
        """Return a column of texts; NA throughout where the report lacks it."""
        return self.columns.get(name) or Names.missing(len(self.lines))

    def numbers(self, name: str, needed: bool = False) -> FloatArray:
        """Return a column of numbers, NaN where there is none; throughout where the report lacks the column.

        Raises:
            WrongFormat: a cell holds something else, or nothing though it is `needed`.
        """
        texts = self.names(name)
        values = texts.each(number_of, np.nan)
        wrong = np.isnan(values) if needed else np.isnan(values) & ~texts.among(*_NOTHING)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            text = f"line {self.lines[row]} holds '{(texts[row] or '')[:40]}'"
            found = f"{text} where a number is expected (column {name})"
            raise WrongFormat(self.path, found, f"give the file as nsys wrote it: {_AGAIN}")
        return values

    def times(self, name: str, needed: bool = True) -> FloatArray:
        """Return a column of times in whole ns.

        Raises:
            WrongFormat: the unit is not known, a time is no number or below 0, or times are rounded too much.
        """
        given = self.header.unit(name)
        if given is None:
            raise WrongFormat(self.path, f"has no column {name}", f"give the file as nsys wrote it: {_AGAIN}")
        if (unit := TO_NS.get(given)) is None:
            raise WrongFormat(self.path, f"gives {name} in '{given[:20]}', no unit of time", _AGAIN)
        values = self.numbers(name, needed)
        texts = self.columns[name].take(np.arange(min(len(values), 100))).tolist()
        digits = max((len((text or "").partition(".")[2]) for text in texts), default=0)
        coarse = unit / 10.0 ** min(digits, MOST_DIGITS)
        if coarse > COARSEST_NS:
            found = f"rounds {name} to {coarse:,.0f} ns, longer than kernels take"
            raise WrongFormat(self.path, found, _AGAIN)
        if (values < 0).any() or (values * unit >= 2**53).any():
            raise WrongFormat(self.path, f"holds a {name} that no clock shows", _AGAIN)
        self.coarse_ns = max(self.coarse_ns, coarse)
        return np.round(values * unit)


class Printed(Struct):
    """What the files of a recording hold."""

    sheets: list[Sheet] = field(default_factory=list)  # reports
    sources: dict[str, None] = field(default_factory=dict)  # recordings that nsys says it processed
    skipped: dict[str, None] = field(default_factory=dict)  # why nsys left reports out

    def add(self, path: Path) -> None:
        """Add what a file holds that nsys wrote or printed.

        Raises:
            InputError: the file cannot be read, or was saved by another program.
        """
        arguments = named(path).arguments

        def header(line: str) -> Header | None:
            nonlocal arguments
            if processing := PROCESSING.match(line):
                self.sources[processing["source"]], arguments = None, processing["arguments"] or ""
            return header_of(line, arguments)

        def ends(line: str) -> bool:
            if skipped := SKIPPED.match(line):
                self.skipped[skipped[1].strip()] = None
            return bool(line.strip("\r\n"))

        sheet = None
        for found, lines, rows in tables_in(path, header, ends, _AGAIN):
            if sheet is None or sheet.header is not found:
                sheet = Sheet(path, _checked(path, found))
                self.sheets.append(sheet)
            sheet.lines += lines
            sheet.rows += rows


def _checked(path: Path, header: Header) -> Header:
    if header.separator == ";":
        found = "separates its cells by ';', as nsys never does: another program saved it, and may have changed numbers"
        raise WrongFormat(path, found, f"give the file as nsys wrote it: {_AGAIN}")
    return header


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
