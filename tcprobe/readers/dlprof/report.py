"""One tabular report of DLProf: columns by name, with numbers and yes/no read on demand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat
from tcprobe.readers.arrays import combine, distinct_rows
from tcprobe.schema.columns import FloatArray, IntArray, Names

_NUMBER: Final = re.compile(r"\d{1,20}(?:\.\d{0,30})?(?:e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_NO_NUMBER: Final = frozenset({"nan", "-nan", "inf", "-inf", "n/a", "na", "-"})  # how C++ prints 0/0, and tables a gap
LARGEST: Final = float(2**53)  # whole numbers are exact below it; 104 days in ns


def parse_number(text: str) -> float | None:
    """Return a figure of DLProf's: never negative, below 2**53.

    Returns:
        None where it is printed as undefined (``-nan``, ``n/a``).

    Raises:
        ValueError: it is no such number.
    """
    if text.lower() in _NO_NUMBER:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0.0 <= value < LARGEST:
        raise ValueError(text)
    return value


class Spread(Struct, frozen=True, eq=False):
    """A column of texts that repeat: those of the distinct rows, and which of these stands in each row."""

    texts: Names
    rows: IntArray


Column: TypeAlias = Names | Spread | IntArray | FloatArray


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

    def _distinct(self, name: str) -> tuple[Names, IntArray | None]:
        """Return the texts of a column's distinct rows, and which of these stands in each row; None where each once."""
        held = self.columns.get(name)
        if isinstance(held, np.ndarray):
            raise TypeError(f"column {name} was read as numbers")
        if isinstance(held, Spread):
            return held.texts, held.rows
        return Names(np.full(self.rows, -1, np.int32), []) if held is None else held, None

    def texts(self, name: str) -> Names:
        """Return a column of texts; NA throughout where the report lacks it."""
        texts, rows = self._distinct(name)
        return texts if rows is None else texts.take(rows)

    def distinct(self, names: Iterable[str]) -> tuple[Report, IntArray]:
        """Return the rows that differ in these columns of texts, in order of appearance, and which one each row is."""
        sets: dict[int, tuple[IntArray | None, list[NDArray[np.int32]]]] = {}
        held = {name: self._distinct(name) for name in names}
        for texts, rows in held.values():
            sets.setdefault(id(rows), (rows, []))[1].append(texts.ids)
        codes = ((combine(columns)[0], rows) for rows, columns in sets.values())
        first, which = distinct_rows(*(code if rows is None else code[rows] for code, rows in codes))
        columns: dict[str, Column] = {
            name: texts.take(first if rows is None else rows[first]) for name, (texts, rows) in held.items()
        }
        return Report(self.kind, self.path, columns, len(first), first), which

    def numbers(self, name: str) -> FloatArray:
        """Return a column of figures, NaN for NA; parsed once for each distinct text.

        Raises:
            WrongFormat: a cell is no number.
        """
        if isinstance(held := self.columns.get(name), np.ndarray):
            return held.astype(np.float64)
        column, rows = self._distinct(name)
        try:
            parsed = [parse_number(text) for text in column.names]
        except ValueError as error:
            wrong = (column.ids if rows is None else column.ids[rows]) == column.names.index(str(error))
            found = f"{self._row(wrong)} holds '{str(error)[:40]}' where a number of 0 or more was expected"
            raise self._bad(name, found) from error
        values = np.array([np.nan if v is None else v for v in parsed] + [np.nan], dtype=np.float64)[column.ids]
        return values if rows is None else values[rows]

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

    def flags(self, name: str) -> NDArray[np.int8]:
        """Return a yes/no column as 1, 0, and -1 where it says neither."""
        column, rows = self._distinct(name)
        codes = [{"yes": 1, "no": 0, "true": 1, "false": 0}.get(text.lower(), -1) for text in column.names]
        values = np.array([*codes, -1], dtype=np.int8)[column.ids]
        return values if rows is None else values[rows]

    def _row(self, wrong: NDArray[np.bool_]) -> str:
        """Return where the first of these rows stands in the file."""
        row = int(wrong.argmax())
        return f"row {(row if self.first is None else int(self.first[row])) + 1} of the data"

    def _bad(self, name: str, found: str) -> WrongFormat:
        hint = "the file is damaged or was edited; take DLProf's own output"
        return WrongFormat(self.path, f"column '{name}' of the {self.kind} report: {found}", hint)


def coalesce(first: Names, second: Names) -> Names:
    """Return `first`, with `second` where it is NA."""
    index: dict[str, int] = {}
    lookup = np.array([index.setdefault(n, len(index)) for n in (*first.names, *second.names)] + [-1], dtype=np.int32)
    shifted = np.where(second.ids < 0, -1, second.ids + len(first.names))
    return Names(lookup[np.where(first.ids >= 0, first.ids, shifted)], list(index))
