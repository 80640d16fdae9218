"""The reports in what `nsys stats` wrote, as columns: a file holds one, or all that was printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tcprobe.errors import WrongFormat
from tcprobe.readers.nsys_stats.files import named
from tcprobe.readers.nsys_stats.layout import Header, header_of, processing_of, skipped
from tcprobe.readers.rows import TO_NS, columns_of, lines_of, names_of, numbers_of, whole_row
from tcprobe.schema.columns import FloatArray, Names

if TYPE_CHECKING:
    import pandas as pd

COARSEST_NS: Final = 1000.0  # a digit of times that are rounded more says nothing of kernels
MOST_DIGITS: Final = 18  # of a float behind its point
_AGAIN: Final = "run nsys stats again, without --timeunit and with --format csv, and wait until it has ended"
_NOTHING: Final = ("", "None")  # before 2023 a cell without a value held the second


@dataclass(slots=True)
class Sheet:
    """One report.

    Attributes:
        path: its file.
        header: its columns.
        lines, rows: its rows, the lines where they begin and their text.
        arguments: of the report: base, mangled, nvtx-name.
        coarse_ns: what the last digit of its coarsest time stands for.
    """

    path: Path
    header: Header
    arguments: str
    lines: list[int] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    coarse_ns: float = 1.0
    _texts: dict[str, pd.Series[str]] = field(default_factory=dict)

    def parse(self, names: tuple[str, ...]) -> None:
        """Parse columns, those that are there, and check that each row has all its cells.

        Raises:
            WrongFormat: a row has more or fewer cells than the header.
        """
        lines = zip(self.lines, self.rows, strict=True)
        cells, separator = range(len(self.header.names), len(self.header.names) + 1), self.header.separator
        self.lines, self.rows = [], []
        for number, line in lines:
            self.lines.append(number)
            self.rows.append(whole_row(self.path, line, number, lines, cells, _AGAIN, separator))
        wanted = [name for name in names if name in self.header.names]
        self._texts = columns_of(self.path, self.rows, self.header.names, wanted, separator)

    def names(self, name: str) -> Names:
        """Return a column of texts."""
        return names_of(self._texts[name])

    def numbers(self, name: str, needed: bool = False) -> FloatArray:
        """Return a column of numbers, NaN where there is none; throughout where the report lacks the column.

        Raises:
            WrongFormat: a cell holds something else, or nothing though it is `needed`.
        """
        if name not in self._texts:
            return np.full(len(self.rows), np.nan)
        texts = self._texts[name]
        values = numbers_of(texts)
        wrong = np.isnan(values) if needed else np.isnan(values) & ~texts.isin(_NOTHING).to_numpy()
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            text = f"line {self.lines[row]} holds '{str(texts.iloc[row])[:40]}'"
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
        digits = max((len(text.partition(".")[2]) for text in self._texts[name].iloc[:100]), default=0)
        coarse = unit / 10.0 ** min(digits, MOST_DIGITS)
        if coarse > COARSEST_NS:
            found = f"rounds {name} to {coarse:,.0f} ns, longer than kernels take"
            raise WrongFormat(self.path, found, _AGAIN)
        if (values < 0).any() or (values * unit >= 2**53).any():
            raise WrongFormat(self.path, f"holds a {name} that no clock shows", _AGAIN)
        self.coarse_ns = max(self.coarse_ns, coarse)
        return np.round(values * unit)


@dataclass(frozen=True, slots=True)
class Printed:
    """What a file holds.

    Attributes:
        sheets: its reports.
        sources: recordings that nsys says it processed.
        skipped: why nsys left reports out.
        whole: whether it ends with a line end, as all that nsys writes does.
    """

    sheets: tuple[Sheet, ...]
    sources: tuple[str, ...]
    skipped: tuple[str, ...]
    whole: bool


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
                sheet.lines.append(number)
                sheet.rows.append(line)
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
