"""`Table`: typed columns of numbers and names that follow a contract; every part of tcprobe passes these on.

Data stays in numpy arrays from reader to report. Strings are integer ids into a list of names, so a million
launches cost only a few arrays. pandas is imported only when a caller asks for a DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

ColumnKind = Literal["str", "int", "float", "bool"]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = dict[str, Value]
"""One row of a table: column -> value."""


class Column(Struct, frozen=True):
    """One column of a table's contract."""

    name: str  # in snake_case, ending in the unit (``_ns``, ``_bytes``, ``_pct``)
    kind: ColumnKind  # type of the values; `Table` says how each is stored
    meaning: str  # what a value says, its unit and its valid range
    nullable: bool = True  # whether values may be NA
    values: tuple[str, ...] = ()  # the only strings that a string column may hold; empty if any string may occur
    nan: bool = False  # whether NaN is a value, which a script may log; such a column is not nullable


class TableSpec(Struct, frozen=True):
    """The contract of one table."""

    name: str  # the table's name
    row: str  # what one row stands for
    columns: tuple[Column, ...]  # in the order in which they are written
    # columns that identify a row, so that two sources of one run can be joined; empty if nothing identifies it
    key: tuple[str, ...] = ()
    # True if times or row numbers only make sense within one capture; all such tables come from one source
    capture: bool = False
    adds: bool = False  # True if rows of every source count, where others fill in what the first lacks

    def column(self, name: str) -> Column:
        """Return the column called `name`; KeyError if the contract has none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name}")


class Names:
    """Strings by id: `ids` (int32, -1 is NA) index into `names`."""

    __slots__ = ("ids", "names")

    def __init__(self, ids: NDArray[np.integer[Any]], names: Sequence[str]) -> None:
        self.ids: NDArray[np.int32] = np.asarray(ids, dtype=np.int32)
        self.names: list[str] = list(names)

    @classmethod
    def of(cls, values: Sequence[str | None]) -> Names:
        """Encode `values` in order of first appearance; None becomes NA."""
        index: dict[str, int] = {}
        ids = np.fromiter(
            (-1 if v is None else index.setdefault(v, len(index)) for v in values), dtype=np.int32, count=len(values)
        )
        return cls(ids, list(index))

    @classmethod
    def missing(cls, rows: int) -> Names:
        """Return rows that are all NA."""
        return cls(np.full(rows, -1), [])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> str | None:
        """Return the string of a row, None for NA; also of row -1, which is what a row number of nothing is."""
        i = -1 if row < 0 else int(self.ids[row])
        return None if i < 0 else self.names[i]

    def take(self, index: NDArray[Any]) -> Names:
        """Return the rows at `index` (positions or a boolean mask), sharing the names."""
        return Names(self.ids[index], self.names)

    def among(self, *wanted: str | None) -> NDArray[np.bool_]:
        """Return which rows hold one of these; None is NA."""
        known = set(wanted)
        chosen = np.array([name in known for name in (*self.names, None)], dtype=np.bool_)
        return chosen[self.ids]

    def map(self, change: Callable[[str], str | None]) -> Names:
        """Return what becomes of each string, asked once for each distinct one; None is NA."""
        return Names.of([*map(change, self.names), None]).take(self.ids)

    def each(self, told: Callable[[str], Any], missing: Any) -> NDArray[Any]:
        """Return what each string tells, asked once for each distinct one, and `missing` where it is NA."""
        return np.array([*map(told, self.names), missing])[self.ids]

    def tolist(self) -> list[str | None]:
        """Return one Python string or None per row."""
        names = [*self.names, None]  # -1 is the last
        return [names[i] for i in self.ids.tolist()]


Data: TypeAlias = NDArray[Any] | Names


def _stored(column: Column, values: Any) -> Data:
    """Convert `values` (an array, Names, or a sequence with None) to how the column is stored."""
    if column.kind == "str":
        return values if isinstance(values, Names) else Names.of(list(values))
    if isinstance(values, Names):
        raise TypeError(f"column {column.name} is {column.kind}, not str")
    if not isinstance(values, np.ndarray):
        values = np.array([np.nan if v is None else v for v in values], dtype=np.float64)
    if not column.nullable and not column.nan and values.dtype.kind == "f":
        missing = ~np.isfinite(values) if column.kind == "int" else np.isnan(values)
        if missing.any():
            raise ValueError(f"column {column.name} holds NA and is not nullable")
    if column.nullable or column.kind == "float":
        return np.asarray(values, dtype=np.float64)
    return np.asarray(values, dtype=np.bool_ if column.kind == "bool" else np.int64)


class Table:
    """Rows that follow a `TableSpec`, stored by column.

    How each kind is stored: ``str`` as `Names`; ``int`` as int64, or if nullable as float64 with NaN for NA
    (exact up to 2**53, which is 104 days in ns); ``float`` as float64 with NaN for NA; ``bool`` as bool, or if
    nullable as float64 0/1/NaN. A column that is left out is all NA. Where the contract allows it,
    NaN is a value.

    Raises:
        KeyError: a column is not in the contract, or a column that is not nullable is missing.
        ValueError: columns differ in length, or NA stands where the contract forbids it.
    """

    __slots__ = ("columns", "spec")

    def __init__(self, spec: TableSpec, columns: Mapping[str, Any]) -> None:
        self.spec = spec
        known = {c.name for c in spec.columns}
        if extra := set(columns) - known:
            raise KeyError(f"table {spec.name} has no column {', '.join(sorted(extra))}")
        lengths = {name: len(data) for name, data in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"table {spec.name}: columns differ in length: {lengths}")
        rows = next(iter(lengths.values()), 0)
        self.columns: dict[str, Data] = {c.name: self._fill(c, columns, rows) for c in spec.columns}

    def _fill(self, column: Column, columns: Mapping[str, Any], rows: int) -> Data:
        if column.name in columns:
            return _stored(column, columns[column.name])
        if not column.nullable and rows:
            raise KeyError(f"table {self.spec.name} needs column {column.name}")
        if column.kind == "str":
            return Names.missing(rows)
        return _stored(column, np.full(rows, np.nan))

    @classmethod
    def from_rows(cls, spec: TableSpec, rows: Sequence[Mapping[str, Value]]) -> Table:
        """Build a small table from one mapping per row; a missing key or None becomes NA."""
        names = {key for row in rows for key in row}
        if extra := names - {c.name for c in spec.columns}:
            raise KeyError(f"table {spec.name} has no column {', '.join(sorted(extra))}")
        return cls(spec, {c.name: [row.get(c.name) for row in rows] for c in spec.columns})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def numbers(self, name: str) -> NDArray[Any]:
        """Return the array of a numeric column; NaN is NA, unless the contract says that it is a value."""
        data = self.columns[name]
        if isinstance(data, Names):
            raise TypeError(f"column {name} of {self.spec.name} holds strings")
        return data

    def names(self, name: str) -> Names:
        """Return a string column."""
        data = self.columns[name]
        if not isinstance(data, Names):
            raise TypeError(f"column {name} of {self.spec.name} holds numbers")
        return data

    def values(self, name: str) -> list[Value]:
        """Return a column as Python values of its kind; None is NA."""
        data = self.columns[name]
        if isinstance(data, Names):
            return list(data.tolist())
        column = self.spec.column(name)
        convert: Any = {"int": int, "float": float, "bool": bool}[column.kind]
        return [None if v != v and not column.nan else convert(v) for v in data.tolist()]

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield one mapping per row; meant for small tables."""
        columns = [self.values(c.name) for c in self.spec.columns]
        keys = [c.name for c in self.spec.columns]
        for row in zip(*columns, strict=True):
            yield dict(zip(keys, row, strict=True))

    def take(self, index: NDArray[Any]) -> Table:
        """Return the rows at `index` (positions or a boolean mask), in that order."""
        return Table(
            self.spec, {n: d.take(index) if isinstance(d, Names) else d[index] for n, d in self.columns.items()}
        )

    def with_columns(self, **changed: Any) -> Table:
        """Return a copy with these columns replaced."""
        return Table(self.spec, {**self.columns, **changed})

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with nullable dtypes (string, Int64, Float64, boolean); NaN that is a value stays NaN."""
        import pandas as pd

        dtypes = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean"}
        return pd.DataFrame(
            {
                c.name: float_array(self.values(c.name))
                if c.nan
                else pd.array(self.values(c.name), dtype=dtypes[c.kind])  # type: ignore[call-overload]
                for c in self.spec.columns
            }
        )


def float_array(values: Sequence[Any]) -> pd.arrays.FloatingArray:
    """Return numbers as Float64: None is NA, and NaN a value, which `pandas.array` would take for NA."""
    import pandas as pd

    missing = [value is None for value in values]
    numbers = [0.0 if value is None else float(value) for value in values]
    return pd.arrays.FloatingArray(np.array(numbers, dtype=np.float64), np.array(missing, dtype=np.bool_))


def concatenate(spec: TableSpec, parts: Sequence[Table]) -> Table:
    """Stack tables of the same spec in order, merging their names."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Data] = {}
    for column in spec.columns:
        if column.kind == "str":
            columns[column.name] = merge_names([p.names(column.name) for p in parts])
        elif parts:
            columns[column.name] = np.concatenate([p.numbers(column.name) for p in parts])
    return Table(spec, columns)


def merge_names(parts: Sequence[Names]) -> Names:
    """Stack columns of strings in order."""
    index: dict[str, int] = {}
    ids = []
    for part in parts:
        lookup = np.array([index.setdefault(n, len(index)) for n in part.names] + [-1], dtype=np.int32)
        ids.append(lookup[part.ids])
    return Names(np.concatenate(ids) if ids else np.zeros(0, np.int32), list(index))
