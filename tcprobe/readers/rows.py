"""CSV tables among other text: their lines, their rows cell by cell, and their columns as texts and numbers."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.errors import WrongFormat
from tcprobe.foreign import GZIP, SQLITE, encoding_of, head, opened, size_text
from tcprobe.readers.arrays import distinct_rows
from tcprobe.schema.columns import FloatArray, IntArray, Names, Value
from tcprobe.schema.tables import NAMELESS

Lines: TypeAlias = Iterator[tuple[int, str]]
"""Lines with their numbers, from 1."""

Numbers: TypeAlias = IntArray | FloatArray

MOST: Final = 1 << 30  # of bytes; a trace of a million kernels has 250 MB, page details of 100,000 launches 570 MB
BLOCK: Final = 1 << 16  # characters that are read at once
LONGEST_ROW: Final = 1 << 22
LONGEST_CELL: Final = 1 << 24  # an XLA op lists the shapes of all its inputs in one cell
CELLS: Final = 100_000  # of rows given at once
MOST_SIZE: Final = 1 << 31  # of a grid or block
BEYOND: Final = 1e30  # no counter reaches it, nor in a base unit the largest float
TO_NS: Final = {
    **dict.fromkeys(("nsecond", "nanosecond", "nsec", "ns"), 1.0),
    **dict.fromkeys(("usecond", "microsecond", "usec", "us", "µs", "μs"), 1e3),
    **dict.fromkeys(("msecond", "millisecond", "msec", "ms"), 1e6),
    **dict.fromkeys(("second", "sec", "s"), 1e9),
    **dict.fromkeys(("minute", "min"), 60e9),
    **dict.fromkeys(("hour", "h"), 3600e9),
}
"""Units of time by all that Nsight's tools call them, in ns."""
_PEEK: Final = 1 << 12  # bytes after which a file without a byte 0 is taken for a text
_WHOLE: Final = re.compile(r"\d{1,10}", re.ASCII)


def start_of(path: Path, size: int) -> str:
    """Return the text at the beginning of a file, from `size` bytes; nothing where it cannot be read or is no text."""
    start = head(path, size) or b""
    if start.startswith(SQLITE):  # megabytes of a database are not decoded
        return ""
    if start.startswith(GZIP):
        try:
            start = gzip.GzipFile(fileobj=io.BytesIO(start)).read1(size)
        except (OSError, EOFError, zlib.error):
            return ""
    encoding = encoding_of(start)
    if encoding.startswith("utf-8") and b"\0" in start[:_PEEK]:  # nor are a protobuf's
        return ""
    return start.decode(encoding, errors="replace").lstrip("\ufeff")


