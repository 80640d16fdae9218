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
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias
from urllib.parse import quote

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.errors import EmptyInput, InputError, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import SQLITE, head, opened, size_text

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


class Database(Struct, frozen=True):
    """An open database."""

    path: Path  # as the user named it
    uri: str  # with which SQLite opens it, read-only
    connection: sqlite3.Connection  # to read it
    tables: Mapping[str, frozenset[str]]  # ordinary tables, and their columns
    # what has a name and is no ordinary table: views, and tables that a program of SQLite's makes up
    others: frozenset[str]
    roots: Mapping[str, object]  # first page of each table
    pages: Pages  # of the file

    def has(self, table: str, *columns: str) -> bool:
        """Say whether there is such a table with these columns; to read one that is takes no more than its file holds.

        Raises:
            WrongFormat: a view or a virtual table has that name; to read it would run what the file says. Or its pages
                are damaged.
        """
        if table in self.others:
            raise self.wrong(f"{table} is a view or a virtual table, which is not read")
        if table not in self.tables:
            return False
        self.pages.check(table, self.roots[table])
        return self.tables[table].issuperset(columns)

    def need(self, table: str, *columns: str) -> None:
        """Check that a table, if there is one, has columns without which it says nothing.

        Raises:
            UnsupportedVersion: one lacks.
        """
        lacking = [name for name in columns if self.has(table) and name not in self.tables[table]]
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
            raise self.wrong(f"table {table} has more than {MOST_SMALL:,} rows")
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


SCHEMA: Final = 1
"""The first page of the table that describes all others."""
HEADER: Final = 100  # bytes of the file's header, which the first page begins with
_LEVELS: Final = 20  # of pages, as many as SQLite follows (BTCURSOR_MAX_DEPTH)
_LEAST_CELL: Final = 6  # bytes that SQLite counts for a row and its pointer at least (MX_CELL)
_INTERIOR, _LEAF = (2, 5), (10, 13)  # kinds of page, of an index (or a table without row numbers) and of a table
_MOST_SEVENS: Final = 5  # bytes of a length: SQLite's longest row has 2**31 bytes
_LONGEST_CELL: Final = 4 + _MOST_SEVENS + 1  # bytes of a cell that are looked at
_SPAN: Final = 1 << 20  # bytes that are read at once
_GAP: Final = 8  # pages that are read though nobody wants them
_Ints = NDArray[np.int64]
_Bytes = NDArray[np.uint8]


