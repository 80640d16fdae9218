"""Find the rows of Nsight Compute's CSV among all that it and the profiled program print.

`ncu --csv` writes to standard output, as the program does: lines of ``==PROF==`` and the program's own stand before,
between and after the rows, and a header stands before the rows of each table.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from tcprobe.errors import WrongFormat
from tcprobe.foreign import encoding_of, opened, size_text

MOST: Final = 1 << 30  # of bytes; 100,000 launches of 30 metrics take 38 MB as page raw, 570 MB as page details
GZIP: Final = b"\x1f\x8b"
LONGEST_ROW: Final = 1 << 22
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
    def least(self) -> int:
        """The cells that a row has at least: those of rules may be left out behind a metric."""
        return self.names.index("Metric Value") + 1 if self.long else len(self.names)


@dataclass(slots=True)
class Lines:
    """What a file says besides its rows, filled as it is read.

    Attributes:
        path: the file.
        said: what ncu reports of errors and warnings, without its marks.
    """

    path: Path
    said: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[tuple[Header, list[str]]]:
        """Yield the rows of the file, as text, with their header; each belongs to the header before it.

        Raises:
            InputError: the file cannot be read, is no text, or a row has more or fewer cells than its header.
        """
        try:
            with _text(self.path) as file:
                yield from self._batches(file)
        except (UnicodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise WrongFormat(self.path, f"is damaged or no text: {error}", _CUT) from None

    def _batches(self, file: TextIO) -> Iterator[tuple[Header, list[str]]]:
        header: Header | None = None
        rows: list[str] = []
        lines = _counted(self.path, file)
        for number, line in lines:
            if header and (_ROW if header.quoted else _BARE_ROW).match(line):
                rows.append(self._row(header, line, number, lines))
            elif found := header_of(line):
                if header and rows:
                    yield header, rows
                header, rows = found, []
            elif (said := SAYS.match(line)) and len(self.said) < MOST_SAID:
                self.said.append(said[1].strip())
            if header and len(rows) * len(header.names) > CELLS:
                yield header, rows
                rows = []
        if header:
            yield header, rows

    def _row(self, header: Header, line: str, number: int, more: Iterable[tuple[int, str]]) -> str:
        """Return a whole row: a quoted cell may hold line ends."""
        row = line
        if row.count('"') % 2:
            row = self._whole(row, number, more)
        cells = row.count('","') + 1 if header.quoted else 0
        if cells != len(header.names):
            self._check(header, row, number)
        return row.rstrip("\r\n")

    def _whole(self, row: str, number: int, more: Iterable[tuple[int, str]]) -> str:
        for _, line in more:
            row += line
            if line.count('"') % 2:
                return row
            if len(row) > LONGEST_ROW:
                raise WrongFormat(self.path, f"a quoted cell of line {number} has no end", _CUT)
        raise WrongFormat(self.path, f"ends within a quoted cell of the row that begins in line {number}", _CUT)

    def _check(self, header: Header, row: str, number: int) -> None:
        try:
            cells = len(next(csv.reader([row])))
        except (csv.Error, StopIteration) as error:
            raise WrongFormat(self.path, f"line {number} is no row of a CSV table: {error}", _CUT) from None
        if not header.least <= cells <= len(header.names):
            found = f"the row in line {number} has {cells} cells where its header has {len(header.names)}"
            raise WrongFormat(self.path, found, f"the file is damaged or cut off: {_CUT}")


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


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    with opened(path, MOST) as file:
        packed = file.read(len(GZIP)) == GZIP
        file.seek(0)
        content = gzip.GzipFile(fileobj=file) if packed else file
        encoding = encoding_of(content.read(4))
        content.seek(0)
        yield io.TextIOWrapper(content, encoding, "replace")


def _counted(path: Path, file: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, none of them longer than `LONGEST_ROW`, `MOST` characters together."""
    size = 0
    for number, line in enumerate(iter(partial(file.readline, LONGEST_ROW), ""), 1):
        size += len(line)
        if size > MOST:
            raise WrongFormat(path, f"unpacks to more than {size_text(MOST)}", "profile fewer launches, or metrics")
        yield number, line
