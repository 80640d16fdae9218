"""Read a long CSV table block by block in array code, where all its rows are built alike.

A long report repeats itself: between the columns of times, which differ from row to row, stand segments of cells that
many rows share. Each distinct segment is parsed once, by the same `csv` that reads any other table, and the times are
parsed as arrays of digits. Whatever is built otherwise is not read here.
"""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from threading import Lock
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.readers.arrays import PADDING, Bytes, Ints, distinct_rows
from tcprobe.schema.columns import FloatArray, IntArray

BLOCK: Final = 1 << 19  # bytes read at once: arrays derived from more are given back to the system, at a price
LONGEST_ROW: Final = 64 << 20
MOST_THREADS: Final = min(os.cpu_count() or 1, 4)  # array code runs beside array code
MOST_DIGITS: Final = 15  # whole numbers below 2**53
STRIP: Final = PADDING  # bytes that are compared at once
MOST_SEGMENTS: Final = 1 << 17

_COMMA, _NEWLINE, _QUOTE = b',\n"'
_MIX: Final = np.uint64(0x9E37_79B9_7F4A_7C15)  # odd, its bits without a pattern
_MIXERS: Final = _MIX * (2 * np.arange(1, STRIP // 8 + 1, dtype=np.uint64) + np.uint64(1))
_HALF: Final = np.uint64(29)
_LAST_BYTES: Final = np.array([(1 << 64) - (1 << 8 * (8 - size)) for size in range(9)], np.uint64)  # bits to keep
_PLACES: Final = np.arange(STRIP)
_ZEROS: Final = np.uint64(0x3030_3030_3030_3030)
_HIGH_HALVES: Final = np.uint64(0xF0F0_F0F0_F0F0_F0F0)
_PAST_NINE: Final = np.uint64(0x0606_0606_0606_0606)
_FOLDS: Final = tuple(  # (bits to keep, factor that joins neighbours, shift to the sum)
    (np.uint64(keep), np.uint64(10**digits * 2**shift + 1), np.uint64(shift))
    for keep, digits, shift in (
        (0x0F0F_0F0F_0F0F_0F0F, 1, 8),
        (0x00FF_00FF_00FF_00FF, 2, 16),
        (0x0000_FFFF_0000_FFFF, 4, 32),
    )
)


class IrregularError(ValueError):
    """The table has a row that is built unlike the others; the message says how."""


class Segments(Struct, frozen=True):
    """The cells of some neighbouring columns: `texts` are the distinct rows of them, `ids` says which stands where."""

    columns: tuple[int, ...]
    texts: list[list[str]]
    ids: IntArray


class Blocks(Struct, frozen=True):
    """A table as read: whole numbers by column, NaN where a cell is blank, and the segments of cells between them."""

    rows: int
    numbers: dict[int, IntArray | FloatArray]
    segments: list[Segments]


def read_blocks(file: BinaryIO, width: int, numbers: Mapping[int, bool]) -> Blocks:
    """Read the rows of a table to the end of the file.

    Args:
        file: UTF-8, at the beginning of a row.
        width: cells of each row.
        numbers: columns that hold plain whole numbers; whether each row has one, or some cells are blank.

    Raises:
        IrregularError: a row has another number of cells, a cell of `numbers` holds anything else, or the segments
            differ from row to row.
        csv.Error: a cell is quoted in another way.
        UnicodeDecodeError: a cell is not UTF-8.
    """
    spans = [tuple(columns) for is_number, columns in groupby(range(width), numbers.__contains__) if not is_number]
    finders = [_Finder(columns, columns[-1] == width - 1) for columns in spans]
    parts: list[tuple[list[Ints], list[Ints]]] = []

    def read_one(data: bytes) -> tuple[list[Ints], list[Ints]]:
        block = _Block(data, width)
        return [block.whole(*one) for one in numbers.items()], [finder.ids(block) for finder in finders]

    with ThreadPoolExecutor(MOST_THREADS) as pool:
        ahead: deque[Future[tuple[list[Ints], list[Ints]]]] = deque()
        for data in _pieces(file):
            ahead.append(pool.submit(read_one, data))
            if len(ahead) > MOST_THREADS:
                parts.append(ahead.popleft().result())
        parts += [future.result() for future in ahead]
    nothing = np.zeros(0, np.int64)
    values = [np.concatenate([nothing, *(p[0][at] for p in parts)]) for at in range(len(numbers))]
    ids = [np.concatenate([nothing, *(p[1][at] for p in parts)]) for at in range(len(finders))]
    segments = [finder.segments(found) for finder, found in zip(finders, ids, strict=True)]
    return Blocks(len(values[0]), dict(zip(numbers, map(_with_blanks, values), strict=True)), segments)


def _with_blanks(values: IntArray) -> IntArray | FloatArray:
    """Return a column with NaN for the blank cells, which `_Block.whole` marks by -1."""
    blank = values < 0
    return np.where(blank, np.nan, values) if blank.any() else values


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of the file in pieces that end with a line, between `PADDING` bytes on either side."""
    rest, around = b"", bytes(PADDING)
    while more := file.read(BLOCK):
        end = more.rfind(b"\n") + 1
        if end:
            yield b"".join((around, rest, memoryview(more)[:end], around))
            rest = more[end:]
        else:
            rest += more
        if len(rest) > LONGEST_ROW:
            raise IrregularError(f"a row has more than {LONGEST_ROW} bytes")
    if rest:
        yield b"".join((around, rest, b"\n", around))


class _Block:
    """Whole rows: where the cells of each begin and end."""

    __slots__ = ("bytes", "ends")

    def __init__(self, data: bytes, width: int) -> None:
        self.bytes = Bytes(data)
        ends = _separators(self.bytes.u8)
        if not len(ends) or ends[-1] != self.bytes.size - 1:
            raise IrregularError("a quote is left open")
        lines = np.flatnonzero(self.bytes.u8[ends] == _NEWLINE)
        if len(ends) != len(lines) * width or (lines != np.arange(width - 1, len(ends), width)).any():
            raise IrregularError(f"a row has more or fewer than {width} cells")
        self.ends = ends.reshape(len(lines), width)

    def starts(self, column: int) -> Ints:
        """Return where the cells of a column begin."""
        if column:
            return self.ends[:, column - 1] + 1
        return np.append(np.int64(PADDING), self.ends[:-1, -1] + 1)[: len(self.ends)]

    def whole(self, column: int, needed: bool) -> Ints:
        """Return the whole numbers of a column, -1 where the cell is blank."""
        end = self.ends[:, column]
        size = end - self.starts(column)
        longest, shortest = (int(size.max()), int(size.min())) if len(size) else (0, 1)
        if longest > MOST_DIGITS or (needed and not shortest):
            raise IrregularError(f"column {column} holds something else than a number")
        value = self._digits(end, np.minimum(size, 8))
        if longest > 8:
            value += self._digits(end - 8, np.maximum(size - 8, 0)) * np.uint64(10**8)
        number = value.astype(np.int64)
        number[size == 0] = -1
        return number

    def _digits(self, end: Ints, size: Ints) -> NDArray[np.uint64]:
        """Return the numbers of `size` digits, eight at most, that end before `end`."""
        keep = _LAST_BYTES[size]
        word = (self.bytes.word(end - 8) & keep) | (_ZEROS & ~keep)
        if (((word & _HIGH_HALVES) ^ _ZEROS) | (((word + _PAST_NINE) & _HIGH_HALVES) ^ _ZEROS)).any():
            raise IrregularError("a number holds something else than digits")
        for bits, factor, shift in _FOLDS:
            word = ((word & bits) * factor) >> shift
        return np.asarray(word, np.uint64)


def _separators(u8: NDArray[np.uint8]) -> Ints:
    """Return where the commas and line ends outside quotes are."""
    quote = u8 == _QUOTE
    marks = u8 == _COMMA
    marks |= u8 == _NEWLINE
    if not quote.any():
        return np.flatnonzero(marks)
    marks |= quote
    at = np.flatnonzero(marks)
    inside: NDArray[np.bool_] = quote[at]
    inside |= np.logical_xor.accumulate(inside)
    return at[~inside]


_Strips: TypeAlias = list[tuple[Ints, NDArray[np.uint64]]]


def _strips(data: Bytes, start: Ints, size: Ints) -> _Strips:
    """Cut texts into strips of words; return for each strip the texts that reach it, and their words.

    The last strip of a text ends with it, over bytes of the one before; a text of one strip has zeros after its end.
    """
    windows: NDArray[Any] = np.ndarray((data.size + 1,), f"V{STRIP}", data.data, 0, (1,))
    strips = []
    for at in range(0, int(size.max()) if len(size) else 0, STRIP):
        rows = np.flatnonzero(size > at)
        begin = np.maximum(np.minimum(at, size[rows] - STRIP), 0)
        found = windows[start[rows] + begin].view(np.uint8).reshape(len(rows), STRIP)
        if at == 0 and len(short := np.flatnonzero(size[rows] < STRIP)):
            found[short] *= size[rows[short], None] > _PLACES
        strips.append((rows, found.view("<u8")))
    return strips


class _Finder:
    """Finds the distinct segments of cells of some neighbouring columns; several threads may ask.

    A segment is looked up by a hash of its bytes and then compared with the one found, so that no two are mixed up.
    """

    def __init__(self, columns: tuple[int, ...], last: bool) -> None:
        self.columns, self.last = columns, last
        self._lock = Lock()
        self._index: dict[bytes, int] = {}
        self._known = Bytes(bytearray(PADDING))
        self._starts = self._sizes = np.zeros(0, np.int64)
        self._hashes = np.zeros(1, np.uint64)  # ascending
        self._by_hash = np.full(1, -1, np.int64)

    def ids(self, block: _Block) -> Ints:
        """Return which segment stands in each row of a block."""
        start = block.starts(self.columns[0])
        size = block.ends[:, self.columns[-1]] - start
        strips = _strips(block.bytes, start, size)
        hashes = _hashes(strips, size)
        with self._lock:
            place = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
            found = np.where(self._hashes[place] == hashes, self._by_hash[place], -1)
            if len(new := np.flatnonzero(found < 0)):
                found[new] = self._added(block.bytes, start[new], size[new], hashes[new])
            known, starts, sizes = self._known, self._starts, self._sizes
        if not (sizes[found] == size).all() or not _same(strips, _strips(known, starts[found], size)):
            raise IrregularError("two segments of cells share a hash")
        return found

    def _added(self, data: Bytes, start: Ints, size: Ints, hashes: NDArray[np.uint64]) -> Ints:
        """Return the ids of segments whose hashes are not known."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        ids, before = np.zeros(len(first), np.int64), len(self._index)
        for one, (at, length) in enumerate(zip(start[first].tolist(), size[first].tolist(), strict=True)):
            ids[one] = self._index.setdefault(bytes(data.data[at : at + length]), len(self._index))
        self._keep(list(self._index)[before:])
        self._hashes = np.append(self._hashes, distinct)
        order = np.argsort(self._hashes, kind="stable")
        self._hashes, self._by_hash = self._hashes[order], np.append(self._by_hash, ids)[order]
        return ids[inverse.ravel()]

    def _keep(self, segments: list[bytes]) -> None:
        """Keep the bytes of new segments, to compare with."""
        if len(self._index) > MOST_SEGMENTS:
            raise IrregularError(f"there are more than {MOST_SEGMENTS} distinct segments of cells")
        sizes = np.array([len(segment) for segment in segments], np.int64)
        begin = self._known.size
        self._starts = np.append(self._starts, begin + np.cumsum(sizes) - sizes)
        self._sizes = np.append(self._sizes, sizes)
        self._known = Bytes(self._known.data[:begin] + b"".join(segments) + bytearray(PADDING))

    def segments(self, ids: Ints) -> Segments:
        """Return the segments in order of appearance, split into cells, and which stands in each row, from `ids`."""
        first, rank = distinct_rows(ids)
        known = list(self._index)
        texts = [_cells(known[one].decode(), len(self.columns), self.last) for one in ids[first].tolist()]
        return Segments(self.columns, texts, rank)


def _same(strips: _Strips, others: _Strips) -> bool:
    return all((one == other).all() for (_, one), (_, other) in zip(strips, others, strict=True))


def _hashes(strips: _Strips, size: Ints) -> NDArray[np.uint64]:
    found = size.astype(np.uint64)
    for rows, words in strips:
        found[rows] = (found[rows] + np.einsum("ij,j", words ^ (words >> _HALF), _MIXERS)) * _MIX
    found ^= found >> _HALF
    return found * _MIX


def _cells(segment: str, width: int, last: bool) -> list[str]:
    """Split a segment into its cells; only the `last` one of a row may end with a carriage return."""
    rows = list(csv.reader([segment], strict=True))
    cells = rows[0] if rows and rows[0] else [""]
    if len(rows) > 1 or len(cells) != width or (segment.endswith("\r") and not last):
        raise IrregularError(f"{len(cells)} cells stand where {width} are expected")
    return cells
