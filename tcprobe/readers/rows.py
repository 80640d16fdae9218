"""CSV tables among other text: their rows whole and with their lines, their columns as texts and numbers by pandas."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tcprobe.errors import WrongFormat
from tcprobe.foreign import SQLITE, encoding_of, head, opened, size_text
from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.limits import NAMELESS
from tcprobe.schema.columns import FloatArray, Names

if TYPE_CHECKING:
    import pandas as pd

Lines: TypeAlias = Iterator[tuple[int, str]]
"""Lines with their numbers, from 1."""

MOST: Final = 1 << 30  # of bytes; a trace of a million kernels has 250 MB, page details of 100,000 launches 570 MB
LONGEST_ROW: Final = 1 << 22
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
_GZIP: Final = b"\x1f\x8b"
_WHOLE: Final = re.compile(r"\d{1,10}", re.ASCII)


def start_of(path: Path, size: int) -> str:
    """Return the text at the beginning of a file, from `size` bytes; nothing where it cannot be read or is no text."""
    start = head(path, size) or b""
    if start.startswith(SQLITE):  # megabytes of a database are not decoded
        return ""
    if start.startswith(_GZIP):
        try:
            start = gzip.GzipFile(fileobj=io.BytesIO(start)).read1(size)
        except (OSError, EOFError, zlib.error):
            return ""
    return start.decode(encoding_of(start), errors="replace").lstrip("\ufeff")


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
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            content = gzip.GzipFile(fileobj=file) if packed else file
            encoding = encoding_of(content.read(4))
            content.seek(0)
            yield _counted(path, io.TextIOWrapper(content, encoding, "replace"), again)
    except (UnicodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise WrongFormat(path, f"is damaged or no text: {error}", again) from None


def _counted(path: Path, file: io.TextIOWrapper, again: str) -> Lines:
    size = 0
    for number, line in enumerate(iter(partial(file.readline, LONGEST_ROW), ""), 1):
        size += len(line)
        if size > MOST:
            raise WrongFormat(path, f"unpacks to more than {size_text(MOST)}", f"record less, and {again}")
        yield number, line


def whole_row(path: Path, line: str, number: int, more: Lines, cells: range, again: str, separator: str = ",") -> str:
    """Return a row without its line end: a quoted cell may hold line ends.

    Args:
        path: the file.
        line, number: where the row begins.
        more: the lines behind it.
        cells: how many it may have.
        again: what to do where it is damaged.
        separator: between cells.

    Raises:
        WrongFormat: it has more or fewer cells, or a quote is left open.
    """
    quotes = line.count('"')
    if quotes % 2:
        line = _closed(path, line, number, more, again)
    row = line.rstrip("\r\n")
    if row[:1] == '"':  # of most rows all cells are quoted, or the last one at most
        count = row.count(f'"{separator}"') + 1
    elif quotes and (quotes > 2 or row[-1] != '"'):
        count = 0
    else:
        count = row.count(separator, 0, row.find('"') if quotes else None) + 1
    if count != cells[-1]:
        try:
            count = len(next(csv.reader([row], delimiter=separator)))
        except (csv.Error, StopIteration) as error:
            why = str(error).partition(" - ")[0]  # behind it stands advice to programmers
            raise WrongFormat(path, f"line {number} is no row of a CSV table: {why}", again) from None
        if count not in cells:
            found = f"the row in line {number} has {count} cells where its header has {cells[-1]}"
            raise WrongFormat(path, found, f"the file is damaged or cut off: {again}")
    return row


def _closed(path: Path, row: str, number: int, more: Lines, again: str) -> str:
    for _, line in more:
        row += line
        if line.count('"') % 2:
            return row
        if len(row) > LONGEST_ROW:
            raise WrongFormat(path, f"a quoted cell of line {number} has no end", again)
    raise WrongFormat(path, f"ends within a quoted cell of the row that begins in line {number}", again)


def columns_of(
    path: Path, rows: Sequence[str], header: Sequence[str], wanted: Sequence[str], separator: str = ","
) -> dict[str, pd.Series[str]]:
    """Return columns of rows as texts; of two with one name the first.

    Args:
        path: the file, for the error.
        rows: lines without their ends; a quoted cell may hold line ends.
        header: name of each cell.
        wanted: names of the columns to return, each in `header`; a cell that a short row lacks is blank.
        separator: between cells.

    Raises:
        WrongFormat: a quote is left open. More cells than the header has are passed over.
    """
    import pandas as pd

    at = {header.index(name): name for name in wanted}
    text, width = io.BytesIO("\n".join(rows).encode()), range(len(header))
    try:
        found = pd.read_csv(text, sep=separator, header=None, names=width, usecols=list(at), dtype=str, na_filter=False)
    except (ValueError, pd.errors.ParserError) as error:
        raise WrongFormat(path, f"is no CSV table: {error}", "export it again") from None
    return {name: found[position].fillna("") for position, name in at.items()}


def numbers_of(texts: pd.Series[str]) -> FloatArray:
    """Return texts as numbers; NaN where one is none, or is none that was counted."""
    import pandas as pd

    values = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64, copy=True)
    values[~(np.abs(values) < BEYOND)] = np.nan
    return values


def names_of(texts: pd.Series[str]) -> Names:
    """Return texts by id; blank ones NA."""
    import pandas as pd

    codes, distinct = pd.factorize(texts)
    again = Names.of([text.strip() or None for text in distinct])
    return again.take(codes)


def named_kernels(names: Names) -> Names:
    """Return names of kernels, of which none is NA."""
    return Names(np.where(names.ids < 0, len(names.names), names.ids), [*names.names, NAMELESS])


def triples_of(texts: Names) -> Names:
    """Return sizes such as ``(900, 1, 1)`` or ``900    1    1`` as x,y,z; NA where they are none."""
    sizes = [_WHOLE.findall(text) for text in (*texts.names, "")]
    return Names.of([",".join(three) if len(three) == 3 else None for three in sizes]).take(texts.ids)


def rows_as_text(columns: Sequence[FloatArray], between: str) -> Names:
    """Join whole numbers row by row; NA where one is missing."""
    numbers = np.nan_to_num(np.stack(columns, axis=1), nan=-1.0)
    whole = np.where((numbers >= 0) & (numbers < MOST_SIZE) & (numbers == np.floor(numbers)), numbers, -1).astype(int)
    first, which = distinct_rows(*whole.T)
    texts = [between.join(map(str, row)) if min(row) >= 0 else None for row in whole[first].tolist()]
    return Names.of(texts).take(which)
