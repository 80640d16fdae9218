"""Columns of a database as arrays of numbers, and text as ids: the rows never become Python objects of ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, count, islice
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import Names

Ints: TypeAlias = NDArray[np.int64]
NONE: Final = int(np.iinfo(np.int64).min)
"""Stands for NULL, and for a column that the schema lacks."""
ROW: Final = "_rowid_"
"""Name of the column that SQLite gives each table by itself."""
CHUNK: Final = 1 << 16  # rows


class Columns:
    """Columns of whole numbers of one table, of equal length; `NONE` where there is none.

    Args:
        data: by name.
    """

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Ints]) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(next(iter(self._data.values())))

    def __getitem__(self, name: str) -> Ints:
        return self._data[name]

    def take(self, index: NDArray[Any]) -> Columns:
        """Return some rows, by position or mask."""
        return Columns({name: values[index] for name, values in self._data.items()})

    def with_column(self, name: str, values: Ints) -> Columns:
        """Return the same rows with one column replaced."""
        return Columns({**self._data, name: values})


def read_columns(database: Database, table: str, names: Sequence[str], where: str = "") -> Columns:
    """Read columns of whole numbers, in the order of the table's rows.

    Args:
        database: open.
        table: its name; without it there are no rows.
        names: columns; one that the table lacks is `NONE` throughout.
        where: condition in SQL on columns that the table has.

    Raises:
        WrongFormat: a value is no whole number, or there are more rows than the file can hold.
    """
    if not database.has(table):
        return Columns({name: np.zeros(0, np.int64) for name in names})
    known = [name for name in names if name == ROW or database.has(table, name)]
    listed = ", ".join(f"coalesce([{name}], {NONE})" for name in known) or str(NONE)
    condition = f" WHERE {where}" if where else ""
    query = f"SELECT {listed} FROM [{table}] NOT INDEXED{condition} LIMIT {database.most_rows + 1}"
    found = _numbers(database, table, query, max(len(known), 1))
    rows = len(found[0])
    if rows > database.most_rows:
        raise database.wrong(f"table {table} has more rows than a file of this size can hold")
    given = dict(zip(known, found, strict=False))
    return Columns({name: given[name] if name in given else np.full(rows, NONE) for name in names})


def _numbers(database: Database, table: str, query: str, width: int) -> list[Ints]:
    """Return the columns of a query."""
    parts: list[list[Ints]] = [[] for _ in range(width)]
    cursor = database.connection.execute(query)
    while True:
        flat = _flat(database, table, islice(cursor, CHUNK))
        for column, part in enumerate(parts):
            part.append(flat[column::width].copy())
        if len(flat) < CHUNK * width:
            return [np.concatenate(part) for part in parts]


def _flat(database: Database, table: str, rows: Any) -> Ints:
    try:
        return np.fromiter(chain.from_iterable(rows), np.int64)
    except (ValueError, TypeError) as error:
        raise database.wrong(f"table {table} holds what is no whole number ({error})") from error


def read_texts(database: Database, query: str, given: tuple[Any, ...] = ()) -> Names:
    """Return the text of each row of a query with one column, NA where it is none.

    Args:
        database: open.
        query: of one column.
        given: values for its parameters.
    """
    index: defaultdict[Any, int] = defaultdict(count().__next__)
    texts = chain.from_iterable(database.connection.execute(query, given))
    ids = np.fromiter(map(index.__getitem__, islice(texts, database.most_rows)), np.int32)
    return Names(*_decoded(ids, list(index)))


def _decoded(ids: NDArray[np.int32], values: Sequence[Any]) -> tuple[NDArray[np.int32], list[str]]:
    """Return ids into texts; what is no text is NA, and texts that are alike once decoded share an id."""
    texts: dict[str, int] = {}
    lookup = [
        texts.setdefault(value.decode(errors="replace"), len(texts)) if isinstance(value, bytes) else -1
        for value in values
    ]
    return np.array([*lookup, -1], np.int32)[ids], list(texts)


def read_strings(database: Database, ids: Ints) -> Names:
    """Return what StringIds holds for each id; NA where it holds nothing.

    Args:
        database: open.
        ids: references to StringIds.
    """
    wanted, place = np.unique(ids, return_inverse=True)
    found: dict[int, bytes] = {}
    if database.has("StringIds", "id", "value"):
        for number in wanted[wanted != NONE].tolist():
            row = database.connection.execute("SELECT value FROM StringIds WHERE id = ? LIMIT 1", (number,)).fetchone()
            if row is not None:
                found[number] = row[0]
    return Names(*_decoded(place.reshape(-1).astype(np.int32), [found.get(number) for number in wanted.tolist()]))
