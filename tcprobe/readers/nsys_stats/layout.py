"""The layouts of nsys's reports: told by the names of their columns, never by their place.

Source: the reports of Nsight Systems 2021.1 to 2026.1, `nsys stats --help-reports`.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tcprobe.readers.rows import Header as TableHeader

Kind = Literal["trace", "sum", "ranges"]
"""A row is a kernel or copy, a kernel's name, or something of NVTX."""

_MARKS: Final = ("Total Time", "Duration", "NVTX Range")
_COLUMN: Final = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\))?\s*")
_TRACE: Final = {"start", "duration", "grdx", "device", "name"}
_SUM: Final = {"total time", "instances", "name"}
PROCESSING: Final = re.compile(
    r"Processing \[(?P<source>.*?)\] with \[(?P<script>[^\]]*)\](?:\((?P<arguments>[^)]*)\))?"
)
"""What nsys says before a report: what it read, which report it makes, and with which arguments."""
SKIPPED: Final = re.compile(r"SKIPPED: (.*)")
"""Why nsys left a report out."""
_ROWS: Final = {"ranges": re.compile("(?!)")}  # which are not read
_ROW: Final = re.compile(r'[\d"]')
_BEHIND: Final = "]... "  # of a report that goes to a command, the header stands on the same line
_SEPARATORS: Final = ",\t;"
_REPORTS: Final = (
    *("cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum", "cuda_gpu_trace", "gpukernsum", "gputrace"),
    *("nvtx_kern_sum", "nvtx_gpu_proj_trace", "nvtx_gpu_proj_sum", "nvtx_pushpop_trace", "nvtx_pushpop_sum"),
    *("nvtx_sum", "nvtxkernsum", "nvtxgpuproj", "nvtxpptrace", "nvtxppsum", "nvtxsum"),
)
_NAME: Final = re.compile(rf"(?P<stem>.*?)_?(?P<report>{'|'.join(_REPORTS)})(?P<arguments>_[\w:-]*)?")


class Header(TableHeader, frozen=True, kw_only=True):
    """The columns of a report: in small letters, without units."""

    kind: Kind  # what a row is
    units: tuple[str, ...]  # as written; empty where there is none
    arguments: str  # of the report: base, mangled, nvtx-name

    def unit(self, name: str) -> str | None:
        """Return the unit of a column; None where it is not there."""
        return self.units[self.names.index(name)] if name in self.names else None


def header_of(line: str, arguments: str = "") -> Header | None:
    """Return the header in a line, of a report with these arguments; None where there is none."""
    if not any(mark in line for mark in _MARKS):
        return None
    _, behind, rest = line.rpartition(_BEHIND)
    text = (rest if behind else line).strip("\ufeff\r\n")
    separator = max(_SEPARATORS, key=text.count)
    try:
        cells = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return None
    found = [one.groups("") if (one := _COLUMN.fullmatch(cell)) else ("", "") for cell in cells]
    names = tuple(name.lower() for name, _ in found)
    kind = _kind(set(names))
    units = tuple(unit for _, unit in found)
    if kind is None:
        return None
    return Header(
        kind=kind, names=names, units=units, separator=separator, row=_ROWS.get(kind, _ROW), arguments=arguments
    )


def _kind(names: set[str]) -> Kind | None:
    if names >= _TRACE:
        return "trace"
    if names >= _SUM:
        return "sum"
    nvtx = names & {"nvtx range", "projected start", "durchild"} or names >= {"total time", "style", "range"}
    return "ranges" if nvtx else None


class Named(Struct, frozen=True):
    """What the name of a file says, as ``nsys stats --output`` makes it: STEM_REPORT_ARGUMENTS.csv."""

    stem: str  # of the recording; the whole name of a file that is named otherwise
    report: str = ""  # its name, empty where the file is named otherwise
    arguments: str = ""  # such as ``base`` or ``nvtx-name_base``


def named(path: Path) -> Named:
    """Return what a file's name says."""
    found = _NAME.fullmatch(path.stem)
    return Named(found["stem"], found["report"], (found["arguments"] or "")[1:]) if found else Named(path.stem)