@contextmanager
def lines_of(path: Path, again: str) -> Iterator[Lines]:
    """Open a text, plain or gzip, and give its lines; none is longer than `LONGEST_ROW`, all together than `MOST`.

    Args:
        path: the file.
        again: what to do where it is damaged.

    Raises:
        InputError: the file cannot be read, or is no text.
    """
    try:
        with opened(path, MOST) as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            content = gzip.GzipFile(fileobj=file) if packed else file
            encoding = encoding_of(content.read(4))
            content.seek(0)
            csv.field_size_limit(LONGEST_CELL)
            yield _counted(path, io.TextIOWrapper(content, encoding, "replace"), again)
    except (UnicodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise WrongFormat(path, f"is damaged or no text: {error}", again) from None


def _counted(path: Path, file: io.TextIOWrapper, again: str) -> Lines:
    number, size, rest = 1, 0, ""
    for block in iter(partial(file.read, BLOCK), ""):
        size += len(block)
        if size > MOST:
            raise WrongFormat(path, f"unpacks to more than {size_text(MOST)}", f"record less, and {again}")
        *lines, rest = (rest + block).split("\n")
        if len(rest) > LONGEST_ROW:
            lines, rest = [*lines, rest], ""
        yield from enumerate([line + "\n" for line in lines], number)
        number += len(lines)
    if rest:
        yield number, rest


class Header(Struct, frozen=True, kw_only=True):
    """The columns of a table, as named."""

    names: tuple[str, ...]
    row: re.Pattern[str]  # how the lines begin that are its rows
    separator: str = ","

    @property
    def cells(self) -> range:
        """How many cells a row has."""
        return range(len(self.names), len(self.names) + 1)


_Header = TypeVar("_Header", bound=Header)


def tables_in(
    path: Path, header_of: Callable[[str], _Header | None], ends: Callable[[str], bool], again: str
) -> Iterator[tuple[_Header, list[int], list[str]]]:
    """Yield the tables in a text, some rows at a time: their header, the lines where the rows begin, and their text.

    Args:
        path: the file.
        header_of: returns the header in a line, None where there is none.
        ends: takes the lines that are neither header nor row; returns whether no row of the table follows one.
        again: what to do where the file is damaged.

    Raises:
        InputError: the file cannot be read, is no text, or a quoted cell has no end.
    """
    header, numbers, rows = None, list[int](), list[str]()
    with lines_of(path, again) as lines:
        for number, line in lines:
            if header and header.row.match(line):
                numbers.append(number)
                rows.append(_closed(path, line, number, lines, again) if line.count('"') % 2 else line)
                if len(rows) * len(header.names) > CELLS:
                    yield header, numbers, rows
                    numbers, rows = [], []
            elif (found := header_of(line)) or ends(line):
                if header:
                    yield header, numbers, rows
                header, numbers, rows = found, [], []
    if header:
        yield header, numbers, rows


def _closed(path: Path, row: str, number: int, more: Lines, again: str) -> str:
    """Return the text of the row that begins in a line and has a quote left open: a cell may hold line ends."""
    for _, line in more:
        row += line
        if line.count('"') % 2:
            return row
        if len(row) > LONGEST_ROW:
            raise WrongFormat(path, f"a quoted cell of line {number} has no end", again)
    raise WrongFormat(path, f"ends within a quoted cell of the row that begins in line {number}", again)


def cells_of(path: Path, header: Header, lines: Sequence[int], rows: Sequence[str], again: str) -> list[list[str]]:
    """Return the cells of rows of a table, given as `tables_in` does.

    Raises:
        WrongFormat: a row has more or fewer cells than its header, or is none.
    """
    reader = csv.reader(rows, delimiter=header.separator)
    try:
        found = list(reader)
    except csv.Error as error:
        why = str(error).partition(" - ")[0]  # behind it stands advice to programmers
        line = lines[reader.line_num - 1]
        raise WrongFormat(path, f"line {line} is no row of a CSV table: {why}", again) from None
    if len(found) < len(rows):  # a quote within a cell joined two rows
        found = [next(csv.reader((row,), delimiter=header.separator), []) for row in rows]
    cells, lengths = header.cells, list(map(len, found))
    if wrong := set(lengths).difference(cells):
        at = next(at for at, length in enumerate(lengths) if length in wrong)
        said = f"the row in line {lines[at]} has {lengths[at]} cells where its header has {cells[-1]}"
        raise WrongFormat(path, said, f"the file is damaged or cut off: {again}")
    return found


_Key = TypeVar("_Key", bound=Hashable)


class Codes(dict[_Key, int]):
    """Numbers what it is asked for in order of appearance."""

    def __missing__(self, key: _Key) -> int:
        self[key] = code = len(self)
        return code


class Texts:
    """Columns of texts, collected some rows at a time; each distinct text is kept once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._columns: dict[str, tuple[Codes[str], list[NDArray[np.int32]]]] = {name: (Codes(), []) for name in names}

    def add(self, columns: Iterable[Sequence[str]]) -> None:
        """Append rows, given as the texts of each column."""
        for (codes, ids), texts in zip(self._columns.values(), columns, strict=False):
            if texts.count(texts[0]) == len(texts):  # as in most columns of a report
                ids.append(np.full(len(texts), codes[texts[0]], np.int32))
            else:
                ids.append(np.fromiter(map(codes.__getitem__, texts), np.int32, len(texts)))

    def names(self) -> dict[str, Names]:
        """Return the columns; of each text the blanks around it are left out, and blank ones are NA."""
        columns = {}
        for name, (codes, ids) in self._columns.items():
            rows = np.concatenate([np.zeros(0, np.int32), *ids])
            found = Names(rows, [text.strip() for text in codes])
            is_clean = "" not in codes and found.names == list(codes)
            columns[name] = found if is_clean else found.map(lambda text: text or None)
        return columns


def number_of(text: str) -> float:
    """Return the number that a text is; NaN where it is none, or is none that was counted."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if abs(value) < BEYOND and text.isascii() and "_" not in text else math.nan


def named_kernels(names: Names) -> Names:
    """Return names of kernels, of which none is NA."""
    return Names(np.where(names.ids < 0, len(names.names), names.ids), [*names.names, NAMELESS])


def summed(
    group: IntArray, count: int, spent: Numbers, *, calls: Numbers | None = None, each: Sequence[Numbers] = ()
) -> dict[str, FloatArray]:
    """Return the calls and times of each of `count` kernels as columns of `kernels`; NaN where one of them is.

    Args:
        group: kernel of each row.
        count: number of kernels.
        spent: time of each row, in ns.
        calls: launches of each row; None: one.
        each: shortest and longest time of a launch of each row; empty: it is `spent`.
    """
    spent = spent.astype(np.float64)  # of the type of what they go to, numpy is ten times as fast
    shortest, longest = each or (spent, spent)
    least, most = np.full(count, np.inf), np.full(count, -np.inf)
    with np.errstate(invalid="ignore"):
        np.minimum.at(least, group, shortest)
        np.maximum.at(most, group, longest)
    total = np.bincount(group, weights=spent, minlength=count)
    return {"calls": np.bincount(group, calls, count), "sum_ns": total, "min_ns": least, "max_ns": most}


def costliest(group: IntArray, count: int, cost: Numbers) -> IntArray:
    """Return of each of `count` groups the row of the highest cost, of several the last."""
    most, cost = np.full(count, -np.inf), cost.astype(np.float64)
    np.maximum.at(most, group, cost)
    found = np.zeros(count, np.int64)
    at = np.flatnonzero(cost == most[group])
    found[group[at]] = at
    return found


def triples_of(texts: Names) -> Names:
    """Return sizes such as ``(900, 1, 1)`` or ``900    1    1`` as x,y,z; NA where they are none."""
    return texts.map(lambda text: ",".join(three) if len(three := _WHOLE.findall(text)) == 3 else None)


def rows_as_text(columns: Sequence[Numbers], between: str) -> Names:
    """Join whole numbers row by row; NA where one is missing."""
    numbers = np.nan_to_num(np.stack(columns, axis=1), nan=-1.0)
    whole = np.where((numbers >= 0) & (numbers < MOST_SIZE) & (numbers == np.floor(numbers)), numbers, -1).astype(int)
    first, which = distinct_rows(*whole.T)
    texts = [between.join(map(str, row)) if min(row) >= 0 else None for row in whole[first].tolist()]
    return Names.of(texts).take(which)


OTHERS: Final = ("AMD", "Intel")
"""Vendors whose GPUs' names begin with theirs."""


def tensor_cores_of(vendor: str | None) -> str:
    """Return whether a GPU of a vendor has Tensor Cores, as far as that tells: ``no`` for all but Nvidia's."""
    return "unknown" if vendor is None or vendor.lower() == "nvidia" else "no"


def gpu_row(device: int, name: str | None, *, ran: bool) -> dict[str, Value]:
    """Return the row of `devices` of a GPU, of Nvidia's unless its name is another's; `ran`: whether it ran kernels."""
    vendor = next((other for other in OTHERS if (name or "").startswith(other)), "Nvidia")
    return {
        "device": device,
        "name": name or None,
        "name_basis": "reported" if name else None,
        "vendor": vendor,
        "tensor_cores": tensor_cores_of(vendor),
        "state": "active" if ran else "idle",
    }
