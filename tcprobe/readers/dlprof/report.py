"""One tabular report of DLProf: columns by name, with numbers and yes/no read on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat
from tcprobe.readers.arrays import combine, distinct_rows
from tcprobe.schema.columns import FloatArray, IntArray, Names, merge_names

DAMAGED: Final = "the file is damaged or was edited; take DLProf's own output"
_NUMBER: Final = re.compile(r"\d{1,20}(?:\.\d{0,30})?(?:e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_NO_NUMBER: Final = frozenset({"nan", "-nan", "inf", "-inf", "n/a", "na", "-"})  # how C++ prints 0/0, and tables a gap
_FLAGS: Final = {"yes": 1, "no": 0, "true": 1, "false": 0}
LARGEST: Final = float(2**53)  # whole numbers are exact below it; 104 days in ns


def parse_number(text: str) -> float:
    """Return a figure of DLProf's: never negative, below 2**53; NaN where it is printed as undefined (``-nan``).

    Raises:
        ValueError: it is no such number.
    """
    if text.lower() in _NO_NUMBER:
        return np.nan
    value = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0.0 <= value < LARGEST:
        raise ValueError(text)
    return value


def unquoted(path: Path, value: Any) -> str:
    """Return a value of JSON as text; DLProf leaves the CSV's quotes inside its strings, and puts figures into arrays.

    Raises:
        WrongFormat: it is an object, or an array of several.
    """
    if isinstance(value, list) and len(value) < 2:
        value = next(iter(value), None)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        return value[1:-1] if quoted else value
    if isinstance(value, int | float):
        return repr(value)
    raise WrongFormat(path, f"a cell holds {type(value).__name__}, where text or a number was expected", DAMAGED)


class Spread(Struct, frozen=True, eq=False):
    """A column of texts that may repeat."""

    texts: Names  # those of the distinct rows
    rows: IntArray | None = None  # which of these stands in each row; None where each does once

    def over(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return of values of the distinct rows those of each row."""
        return values if self.rows is None else values[self.rows]


Column: TypeAlias = Spread | IntArray | FloatArray


class Report(Struct, frozen=True):
    """One tabular report."""

    kind: str  # one of `layout`'s
    path: Path  # its file
    # by canonical name: texts, blank cells NA, or times that were read as numbers, blank cells NaN
    columns: dict[str, Column]
    rows: int  # number of rows
    first: IntArray | None = None  # where the file has them, counted from 0; None where it has no others

    def __len__(self) -> int:
        return self.rows

    def has(self, *names: str) -> bool:
        """Say whether the report has all these columns."""
        return all(name in self.columns for name in names)

    def _spread(self, name: str) -> Spread:
        held = self.columns.get(name)
        if isinstance(held, np.ndarray):
            raise TypeError(f"column {name} was read as numbers")
        return held or Spread(Names.missing(self.rows))

    def texts(self, name: str) -> Names:
        """Return a column of texts; NA throughout where the report lacks it."""
        column = self._spread(name)
        return column.texts if column.rows is None else column.texts.take(column.rows)

    def distinct(self, names: Iterable[str]) -> tuple[Report, IntArray]:
        """Return the rows that differ in these columns of texts, in order of appearance, and which one each row is."""
        held = {name: self._spread(name) for name in names}
        sets: dict[int, list[Spread]] = {}
        for column in held.values():
            sets.setdefault(id(column.rows), []).append(column)
        codes = (alike[0].over(combine([column.texts.ids for column in alike])[0]) for alike in sets.values())
        first, which = distinct_rows(*codes)
        columns: dict[str, Column] = {
            name: Spread(column.texts.take(first if column.rows is None else column.rows[first]))
            for name, column in held.items()
        }
        return Report(self.kind, self.path, columns, len(first), first), which

    def numbers(self, name: str) -> FloatArray:
        """Return a column of figures, NaN for NA; parsed once for each distinct text.

        Raises:
            WrongFormat: a cell is no number.
        """
        if isinstance(held := self.columns.get(name), np.ndarray):
            return held.astype(np.float64)
        column = self._spread(name)
        try:
            return column.over(column.texts.each(parse_number, np.nan))
        except ValueError as error:
            wrong = self.texts(name).among(str(error))
            found = f"{self._row(wrong)} holds '{str(error)[:40]}' where a number of 0 or more was expected"
            raise self._bad(name, found) from error

    def whole(self, name: str) -> IntArray:
        """Return a column of whole numbers without gaps.

        Raises:
            WrongFormat: a cell is blank or no whole number.
        """
        held = self.columns.get(name)
        if isinstance(held, np.ndarray) and held.dtype == np.int64:
            return held.view(np.int64)
        values = self.numbers(name)
        odd = values != np.floor(values)
        if odd.any():
            raise self._bad(name, f"{self._row(odd)} holds no whole number")
        return values.astype(np.int64)

    def flags(self, name: str) -> NDArray[np.int64]:
        """Return a yes/no column as 1, 0, and -1 where it says neither."""
        column = self._spread(name)
        return column.over(column.texts.each(lambda text: _FLAGS.get(text.lower(), -1), -1))

    def _row(self, wrong: NDArray[np.bool_]) -> str:
        """Return where the first of these rows stands in the file."""
        row = int(wrong.argmax())
        return f"row {(row if self.first is None else int(self.first[row])) + 1} of the data"

    def _bad(self, name: str, found: str) -> WrongFormat:
        return WrongFormat(self.path, f"column '{name}' of the {self.kind} report: {found}", DAMAGED)


def coalesce(first: Names, second: Names) -> Names:
    """Return `first`, with `second` where it is NA."""
    rows = np.arange(len(first))
    return merge_names([first, second]).take(np.where(first.ids < 0, rows + len(rows), rows))
