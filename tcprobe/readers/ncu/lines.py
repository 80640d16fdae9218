"""Find the rows of Nsight Compute's CSV among all that it and the profiled program print.

`ncu --csv` writes to standard output, as the program does: lines of ``==PROF==`` and the program's own stand before,
between and after the rows, and a header stands before the rows of each table.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcprobe.readers.rows import lines_of, whole_row

MOST_SAID: Final = 100
CELLS: Final = 2_000_000  # of rows given at once
_ROW: Final = re.compile(r'"\d{0,12}",')
_BARE_ROW: Final = re.compile(r"\d{0,12},")
SAYS_MARKS: Final = ("==ERROR==", "==WARNING==")
SAYS: Final = re.compile(f"(?:{'|'.join(SAYS_MARKS)})" + r"\s*(.*)")
NAMED: Final = "Kernel Name"
"""A column that every header has."""
_CUT: Final = "export it again, and wait until ncu has ended"


@dataclass(frozen=True, slots=True)
class Header:
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


@dataclass(slots=True)
class Lines:
    """What a file says besides its rows, filled as it is read.

    Attributes:
        path: the file.
        said: what ncu reports of errors and warnings, without its marks.
    """

    path: Path
    said: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[tuple[Header, list[int], list[str]]]:
        """Yield rows of the file, the lines where they begin and their text, below the header before them.

        Raises:
            InputError: the file cannot be read, is no text, or a row has more or fewer cells than its header.
        """
        header, cells = None, range(0)
        numbers: list[int] = []
        rows: list[str] = []
        with lines_of(self.path, _CUT) as lines:
            for number, line in lines:
                if header and (_ROW if header.quoted else _BARE_ROW).match(line):
                    numbers.append(number)
                    rows.append(whole_row(self.path, line, number, lines, cells, _CUT))
                elif found := header_of(line):
                    if header and rows:
                        yield header, numbers, rows
                    header, cells, numbers, rows = found, found.cells, [], []
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
