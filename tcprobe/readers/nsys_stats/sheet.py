"""The reports in what `nsys stats` wrote, as columns: a file holds one, or all that was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct, field

from tcprobe.errors import WrongFormat
from tcprobe.readers.nsys_stats.layout import PROCESSING, SKIPPED, Header, header_of, named
from tcprobe.readers.rows import TO_NS, Texts, cells_of, number_of, tables_in
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
