"""The reports in what `nsys stats` wrote, as columns: a file holds one, or all that was printed."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct, field

from tcprobe.errors import WrongFormat
from tcprobe.readers.nsys_stats.layout import Header, header_of, named, processing_of, skipped
from tcprobe.readers.rows import TO_NS, Texts, cells_of, closed, lines_of, number_of
from tcprobe.schema.columns import FloatArray, Names

COARSEST_NS: Final = 1000.0  # a digit of times that are rounded more says nothing of kernels
CHUNK: Final = 500  # rows held as Python strings at a time
MOST_DIGITS: Final = 18  # of a float behind its point
_AGAIN: Final = "run nsys stats again, without --timeunit and with --format csv, and wait until it has ended"
_NOTHING: Final = (None, "None")  # before 2023 a cell without a value held the second


class Sheet(Struct, eq=False):
    """One report."""

    path: Path  # its file
    header: Header  # its columns
    arguments: str  # of the report: base, mangled, nvtx-name
    rows: list[tuple[int, str]] = field(default_factory=list)  # its lines with their numbers, until they are parsed
    lines: list[int] = field(default_factory=list)  # where its rows begin, once they are
    columns: dict[str, Names] = field(default_factory=dict)
    coarse_ns: float = 1.0  # what the last digit of its coarsest time stands for

    def parse(self, names: tuple[str, ...]) -> None:
        """Parse columns, those that are there, and check that each row has all its cells.

        Raises:
            WrongFormat: a row has more or fewer cells than the header.
        """
        places = [self.header.names.index(name) for name in names if name in self.header.names]
        texts = Texts(self.header.names[place] for place in places)
        cells = range(len(self.header.names), len(self.header.names) + 1)
        more = iter(self.rows)
        rows = ((at, closed(self.path, line, at, more, _AGAIN)) for at, line in more)
        while chunk := list(islice(rows, CHUNK)):
            lines, text = zip(*chunk, strict=True)
            self.lines += lines
            columns = list(zip(*cells_of(self.path, lines, text, cells, _AGAIN, self.header.separator), strict=True))
            texts.add(columns[place] for place in places)
        self.columns = texts.names()

    def names(self, name: str) -> Names:
        """Return a column of texts; NA throughout where the report lacks it."""
        return self.columns.get(name) or Names(np.full(len(self.lines), -1), [])

    def numbers(self, name: str, needed: bool = False) -> FloatArray:
        """Return a column of numbers, NaN where there is none; throughout where the report lacks the column.

        Raises:
            WrongFormat: a cell holds something else, or nothing though it is `needed`.
        """
        texts = self.names(name)
        values = np.array([*map(number_of, texts.names), np.nan])[texts.ids]
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
        if name not in self.header.names:
            raise WrongFormat(self.path, f"has no column {name}", f"give the file as nsys wrote it: {_AGAIN}")
        unit = TO_NS.get(self.header.unit(name))
        if unit is None:
            raise WrongFormat(self.path, f"gives {name} in '{self.header.unit(name)[:20]}', no unit of time", _AGAIN)
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


class Printed(Struct, frozen=True):
    """What a file holds."""

    sheets: tuple[Sheet, ...]  # its reports
    sources: tuple[str, ...]  # recordings that nsys says it processed
    skipped: tuple[str, ...]  # why nsys left reports out
    whole: bool  # whether it ends with a line end, as all that nsys writes does


def read_printed(path: Path) -> Printed:
    """Read a file that nsys wrote or printed.

    Raises:
        InputError: the file cannot be read, or was saved by another program.
    """
    sheets: list[Sheet] = []
    sources, left = dict[str, None](), dict[str, None]()
    sheet, arguments, line = None, named(path).arguments, "\n"
    with lines_of(path, _AGAIN) as lines:
        for number, line in lines:
            if sheet is not None and (line[:1].isdigit() or line.startswith('"')):
                sheet.rows.append((number, line))
                continue
            if not line.strip("\r\n"):
                continue
            sheet = None  # what follows a line that is no row belongs to another report
            if (processing := processing_of(line)) is not None:
                sources[processing.source], arguments = None, processing.arguments
            if (header := header_of(line)) is not None:
                sheet = Sheet(path, _checked(path, header), arguments)
                sheets.append(sheet)
            elif (why := skipped(line)) is not None:
                left[why] = None
    return Printed(tuple(sheets), tuple(sources), tuple(left), line.endswith("\n"))


def _checked(path: Path, header: Header) -> Header:
    if header.separator == ";":
        found = "separates its cells by ';', as nsys never does: another program saved it, and may have changed numbers"
        raise WrongFormat(path, found, f"give the file as nsys wrote it: {_AGAIN}")
    return header
