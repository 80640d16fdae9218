"""Find the rows of Nsight Compute's CSV among all that it and the profiled program print, and its units.

`ncu --csv` writes to standard output, as the program does: lines of ``==PROF==`` and the program's own stand before,
between and after the rows, and a header stands before the rows of each table. It prints 52.576 usecond for 52576 ns and
29.696 Kbyte/block for 29696 byte/block; prefixes are decimal. Source: Nsight Compute CLI, "Metrics and Units"
(`--print-units auto` and `base`), and reports of versions 2020.1 to 2025.3.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, InputError, WrongFormat
from tcprobe.foreign import head
from tcprobe.readers.rows import TO_NS
from tcprobe.readers.rows import Header as TableHeader

NS: Final = "ns"
_PREFIXES: Final = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_PREFIXED: Final = re.compile(r"([KMGTPE])((?:byte|bit|[Hh]z|inst|cycle|sector|request|warp|thread|block)s?)")


def base_unit(unit: str) -> tuple[float, str]:
    """Return what a value in this unit is multiplied by, and the base unit that it is in then.

    ``("usecond") -> (1000, "ns")``, ``("Gbyte/second") -> (1e9, "byte/second")``, ``("cycle/nsecond") -> (1e9,
    "cycle/second")``. A unit that ncu does not scale (%, register/thread) stays, with factor 1.
    """
    above, slash, below = unit.strip().partition("/")
    factor, name = _side(above)
    if not slash:
        return factor, name
    if below in TO_NS:
        return factor * 1e9 / TO_NS[below], f"{name}/second"
    divisor, per = _side(below)
    return factor / divisor, f"{name}/{per}"


def _side(unit: str) -> tuple[float, str]:
    if unit in TO_NS:
        return TO_NS[unit], NS
    if found := _PREFIXED.fullmatch(unit):
        return _PREFIXES[found[1]], "hz" if found[2] == "Hz" else found[2]
    return 1.0, "hz" if unit == "Hz" else unit


_ROW: Final = re.compile(r'"\d{0,12}",')
_BARE_ROW: Final = re.compile(r"\d{0,12},")
SAYS_MARKS: Final = ("==ERROR==", "==WARNING==")
SAYS: Final = re.compile(f"(?:{'|'.join(SAYS_MARKS)})" + r"\s*(.*)")
NAMED: Final = "Kernel Name"
"""A column that every header has."""
CUT: Final = "export it again, and wait until ncu has ended"
REPORT: Final = b"NVR\0"  # the first bytes of an .ncu-rep
NOT_ALLOWED: Final = "ERR_NVGPUCTRPERM"
_NOT_PROFILED: Final = "No kernels were profiled"
_ALLOW: Final = (
    "run ncu as root or with CAP_SYS_ADMIN, or set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia kernel module"
)
_FILTERS: Final = (
    "check that the program launches kernels, and ncu's filters; programs that it starts need --target-processes all"
)


class Header(TableHeader, frozen=True):
    """The columns of a table, as named."""

    @property
    def long(self) -> bool:
        """Whether a row is one metric (page details), not one launch (page raw)."""
        return {"Metric Name", "Metric Value"} <= set(self.names)

    @property
    def cells(self) -> range:
        """How many cells a row has: those of rules may be left out behind a metric."""
        least = self.names.index("Metric Value") + 1 if self.long else len(self.names)
        return range(least, len(self.names) + 1)


def header_of(line: str) -> Header | None:
    """Return the header in a line; the program's output may stand before it. None where there is none."""
    if NAMED not in line:
        return None
    at = line.find('"ID",')
    if at < 0 and not line.startswith("ID,"):
        return None
    try:
        cells = next(csv.reader([line[max(at, 0) :].rstrip("\r\n")]))
    except csv.Error:
        return None
    header = Header(names=tuple(cell.strip() for cell in cells), row=_ROW if at >= 0 else _BARE_ROW)
    # page raw has the names of metrics (dram__bytes.sum) for columns
    has_metrics = header.long or any("__" in name for name in header.names)
    return header if NAMED in header.names and has_metrics else None


def no_launches(path: Path, said: Sequence[str]) -> InputError:
    """Return why there is none: another format, or an error or warning among what ncu `said`."""
    start = head(path, len(REPORT)) or b""
    if start == REPORT:
        export = (
            f"pip install 'tcprobe[ncu]', or export it: ncu --import {path.name} --csv --page raw > {path.stem}.csv"
        )
        return WrongFormat(path, "is Nsight Compute's own report", f"pip install 'tcprobe[ncu]', or {export}")
    if not start:
        return EmptyInput(path, "holds nothing", "record again, and wait until ncu has ended")
    if any(NOT_ALLOWED in line for line in said):
        return EmptyInput(path, f"holds no launch: ncu was not allowed to read the counters ({NOT_ALLOWED})", _ALLOW)
    if said:
        found = f"holds no launch: ncu says '{said[0][:200]}'"
        return EmptyInput(path, found, _FILTERS if _NOT_PROFILED in said[0] else "mend that, and record again")
    return EmptyInput(path, "holds no launch that Nsight Compute profiled", "give it what ncu --csv --page raw prints")
