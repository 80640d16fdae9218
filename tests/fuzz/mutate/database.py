"""Change an SQLite database: its pages, its header, its schema and its values."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Final

from tests.fuzz.mutate import bytewise
from tests.fuzz.mutate.chance import Chance, encoded
from tests.readers.nsys.forged import INTERIOR, LEAF, chained, shared, size_of

HEADER: Final = ((16, 2), (18, 1), (19, 1), (20, 1), (24, 4), (28, 4), (32, 4), (36, 4), (40, 4), (44, 4), (52, 4))
HEADER_MORE: Final = ((56, 4), (64, 4), (92, 4), (96, 4))
"""Places and lengths of numbers in the first 100 bytes: of pages, versions (2: WAL), free pages, the encoding."""
PAGE_HEADER: Final = ((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4))
"""Places and lengths in the header of a b-tree's page: kind, free block, cells, where they begin, the last child."""
EDGES: Final = (0, 1, 2, 3, 5, 10, 13, 127, 128, 255, 256, 512, 1024, 4096, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1)
TYPES: Final = ("INTEGER", "TEXT", "REAL", "BLOB", "", "ANY", "INTEGER PRIMARY KEY", "INT DEFAULT 7 NOT NULL")
MOST: Final = 3_000_000
"""Steps of SQLite's machine that a change may take: a view may have no end."""
AGAIN: Final = slice(68, 72)
"""Where the header says which program a database is of: here, that its pages are used again and again."""
Change = Callable[[sqlite3.Connection, Chance], None]


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return another database, or what was one."""
    kind = chance.random()
    if kind < 0.06:
        return _reused(content, chance)
    if kind < 0.2:
        return _page(content, chance)
    if kind < 0.3:
        return _number(content, chance.choice((*HEADER, *HEADER_MORE)), 0, chance)
    if kind < 0.36:
        return bytewise.mutated(content, chance)
    try:
        return _queried(content, _VALUES if kind < 0.75 else _SCHEMA, chance)
    except (sqlite3.Error, OverflowError, ValueError):
        return _page(content, chance)


def _page(content: bytes, chance: Chance) -> bytes:
    """Return a database with another number in the header of a page, in a pointer to a cell, or in a cell."""
    size = int.from_bytes(content[16:18], "big") if len(content) > 100 else 512
    size = size if size >= 512 else 512
    at = chance.randrange(max(1, len(content) // size)) * size
    first = at or 100
    kind = chance.randrange(5)
    if kind == 0:
        return content[: at + chance.choice((0, 0, 1, size // 2))]
    if kind == 1:
        return _number(content, chance.choice(PAGE_HEADER), first, chance)
    if kind == 2:
        return _number(content, (8 + 2 * chance.randrange(8), 2), first, chance)
    if kind == 3:
        other = chance.randrange(max(1, len(content) // size)) * size
        return content[:at] + content[other : other + size] + content[at + size :]
    return _number(content, (chance.randrange(size), chance.choice((1, 1, 2, 9))), at, chance)


def _reused(content: bytes, chance: Chance) -> bytes:
    """Return a database of whose tables one has its pages, or the pages of a long text, again and again."""
    size = size_of(content)
    starts = range(size, len(content), size) if size >= 512 else ()
    tables = [at // size + 1 for at in starts if content[at] in (INTERIOR, LEAF)]
    if not tables:
        return _page(content, chance)
    root = chance.choice(tables)
    content = content[: AGAIN.start] + b"used" + content[AGAIN.stop :]
    if chance.random() < 0.5:
        return shared(content, root, chance.choice((1, 2, 5, 15, 20, 40)), chance.choice((1, 2, 7, 80, 9999)))
    values = (0, 10**9, 59, *chance.choices((None, 0, 1, 75, 2**62, b"x"), k=chance.randrange(9)))
    content += bytes(size * chance.choice((0, 9, 900, 4000)))
    return chained(content, root, values, len(content) * chance.choice((1, 3)) // 2, chance.choice((2, 80, 9999)))


def _number(content: bytes, place: tuple[int, int], base: int, chance: Chance) -> bytes:
    """Return bytes with another number at a place: near the old one, at an edge, or any."""
    at, length = base + place[0], place[1]
    old = int.from_bytes(content[at : at + length], "big")
    near = old + chance.choice((-1, 1, 2, 16, 256))
    value = chance.choice((near, chance.choice(EDGES), chance.getrandbits(8 * length)))
    return content[:at] + (value % (1 << 8 * length)).to_bytes(length, "big") + content[at + length :]


def _queried(content: bytes, changes: tuple[Change, ...], chance: Chance) -> bytes:
    """Return a database after a change with SQL, which may break what its schema promises.

    Raises:
        ValueError: SQL would not end: its pages are used again and again.
    """
    if content[AGAIN] == b"used":
        raise ValueError
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.deserialize(_no_wal(content))
        database.set_progress_handler(lambda: 1, MOST)
        database.execute("PRAGMA writable_schema = ON")
        database.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(chance.choice((1, 1, 2, 4))):
            chance.choice(changes)(database, chance)
        return database.serialize()


def _no_wal(content: bytes) -> bytes:
    """Return a database that can be changed in memory: one in WAL mode cannot."""
    return content[:18] + b"\1\1" + content[20:]


def _table(database: sqlite3.Connection, chance: Chance) -> str:
    found = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND typeof(name) = 'text' ORDER BY name"
    ).fetchall()
    return _quoted(chance.choice([name for (name,) in found] or ["none"]))


def _column(database: sqlite3.Connection, table: str, chance: Chance) -> str:
    found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    return _quoted(chance.choice(found or ["none"]))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(chance: Chance) -> int | float | str | bytes | None:
    """Return a value of any type; text may be no UTF-8."""
    kind = chance.random()
    if kind < 0.15:
        return None
    if kind < 0.6:
        number = chance.number()
        return number if isinstance(number, float) else max(-(2**63), min(number, 2**63 - 1))
    return encoded(chance.text())


def _other_values(database: sqlite3.Connection, chance: Chance) -> None:
    """Give a column another value in one row, in some, or in all."""
    table = _table(database, chance)
    column, value = _column(database, table, chance), _value(chance)
    made = "CAST(? AS TEXT)" if isinstance(value, bytes) and chance.random() < 0.8 else "?"
    most = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    rows = chance.choice(("1", f"rowid % 7 = {chance.randrange(7)}", *[f"rowid = {chance.randint(1, most + 1)}"] * 3))
    database.execute(f"UPDATE OR IGNORE {table} SET {column} = {made} WHERE {rows}", (value,))


def _other_numbers(database: sqlite3.Connection, chance: Chance) -> None:
    """Move, negate or exchange the numbers of a column."""
    table = _table(database, chance)
    column, other = _column(database, table, chance), _column(database, table, chance)
    by = min(int(chance.choice(EDGES)), 2**62)
    made = chance.choice(
        (f"{column} + {by}", f"{column} - {by}", f"-{column}", other, f"{column} / 2", f"{column} * 1e9")
    )
    database.execute(f"UPDATE OR IGNORE {table} SET {column} = {made}")


def _other_rows(database: sqlite3.Connection, chance: Chance) -> None:
    """Drop rows, repeat them, or put one far away."""
    table = _table(database, chance)
    kind = chance.randrange(4)
    if kind == 0:
        database.execute(f"DELETE FROM {table}")
    elif kind == 1:
        database.execute(f"DELETE FROM {table} WHERE rowid % 3 = {chance.randrange(3)}")
    elif kind == 2:
        database.execute(f"UPDATE OR IGNORE {table} SET rowid = ? WHERE rowid = 1", (2**63 - 1,))
    else:
        for _ in range(chance.choice((1, 3, 7))):
            database.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM {table} LIMIT 2000")


def _without(database: sqlite3.Connection, chance: Chance) -> None:
    """Drop a table or a column."""
    table = _table(database, chance)
    if chance.random() < 0.3:
        database.execute(f"DROP TABLE {table}")
    else:
        database.execute(f"ALTER TABLE {table} DROP COLUMN {_column(database, table, chance)}")


def _renamed(database: sqlite3.Connection, chance: Chance) -> None:
    """Give a table or a column another name, which may be that of another one."""
    table, other = _table(database, chance), _table(database, chance)
    name = chance.choice((other, _quoted(chance.text().replace("\0", "")[:60])))
    if chance.random() < 0.3:
        database.execute(f"ALTER TABLE {table} RENAME TO {name}")
    else:
        database.execute(f"ALTER TABLE {table} RENAME COLUMN {_column(database, table, chance)} TO {name}")


def _replaced(database: sqlite3.Connection, chance: Chance) -> None:
    """Put a view in the place of a table, or a table that keeps no rowid, or one with other types."""
    table = _table(database, chance)
    columns = [_quoted(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
    database.execute("DROP TABLE IF EXISTS hidden")
    database.execute(f"ALTER TABLE {table} RENAME TO hidden")
    kind = chance.randrange(4)
    if kind == 0:
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM hidden")
    elif kind == 1:
        deep = "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n)"
        database.execute(f"CREATE VIEW {table} AS {deep} SELECT hidden.* FROM n, hidden")
    elif kind == 2:
        database.execute(f"CREATE TABLE {table} ({', '.join(columns)}, PRIMARY KEY ({columns[0]})) WITHOUT ROWID")
    else:
        database.execute(f"CREATE TABLE {table} ({', '.join(f'{c} {chance.choice(TYPES[:6])}' for c in columns)})")
    if kind > 1:
        database.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM hidden")


def _other_sql(database: sqlite3.Connection, chance: Chance) -> None:
    """Change what the schema says of a table, and not the table."""
    found = database.execute(
        "SELECT rowid, sql FROM sqlite_master WHERE typeof(sql) = 'text' ORDER BY rowid"
    ).fetchall()
    row, sql = chance.choice(found or [(0, "")])
    kind = chance.randrange(4)
    if kind == 0:
        made = sql.replace("INTEGER", chance.choice(TYPES), chance.choice((1, -1)))
    elif kind == 1:
        made = chance.near(sql)
    elif kind == 2:
        made = sql.replace(",", chance.choice((", more INTEGER,", ", x AS (1 / 0),", "")), 1)
    else:
        return _pointed(database, row, chance)
    database.execute("UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE rowid = ?", (encoded(made), row))
    return None


def _pointed(database: sqlite3.Connection, row: int, chance: Chance) -> None:
    """Let a table begin at another page: that of another one, one that is none, its own schema."""
    page = chance.choice((0, 1, 2, 3, 4, 5, 10**6, -1, 2**40))
    database.execute("UPDATE sqlite_master SET rootpage = ? WHERE rowid = ?", (page, row))


_VALUES: Final[tuple[Change, ...]] = (_other_values, _other_values, _other_values, _other_numbers, _other_rows)
_SCHEMA: Final[tuple[Change, ...]] = (_without, _without, _renamed, _replaced, _other_sql)
