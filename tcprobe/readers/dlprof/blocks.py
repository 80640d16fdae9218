"""Read a long CSV table block by block in array code, where all its rows are built alike.

A long report repeats itself: between the columns of times, which differ from row to row, stand runs of cells that
many rows share. Each distinct run is parsed once, by the same `csv` that reads any other table, and the times are
parsed as arrays of digits. Whatever is built otherwise is not read here.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import PADDING, Bytes, Ints
from tcprobe.schema.columns import FloatArray, IntArray

BLOCK: Final = 1 << 22  # bytes read at once: what is derived from them stays in the processor's cache
LONGEST_ROW: Final = 64 << 20
MOST_DIGITS: Final = 15  # whole numbers below 2**53
STRIP: Final = PADDING  # bytes that are compared at once
SLOT_BITS: Final = 18  # of the table of hashes
MOST_RUNS: Final = 1 << 17

_COMMA, _NEWLINE, _QUOTE = b',\n"'
_MIX: Final = np.uint64(0x9E37_79B9_7F4A_7C15)  # odd, its bits without a pattern
_ALL: Final = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_MIXERS: Final = _MIX * (2 * np.arange(1, STRIP // 8 + 1, dtype=np.uint64) + np.uint64(1))
_NOTHING, _EIGHT, _HALF, _WORD = (np.uint64(number) for number in (0, 8, 29, 64))
_PLACES: Final = np.arange(STRIP)
_TO_SLOT: Final = np.uint64(64 - SLOT_BITS)
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


@dataclass(frozen=True, slots=True)
class Runs:
    """The cells of some neighbouring columns: `texts` are the distinct rows of them, `ids` says which stands where."""

    columns: tuple[int, ...]
    texts: list[list[str]]
    ids: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A table as read: whole numbers by column, NaN where a cell is blank, and the runs of cells between them."""

    rows: int
    numbers: dict[int, IntArray | FloatArray]
    runs: list[Runs]


def read_blocks(file: BinaryIO, width: int, numbers: Collection[int], needed: Collection[int]) -> Blocks:
    """Read the rows of a table to the end of the file.

    Args:
        file: UTF-8, at the beginning of a row.
        width: cells of each row.
        numbers: columns that hold plain whole numbers, or nothing; at least one.
        needed: those of them that always hold one.

    Raises:
        IrregularError: a row has another number of cells, a cell of `numbers` holds anything else, or most runs differ.
        csv.Error: a cell is quoted in another way.
        UnicodeDecodeError: a cell is not UTF-8.
    """
    spans = groupby(range(width), key=lambda column: column in numbers)
    runs = [_Finder(tuple(columns)) for is_number, columns in spans if not is_number]
    found: dict[int, list[Ints]] = {column: [] for column in numbers}
    rows = 0
    for block in _blocks(file, width):
        rows += len(block)
        for column, parts in found.items():
            parts.append(block.whole(column, column in needed))
        for run in runs:
            run.add(block)
    return Blocks(rows, {c: _number(parts) for c, parts in found.items()}, [run.result() for run in runs])


def _number(parts: Sequence[Ints]) -> IntArray | FloatArray:
    """Return a column of all blocks, NaN for the blank cells, which `_Block.whole` marks by -1."""
    values = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    blank = values < 0
    return np.where(blank, np.nan, values) if blank.any() else values


def _blocks(file: BinaryIO, width: int) -> Iterator[_Block]:
    rest = b""
    while more := file.read(BLOCK):
        block = _Block(rest + more, width)
        rest = block.rest
        yield block
    if rest:  # a last row without a line end
        block = _Block(rest + b"\n", width)
        if block.rest:
            raise IrregularError("the last row is cut off")
        yield block


class _Block:
    """The whole rows at the beginning of some bytes, and `rest`, the bytes after them."""

    __slots__ = ("bytes", "ends", "rest", "starts")

    def __init__(self, data: bytes, width: int) -> None:
        self.bytes = Bytes(bytearray(PADDING) + data + bytearray(PADDING))
        ends = _separators(self.bytes.u8)
        rows = len(ends) // width
        ends = ends[: rows * width]
        kind = self.bytes.u8[ends].reshape(rows, width)
        if not ((kind[:, :-1] == _COMMA).all() and (kind[:, -1] == _NEWLINE).all()):
            raise IrregularError(f"a row has more or fewer than {width} cells")
        self.rest = data[int(ends[-1]) + 1 - PADDING :] if rows else data
        if len(self.rest) > LONGEST_ROW:
            raise IrregularError(f"a row has more than {LONGEST_ROW} bytes")
        self.starts = np.append(np.int64(PADDING), ends[:-1] + 1)[: len(ends)].reshape(rows, width)
        self.ends = ends.reshape(rows, width)

    def __len__(self) -> int:
        return len(self.ends)

    def whole(self, column: int, needed: bool) -> Ints:
        """Return the whole numbers of a column, -1 where the cell is blank."""
        end = self.ends[:, column]
        size = end - self.starts[:, column]
        longest, shortest = (int(size.max()), int(size.min())) if len(size) else (0, 1)
        if longest > MOST_DIGITS or (needed and not shortest):
            raise IrregularError(f"column {column} holds something else than a number")
        value: NDArray[np.uint64] = self._digits(end, np.minimum(size, 8))
        if longest > 8:
            value += self._digits(end - 8, np.maximum(size - 8, 0)) * np.uint64(10**8)
        number = value.astype(np.int64)
        number[size == 0] = -1
        return number

    def _digits(self, end: Ints, size: Ints) -> NDArray[np.uint64]:
        """Return the numbers of `size` digits, eight at most, that end before `end`."""
        before = (_WORD - _EIGHT * size.view(np.uint64)) % _WORD  # bits of the word that come before the digits
        keep = np.where(size > 0, _ALL << before, _NOTHING)
        word = (self.bytes.word(end - 8) & keep) | (_ZEROS & ~keep)
        if not (((word & _HIGH_HALVES) == _ZEROS) & (((word + _PAST_NINE) & _HIGH_HALVES) == _ZEROS)).all():
            raise IrregularError("a number holds something else than digits")
        for bits, factor, shift in _FOLDS:
            word = ((word & bits) * factor) >> shift
        return word


