"""Check that a table is no larger than its file before SQLite reads it: each page serves once, and its rows fit.

SQLite follows pages as they point. A few that point at one another make rows without end, and rows whose long texts lie
on the same pages make gigabytes of a megabyte. No database that SQLite wrote has either.

Source: sqlite.org/fileformat2.html, sections 1.3 (header), 1.6 (b-tree pages) and 1.7 (what overflows).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat

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
