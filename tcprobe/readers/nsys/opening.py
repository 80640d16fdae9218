"""Open a foreign SQLite file so that nothing is written, run, locked or waited for, and read its schema.

A database may be one that is still written, cut off, or made to harm: its header, what lies beside it, its locks, its
schema and the pages of a table (`pages`) are looked at before a row is read. Of the SQL in it nothing is run: views,
triggers and virtual tables are refused where a table is read, generated columns are not there.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias
from urllib.parse import quote

from tcprobe.errors import EmptyInput, InputError, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import SQLITE, head, opened, size_text
from tcprobe.readers.nsys.pages import HEADER, SCHEMA, Pages

MOST_BYTES: Final = 1 << 36
MOST_TEXT: Final = 1 << 26  # bytes of one value
AGAIN: Final = "export it again (nsys export --type sqlite), or copy it again"
WAIT: Final = "wait until nsys or the program that has it open has ended, then try again"
_WAL: Final = 2  # file format of a write-ahead log
MOST_DEFAULT: Final = 64  # characters of SQL; nsys writes ''
_STEPS: Final = 1 << 20  # of SQLite's machine between two looks at what has been spent
_STEPS_A_BYTE: Final = 64
_TABLES_STEPS: Final = 1 << 28
MOST_SMALL: Final = 1 << 20  # rows of a table that holds one of each thread, process or setting
Value: TypeAlias = str | int | float | None


@dataclass(frozen=True, slots=True)
class Database:
    """An open database.

    Attributes:
        path: as the user named it.
        uri: with which SQLite opens it, read-only.
        connection: to read it.
        tables: ordinary tables, and their columns.
        others: what has a name and is no ordinary table: views, and tables that a program of SQLite's makes up.
        roots: first page of each table.
        pages: of the file.
    """

    path: Path
    uri: str
    connection: sqlite3.Connection
    tables: Mapping[str, frozenset[str]]
    others: frozenset[str]
    roots: Mapping[str, object]
    pages: Pages

    def has(self, table: str, *columns: str) -> bool:
        """Say whether there is such a table with these columns; to read one that is takes no more than its file holds.

        Raises:
            WrongFormat: a view or a virtual table has that name; to read it would run what the file says. Or its pages
                are damaged.
        """
        if table in self.others:
            raise WrongFormat(self.path, f"{table} is a view or a virtual table, which is not read", AGAIN)
        if table not in self.tables:
            return False
        self.pages.check(table, self.roots[table])
        return self.tables[table].issuperset(columns)

    def need(self, table: str, *columns: str) -> None:
        """Check that a table has columns without which it says nothing.

        Raises:
            UnsupportedVersion: one lacks.
        """
        lacking = [name for name in columns if name not in self.tables[table]]
        if lacking:
            found = f"table {table} has no column {', '.join(lacking)}: its schema is none that is known"
            raise UnsupportedVersion(self.path, found, "give what nsys export --type sqlite writes")

    def wrong(self, found: str) -> WrongFormat:
        """Return the error for what is no table of nsys's, or is damaged."""
        return WrongFormat(self.path, found, AGAIN)

    def rows(self, table: str, *columns: str) -> list[tuple[Value, ...]]:
        """Return columns of a small table, text as str; none where there is no such table or a column lacks.

        Raises:
            WrongFormat: it has more rows than such a table can.
        """
        if not self.has(table, *columns):
            return []
        listed = ", ".join(f"[{column}]" for column in columns)
        found = self.connection.execute(f"SELECT {listed} FROM [{table}] NOT INDEXED LIMIT {MOST_SMALL + 1}").fetchall()
        if len(found) > MOST_SMALL:
            raise WrongFormat(self.path, f"table {table} has more than {MOST_SMALL:,} rows", AGAIN)
        return [tuple(map(_value, row)) for row in found]


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a database for reading, and close it again; nothing appears beside it and no lock is held.

    Raises:
        EmptyInput: it has no bytes.
        WrongFormat: it is no SQLite database, is cut off or damaged, or SQLite cannot read it.
        UnreadableInput: it is being written, or the system refused to read it.
    """
    with opened(path, MOST_BYTES) as file:
        pages = _check(path, file)
        _check_beside(path)
        _check_locks(path)
        uri = _uri(path, "&immutable=1")
        with told(path), closing(_connect(uri, pages.size)) as connection:
            tables, others, roots = _schema(connection)
            yield Database(path, uri, connection, tables, others, roots, pages)


def _uri(path: Path, more: str = "") -> str:
    return f"file:{quote(os.fsencode(os.path.realpath(path)))}?mode=ro{more}"


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Tell what SQLite finds wrong as an error of the file."""
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise _refused(path, error) from error
    except MemoryError:
        raise UnreadableInput(
            path, "cannot be read: the memory does not hold it", "read it on a machine with more"
        ) from None


