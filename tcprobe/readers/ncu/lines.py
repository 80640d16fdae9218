"""Find the rows of Nsight Compute's CSV among all that it and the profiled program print.

`ncu --csv` writes to standard output, as the program does: lines of ``==PROF==`` and the program's own stand before,
between and after the rows, and a header stands before the rows of each table.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from tcprobe.errors import EmptyInput, InputError, WrongFormat
from tcprobe.foreign import head
from tcprobe.readers.rows import closed, lines_of

MOST_SAID: Final = 100
CELLS: Final = 100_000  # of rows given at once
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


class Header(Struct, frozen=True):
    """The columns of a table, as named."""

    names: tuple[str, ...]
    quoted: bool

    @property
    def long(self) -> bool:
        """Whether a row is one metric (page details), not one launch (page raw)."""
        return {"Metric Name", "Metric Value"} <= set(self.names)

    @property
    def has_metrics(self) -> bool:
        """Whether there are any; page raw has their names (dram__bytes.sum) for columns."""
        return self.long or any("__" in name for name in self.names)

    @property
    def cells(self) -> range:
        """How many cells a row has: those of rules may be left out behind a metric."""
        least = self.names.index("Metric Value") + 1 if self.long else len(self.names)
        return range(least, len(self.names) + 1)


class Lines(Struct):
    """What a file says besides its rows, filled as it is read."""

    path: Path  # the file
    said: list[str] = field(default_factory=list)  # what ncu reports of errors and warnings, without its marks

    def batches(self) -> Iterator[tuple[Header, list[int], list[str]]]:
        """Yield rows of the file, the lines where they begin and their text, below the header before them.

        Raises:
            InputError: the file cannot be read, is no text, or a row has more or fewer cells than its header.
        """
        header = None
        numbers: list[int] = []
        rows: list[str] = []
        with lines_of(self.path, CUT) as lines:
            for number, line in lines:
                if header and (_ROW if header.quoted else _BARE_ROW).match(line):
                    numbers.append(number)
                    rows.append(closed(self.path, line, number, lines, CUT))
                elif found := header_of(line):
                    if header and rows:
                        yield header, numbers, rows
                    header, numbers, rows = found, [], []
                elif (said := SAYS.match(line)) and len(self.said) < MOST_SAID:
                    self.said.append(said[1].strip())
                if header and len(rows) * len(header.names) > CELLS:
                    yield header, numbers, rows
                    numbers, rows = [], []
        if header:
            yield header, numbers, rows


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
    header = Header(tuple(cell.strip() for cell in cells), at >= 0)
    return header if NAMED in header.names and header.has_metrics else None


def no_launches(path: Path, said: Sequence[str]) -> InputError:
    """Return why there is none: another format, or an error or warning among what ncu `said`."""
    start = head(path, len(REPORT)) or b""
    if start == REPORT:
        export = f"export it: ncu --import {path.name} --csv --page raw > {path.stem}.csv"
        return WrongFormat(path, "is Nsight Compute's own report, which only ncu reads", export)
    if not start:
        return EmptyInput(path, "holds nothing", "record again, and wait until ncu has ended")
    if any(NOT_ALLOWED in line for line in said):
        return EmptyInput(path, f"holds no launch: ncu was not allowed to read the counters ({NOT_ALLOWED})", _ALLOW)
    if said:
        found = f"holds no launch: ncu says '{said[0][:200]}'"
        return EmptyInput(path, found, _FILTERS if _NOT_PROFILED in said[0] else "mend that, and record again")
    return EmptyInput(path, "holds no launch that Nsight Compute profiled", "give it what ncu --csv --page raw prints")
