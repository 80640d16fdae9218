"""The layouts of nsys's reports: told by the names of their columns, never by their place.

Source: the reports of Nsight Systems 2021.1 to 2026.1, `nsys stats --help-reports`.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["trace", "sum", "ranges"]
"""A row is a kernel or copy, a kernel's name, or something of NVTX."""

_MARKS: Final = ("Total Time", "Duration", "NVTX Range")
_COLUMN: Final = re.compile(r"\s*(.*?)\s*(?:\(([^()]*)\))?\s*")
_TRACE: Final = {"start", "duration", "grdx", "device", "name"}
_SUM: Final = {"total time", "instances", "name"}
_PROCESSING: Final = re.compile(
    r"Processing \[(?P<source>.*?)\] with \[(?P<script>[^\]]*)\](?:\((?P<arguments>[^)]*)\))?"
)
_SKIPPED: Final = re.compile(r"SKIPPED: (.*)")
_BEHIND: Final = "]... "  # of a report that goes to a command, the header stands on the same line
_SEPARATORS: Final = ",\t;"
_REPORTS: Final = (
    *("cuda_gpu_kern_gb_sum", "cuda_gpu_kern_sum", "cuda_gpu_trace", "gpukernsum", "gputrace"),
    *("nvtx_kern_sum", "nvtx_gpu_proj_trace", "nvtx_gpu_proj_sum", "nvtx_pushpop_trace", "nvtx_pushpop_sum"),
    *("nvtx_sum", "nvtxkernsum", "nvtxgpuproj", "nvtxpptrace", "nvtxppsum", "nvtxsum"),
)
_NAME: Final = re.compile(rf"(?P<stem>.*?)_?(?P<report>{'|'.join(_REPORTS)})(?P<arguments>_[\w:-]*)?")


class Header(Struct, frozen=True):
    """The columns of a report."""

    kind: Kind  # what a row is
    names: tuple[str, ...]  # in small letters, without units
    units: tuple[str, ...]  # as written; empty where there is none
    separator: str  # between cells

    def unit(self, name: str) -> str:
        """Return the unit of a column that is there."""
        return self.units[self.names.index(name)]


class Processing(Struct, frozen=True):
    """What nsys says before a report: what it read, which report it makes, and with which arguments."""

    source: str
    arguments: str


def header_of(line: str) -> Header | None:
    """Return the header in a line; None where there is none."""
    if not any(mark in line for mark in _MARKS):
        return None
    _, behind, rest = line.rpartition(_BEHIND)
    text = (rest if behind else line).strip("\ufeff\r\n")
    separator = max(_SEPARATORS, key=text.count)
    try:
        cells = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return None
    found = [_COLUMN.fullmatch(cell) for cell in cells]
    names = tuple(one[1].lower() if one else "" for one in found)
    kind = _kind(set(names))
    return Header(kind, names, tuple(one[2] or "" if one else "" for one in found), separator) if kind else None


def _kind(names: set[str]) -> Kind | None:
    if names >= _TRACE:
        return "trace"
    if names >= _SUM:
        return "sum"
    nvtx = names & {"nvtx range", "projected start", "durchild"} or names >= {"total time", "style", "range"}
    return "ranges" if nvtx else None


def processing_of(line: str) -> Processing | None:
    """Return what nsys says that it processes; None where a line says no such thing."""
    found = _PROCESSING.match(line)
    return Processing(found["source"], found["arguments"] or "") if found else None


def skipped(line: str) -> str | None:
    """Return why nsys left a report out; None where a line says no such thing."""
    found = _SKIPPED.match(line)
    return found[1].strip() if found else None


class Named(Struct, frozen=True):
    """What the name of a file says, as ``nsys stats --output`` makes it: STEM_REPORT_ARGUMENTS.csv."""

    stem: str  # of the recording; the whole name of a file that is named otherwise
    report: str = ""  # its name, empty where the file is named otherwise
    arguments: str = ""  # such as ``base`` or ``nvtx-name_base``


def named(path: Path) -> Named:
    """Return what a file's name says."""
    found = _NAME.fullmatch(path.stem)
    return Named(found["stem"], found["report"], (found["arguments"] or "")[1:]) if found else Named(path.stem)