def _separators(u8: NDArray[np.uint8]) -> Ints:
    """Return where the commas and line ends outside quotes are."""
    quote = u8 == _QUOTE
    marks = u8 == _COMMA
    marks |= u8 == _NEWLINE
    if not quote.any():
        return np.flatnonzero(marks)
    marks |= quote
    at = np.flatnonzero(marks)
    quote = quote[at]
    return at[~(quote | np.logical_xor.accumulate(quote))]


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
    """Finds the distinct runs of cells of some neighbouring columns.

    A run is looked up by a hash of its bytes and then compared with the one found, so that no two are mixed up.
    """

    def __init__(self, columns: tuple[int, ...]) -> None:
        self.columns = columns
        self._ids: list[NDArray[np.int32]] = []
        self._index: dict[bytes, int] = {}
        self._known = Bytes(bytearray(PADDING))
        self._starts = self._sizes = np.zeros(0, np.int64)
        self._hashes = np.zeros(1 << SLOT_BITS, np.uint64)
        self._by_slot = np.full(1 << SLOT_BITS, -1, np.int32)

    def add(self, block: _Block) -> None:
        """Look up the runs of a block."""
        start = block.starts[:, self.columns[0]]
        size = block.ends[:, self.columns[-1]] - start
        strips = _strips(block.bytes, start, size)
        hashes = _hashes(strips, size)
        slot = (hashes >> _TO_SLOT).view(np.int64)
        found = np.where(self._hashes[slot] == hashes, self._by_slot[slot], -1)
        if len(new := np.flatnonzero(found < 0)):
            found[new] = self._added(block.bytes, start[new], size[new], hashes[new])
        self._compare(strips, size, found)
        self._ids.append(found)

    def _added(self, data: Bytes, start: Ints, size: Ints, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the ids of runs whose hashes the table lacks; new ones are numbered in order of appearance."""
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        ids, before = np.zeros(len(first), np.int32), len(self._index)
        for one in np.argsort(first).tolist():
            at = int(start[first[one]])
            run = bytes(data.data[at : at + int(size[first[one]])])
            ids[one] = self._index.setdefault(run, len(self._index))
        self._keep(list(self._index)[before:])
        slot = (distinct >> _TO_SLOT).view(np.int64)
        self._hashes[slot], self._by_slot[slot] = distinct, ids
        return ids[inverse.ravel()]

    def _keep(self, runs: list[bytes]) -> None:
        """Keep the bytes of new runs, to compare with."""
        if len(self._index) > MOST_RUNS:
            raise IrregularError(f"there are more than {MOST_RUNS} distinct runs of cells")
        sizes = np.array([len(run) for run in runs], np.int64)
        begin = self._known.size
        self._starts = np.append(self._starts, begin + np.cumsum(sizes) - sizes)
        self._sizes = np.append(self._sizes, sizes)
        self._known = Bytes(self._known.data[:begin] + b"".join(runs) + bytearray(PADDING))

    def _compare(self, strips: _Strips, size: Ints, found: NDArray[np.int32]) -> None:
        """Make sure that each run is, byte by byte, the one that it was found to be."""
        same = bool((self._sizes[found] == size).all())
        known = _strips(self._known, self._starts[found], size) if same else []
        if not same or not all((one == other).all() for (_, one), (_, other) in zip(strips, known, strict=True)):
            raise IrregularError("two runs of cells share a hash")

    def result(self) -> Runs:
        """Return the runs of all rows, the distinct ones split into cells."""
        texts = [_cells(run.decode(), len(self.columns)) for run in self._index]
        return Runs(self.columns, texts, np.concatenate(self._ids) if self._ids else np.zeros(0, np.int32))


def _hashes(strips: _Strips, size: Ints) -> NDArray[np.uint64]:
    found = size.astype(np.uint64)
    for rows, words in strips:
        found[rows] = (found[rows] + ((words ^ (words >> _HALF)) * _MIXERS).sum(axis=1)) * _MIX
    found ^= found >> _HALF
    return found * _MIX


def _cells(run: str, width: int) -> list[str]:
    """Split a run into its cells."""
    rows = list(csv.reader([run], strict=True))
    cells = rows[0] if rows and rows[0] else [""]
    if len(rows) > 1 or len(cells) != width:
        raise IrregularError(f"{len(cells)} cells stand where {width} are expected")
    return cells