def _refused(path: Path, error: Exception) -> InputError:
    said = str(error) or type(error).__name__
    if "locked" in said:
        return UnreadableInput(path, f"is being written ({said})", WAIT)
    if "interrupted" in said:
        said = "it takes more steps to read than a file of its size can need"
    return WrongFormat(path, f"damaged SQLite database: {said}", AGAIN)


def peek_tables(path: Path) -> frozenset[str]:
    """Return the names of a database's tables; empty where they cannot be read."""
    try:
        with opened(path, MOST_BYTES) as file:
            _check(path, file)
        with closing(_connect(_uri(path, "&immutable=1"), 0)) as connection:
            listed = connection.execute("SELECT name FROM sqlite_master").fetchall()
            return frozenset(str(_value(name)) for (name,) in listed)
    except (InputError, sqlite3.Error, OverflowError, UnicodeError, MemoryError):
        return frozenset()


def _check(path: Path, file: BinaryIO) -> Pages:
    """Return the pages of a database that is whole, and whose schema can be read."""
    start = file.read(HEADER)
    size = file.seek(0, os.SEEK_END)
    if not size:
        raise EmptyInput(path, "the file is empty", "nsys may not have finished writing it: " + AGAIN)
    if start[: len(SQLITE)] != SQLITE:
        raise WrongFormat(path, "is no SQLite database", "give what nsys export --type sqlite writes")
    pages = Pages(path, file, _page(path, start, size), size, AGAIN)
    pages.check("sqlite_master", SCHEMA)
    return pages


def _page(path: Path, start: bytes, size: int) -> int:
    """Return the size of a page, in bytes, of a file that is no shorter than its header says."""
    page = int.from_bytes(start[16:18], "big")
    page = 65536 if page == 1 else page
    if len(start) < HEADER or page < 512 or page & (page - 1):
        raise WrongFormat(path, f"damaged SQLite database: its header is cut off or no header ({size} bytes)", AGAIN)
    pages = int.from_bytes(start[28:32], "big")
    counts = start[24:28] == start[92:96]  # else the number of pages was written by an old SQLite, and is not valid
    if (counts and size < pages * page) or size % page:
        expected = f" of {size_text(pages * page)}" if counts else ""
        raise WrongFormat(path, f"is cut off: it holds {size_text(size)}{expected}", AGAIN)
    return page


def _check_beside(path: Path) -> None:
    """Refuse a file with changes that lie beside it: to read it without them is wrong, with them would write."""
    real = os.path.realpath(path)
    log = Path(f"{real}-wal")
    if head(log, 1):
        raise UnreadableInput(path, f"is being written: changes lie in {log.name} beside it", WAIT)
    journal = Path(f"{real}-journal")
    if any(head(journal, 8) or b""):  # one that is done with has a header of zeros
        raise UnreadableInput(path, f"is being written, or its export was cut off: {journal.name} lies beside it", WAIT)


def _check_locks(path: Path) -> None:
    """Refuse a file that another program is writing; one with a write-ahead log is not asked, as that would write."""
    if (head(path, 20) or b"")[19:] == bytes((_WAL,)):  # the version that reads it, which SQLite goes by
        return
    with suppress(sqlite3.Error), closing(sqlite3.connect(_uri(path), timeout=0, uri=True)) as connection:
        try:
            connection.execute("PRAGMA schema_version").fetchall()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise _refused(path, error) from error


def _connect(uri: str, size: int) -> sqlite3.Connection:
    """Connect to a database so that it can neither change anything nor keep us for ever."""
    connection = sqlite3.connect(uri, timeout=0, isolation_level=None, uri=True, check_same_thread=False)
    most = (_TABLES_STEPS + _STEPS_A_BYTE * size) // _STEPS
    spent = iter(range(most))
    connection.set_progress_handler(lambda: next(spent, None) is None, _STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_TEXT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1)
    connection.text_factory = bytes  # the text of old captures is not always UTF-8
    for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "temp_store=MEMORY", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _value(value: Any) -> Value:
    """Return a value, bytes that are no text made into some."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _schema(
    connection: sqlite3.Connection,
) -> tuple[dict[str, frozenset[str]], frozenset[str], dict[str, object]]:
    """Return the ordinary tables with their columns, the names of other things that could be read, and first pages.

    A column with a long default is not there: each row would have that text, and no page of the file holds it.
    """
    tables: dict[str, frozenset[str]] = {}
    others: set[str] = set()
    roots: dict[str, object] = {}
    query = "SELECT name, type, sql, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"
    for *texts, root in connection.execute(query).fetchall():
        name, kind, sql = map(str, map(_value, texts))
        if kind == "view" or sql.lstrip().upper().startswith("CREATE VIRTUAL"):
            others.add(name)
        else:
            columns = connection.execute(_COLUMNS, (name, MOST_DEFAULT)).fetchall()
            tables[name] = frozenset(str(_value(column)) for (column,) in columns)
            roots[name] = root
    return tables, frozenset(others), roots


_COLUMNS: Final = "SELECT name FROM pragma_table_info(?) WHERE coalesce(length(dflt_value), 0) <= ?"
