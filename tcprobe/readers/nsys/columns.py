"""Columns of a database as arrays of numbers, and text as ids: the rows never become Python objects of ours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import Names

Ints: TypeAlias = NDArray[np.int64]
NONE: Final = int(np.iinfo(np.int64).min)
"""Stands for NULL, and for a column that the schema lacks."""
CHUNK: Final = 1 << 16  # rows


class Columns(dict[str, Ints]):
    """Columns of whole numbers of one table, by name and of equal length; `NONE` where there is none."""

    odd = 0  # rows that were left out, as they cannot be

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values())))

    def take(self, index: NDArray[Any]) -> Columns:
        """Return some rows, by position or mask."""
        return Columns({name: values[index] for name, values in self.items()})

    def where(self, sane: NDArray[np.bool_]) -> Columns:
        """Return the rows that can be, and count the others as odd."""
        kept = self if sane.all() else self.take(sane)
        kept.odd = self.rows - kept.rows
        return kept


def read_columns(database: Database, table: str, names: Sequence[str], where: str = "", **made: str) -> Columns:
    """Read columns of whole numbers, in the order of the table's rows.

    Args:
        database: open.
        table: its name; without it there are no rows.
        names: columns; one that the table lacks is `NONE` throughout.
        where: condition in SQL on columns that the table has.
        made: further columns, as expressions in SQL of columns that the table has.

    Raises:
        WrongFormat: a value is no whole number, or the table is damaged.
    """
    if not database.has(table):
        return Columns({name: np.zeros(0, np.int64) for name in (*names, *made)})
    listed = {name: f"[{name}]" for name in names if database.has(table, name)} | made
    values = [f"coalesce({value}, {NONE})" for value in listed.values()] or [str(NONE)]
    query = f"SELECT {', '.join(values)} FROM [{table}] NOT INDEXED" + (f" WHERE {where}" if where else "")
    found = _by_arrow(database, query, len(values))
    if found is None:
        found = _by_rows(database, table, query, len(values))
    given = dict(zip(listed, found, strict=False))
    return Columns({name: given[name] if name in given else np.full(len(found[0]), NONE) for name in (*names, *made)})


def _by_rows(database: Database, table: str, query: str, width: int) -> list[Ints]:
    parts: list[list[Ints]] = [[] for _ in range(width)]
    cursor = database.connection.execute(query)
    size = CHUNK * width
    while size == CHUNK * width:
        try:
            flat = np.fromiter(chain.from_iterable(islice(cursor, CHUNK)), np.int64)
        except (ValueError, TypeError) as error:
            raise database.wrong(f"table {table} holds what is no whole number ({error})") from error
        size = len(flat)
        for column, part in enumerate(parts):
            part.append(flat[column::width].copy())
    return _joined(parts)


def _joined(parts: list[list[Ints]]) -> list[Ints]:
    """Join the parts of each column, and forget them one by one."""
    joined = []
    for part in parts:
        joined.append(np.concatenate(part) if part else np.zeros(0, np.int64))
        part.clear()
    return joined


def _by_arrow(database: Database, query: str, width: int) -> list[Ints] | None:
    """Read columns through ADBC, which makes no object of a value; None where it is not installed.

    Also None where it finds anything wrong: that shows again where sqlite3 reads the same, and is told there.
    """
    try:
        import adbc_driver_manager
        import adbc_driver_sqlite
        import nanoarrow
    except ImportError:
        return None
    parts: list[list[Ints]] = [[] for _ in range(width)]
    try:
        with (
            adbc_driver_sqlite.connect(database.uri) as opened,
            adbc_driver_manager.AdbcConnection(opened) as connection,
            adbc_driver_manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(CHUNK)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            for batch in nanoarrow.c_array_stream(stream):
                for column, part in enumerate(parts):
                    part.append(_copied(batch.child(column)))
    except (adbc_driver_manager.Error, RuntimeError, ValueError):
        return None
    return _joined(parts)


def _copied(array: Any) -> Ints:
    """Return a copy of an Arrow array of int64 without NULL."""
    if array.schema.format != "l" or array.null_count > 0:
        raise ValueError("no whole numbers")
    return np.frombuffer(array.view().buffer(1), np.int64)[array.offset : array.offset + array.length].copy()


def count_rows(database: Database, table: str) -> int:
    """Return how many rows a table has; 0 where there is none of that name."""
    if not database.has(table):
        return 0
    return int(database.connection.execute(f"SELECT count(*) FROM [{table}] NOT INDEXED").fetchone()[0])


def read_distinct(rows: Iterator[tuple[Any, ...]]) -> tuple[Ints, list[Any], Ints]:
    """Return (number of each row's values, distinct values as tuples, last value of each row).

    Args:
        rows: the last value of each is a whole number, the others are what is told apart: many rows have the same.
    """
    index: defaultdict[Any, int] = defaultdict(count().__next__)
    told_apart = itemgetter(slice(None, -1))
    codes, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while chunk := list(islice(rows, CHUNK)):
        codes.append(np.fromiter(map(index.__getitem__, map(told_apart, chunk)), np.int64, len(chunk)))
        numbers.append(np.fromiter(map(itemgetter(-1), chunk), np.int64, len(chunk)))
    return np.concatenate(codes), list(index), np.concatenate(numbers)


def decoded(value: Any) -> str | None:
    """Return text as str; None for what is no text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else None


_STRING: Final = "SELECT value FROM StringIds NOT INDEXED WHERE _rowid_ = ?1 AND id = ?1"


def read_strings(database: Database, ids: Ints) -> Names:
    """Return what StringIds holds for each id; NA where it holds nothing, or no text.

    Args:
        database: open.
        ids: references to StringIds.
    """
    distinct, place = np.unique(ids, return_inverse=True)
    wanted = [number for number in distinct.tolist() if number != NONE]
    found: dict[int, Any] = {}
    if database.has("StringIds", "id", "value"):
        for number in wanted:
            row = database.connection.execute(_STRING, (number,)).fetchone()
            if row is not None:
                found[number] = row[0]
        others = set(wanted).difference(found)
        if others:  # of a table whose ids are no row numbers, or that lacks some: read once, not once an id
            for number, value in database.connection.execute("SELECT id, value FROM StringIds NOT INDEXED"):
                if number in others:
                    found.setdefault(number, value)
    return Names.of([decoded(found.get(number)) for number in distinct.tolist()]).take(place.reshape(-1))