class Pages:
    """The pages of a database.

    Args:
        path: as the user named it.
        file: open.
        page: size of a page, in bytes.
        size: of the file, in bytes; a multiple of `page`.
        hint: what to do about a damaged file.
    """

    def __init__(self, path: Path, file: BinaryIO, page: int, size: int, hint: str) -> None:
        self._path, self._file, self._page, self.size, self._hint = path, file, page, size, hint
        self._sound: set[object] = set()
        self._buffer = bytearray(max(_SPAN, page) + _LONGEST_CELL)

    def check(self, what: str, root: object) -> None:
        """Check a table, once; afterwards to read it whole takes no more than to read the file.

        Args:
            what: the table, for the message.
            root: number of its first page.

        Raises:
            WrongFormat: its pages lie outside the file, are none of a table or serve twice, or its rows hold more than
                the file.
        """
        if root in self._sound:
            return
        level = np.array([root if isinstance(root, int) and 0 < root < 1 << 32 else 0], np.int64)
        seen = np.zeros(self.size // self._page + 1, np.bool_)
        held = levels = 0
        while len(level):
            levels += 1
            level.sort()
            if level[0] < 1 or level[-1] >= len(seen):
                raise self._wrong(what, "leads to pages that it does not have")
            if levels > _LEVELS or seen[level].any() or (level[1:] == level[:-1]).any():
                raise self._wrong(what, "uses a page twice")
            seen[level] = True
            level, more = self._below(what, level)
            held += more
            if held > self.size:
                raise self._wrong(what, "holds rows longer than the whole file")
        self._sound.add(root)

    def _wrong(self, what: str, found: str) -> WrongFormat:
        return WrongFormat(self._path, f"damaged SQLite database: table {what} {found}", self._hint)

    def _below(self, what: str, level: _Ints) -> tuple[_Ints, int]:
        """Return (the pages to which these lead, bytes of the rows on these)."""
        children, held = [np.zeros(0, np.int64)], 0
        for part in _close(level, max(_SPAN // self._page, 1)):
            at = (part - part[0]) * self._page
            cells = _cells(self._read(part[0], part[-1]), at, at + HEADER * (part == SCHEMA), self._page)
            if cells is None:
                raise self._wrong(what, "leads to a page that is none of a table")
            children.append(cells[0])
            held += cells[1]
        return np.concatenate(children), held

    def _read(self, first: int, last: int) -> _Bytes:
        """Return pages, and zeros where a cell at their end may seem to reach; they last until the next are read."""
        length = (last - first + 1) * self._page
        self._file.seek((first - 1) * self._page)
        got = self._file.readinto(memoryview(self._buffer)[:length])  # type: ignore[attr-defined]
        self._buffer[got : length + _LONGEST_CELL] = bytes(length + _LONGEST_CELL - got)
        return np.frombuffer(self._buffer, np.uint8, length + _LONGEST_CELL)


def _close(level: _Ints, most: int) -> Iterator[_Ints]:
    """Yield ascending pages in parts that are read at once: no gap in them is wide, and none spans more than `most`."""
    for part in np.split(level, np.flatnonzero(np.diff(level) > _GAP) + 1):
        yield from np.split(part, np.flatnonzero(np.diff((part - part[0]) // most)) + 1)


def _cells(data: _Bytes, at: _Ints, head: _Ints, page: int) -> tuple[_Ints, int] | None:
    """Return (the pages to which pages lead, bytes of their rows); None where one is no page of a table.

    Args:
        data: bytes.
        at, head: where the pages and their headers begin in it.
        page: size of a page, in bytes.
    """
    kind, count = data[head], _number(data, head + 3, 2)
    inner = np.isin(kind, _INTERIOR)
    if not (inner | np.isin(kind, _LEAF)).all() or count.max() > (page - 8) // _LEAST_CELL:
        return None
    ends = np.cumsum(count)
    pointers = np.repeat(head + 8 + 4 * inner - 2 * (ends - count), count) + 2 * np.arange(ends[-1])
    offset = _number(data, pointers, 2)
    cell = np.repeat(at, count) + np.minimum(offset, page)
    if not inner.any():
        return np.zeros(0, np.int64), _lengths(data, cell)
    leads = np.repeat(inner, count)
    children = np.concatenate([_number(data, cell[leads], 4), _number(data, head[inner] + 8, 4)])
    rows = np.repeat(kind, count) != _INTERIOR[1]
    return children, _lengths(data, (cell + 4 * leads)[rows])


def _number(data: _Bytes, at: _Ints, length: int) -> _Ints:
    """Return the whole numbers at places, the first byte the highest."""
    made = data[at].astype(np.int64)
    for byte in range(1, length):
        made = made << 8 | data[at + byte]
    return made


def _lengths(data: _Bytes, cell: _Ints) -> int:
    """Return the sum of the lengths with which cells begin: seven bits a byte, the highest says that more follow."""
    total, value = 0, np.zeros(len(cell), np.int64)
    for _ in range(_MOST_SEVENS):
        byte = data[cell]
        value = value << 7 | byte & 0x7F
        last = byte < 0x80
        total += int(value[last].sum())
        cell, value = cell[~last] + 1, value[~last]
        if not len(cell):
            return total
    return total + (len(cell) << 7 * _MOST_SEVENS)
