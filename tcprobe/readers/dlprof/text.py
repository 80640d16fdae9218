"""Read one file of DLProf's, in either dialect, into a `Report` or a `Summary`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, WrongFormat
from tcprobe.foreign import encoding_of, head, opened, read_text
from tcprobe.jsonfile import parse
from tcprobe.readers.dlprof.blocks import IrregularError, read_blocks
from tcprobe.readers.dlprof.layout import (
    PEEK_BYTES,
    SECTIONS,
    SUMMARY,
    Layout,
    ReportFile,
    by_header,
    by_title,
    canonical,
)
from tcprobe.readers.dlprof.report import Column, Report, Spread, unquoted
from tcprobe.readers.dlprof.summary import Summary, from_lines, from_object
from tcprobe.readers.rows import LONGEST_CELL, Texts

MOST_BYTES: Final = 4 << 30  # fifteen million launches; a summary takes some kB
MOST_JSON_BYTES: Final = 1 << 30  # read at once, into ten times the memory
CHUNK: Final = 20_000  # rows held as Python strings at a time
MOST_COLUMNS: Final = 100  # the widest report has 56; short rows of JSON are filled up to all
_DAMAGED: Final = "the file is damaged, or is no report of DLProf's"
_AGAIN: Final = "copy it again"


def read_report(found: ReportFile) -> Report | Summary:
    """Read one file.

    Raises:
        EmptyInput: it holds nothing.
        WrongFormat: it is cut off, damaged, or no report of DLProf's.
        UnreadableInput: the system refused.
    """
    path = found.path
    start = head(path, PEEK_BYTES)
    if start == b"":
        raise EmptyInput(path, "the file is empty", "DLProf may not have finished writing it")
    encoding = encoding_of(start or b"")
    try:
        if found.dialect == "csv" and found.kind != SUMMARY:
            return _read_table(path, encoding)
        text = read_text(path, MOST_JSON_BYTES if found.dialect == "json" else MOST_BYTES, encoding=encoding)
    except UnicodeError as error:
        raise WrongFormat(path, "is not text in UTF-8, as DLProf writes it", _DAMAGED) from error
    held = _of_json(path, text) if found.dialect == "json" else from_lines(path, text)
    if isinstance(held, Summary) and not len(held):
        raise EmptyInput(path, "holds a summary without a figure", "the profiler may not have finished writing it")
    return held


def _read_table(path: Path, encoding: str) -> Report:
    """Read a table: a long one of a regular build in array code, any other row by row, which finds what is wrong."""
    csv.field_size_limit(LONGEST_CELL)
    try:
        return (_regular(path) if encoding == "utf-8" else None) or _parse_table(path, encoding, strict=True)
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise WrongFormat(path, "ends inside a quoted cell: the file is cut off", _AGAIN) from error
    try:
        return _parse_table(path, encoding, strict=False)
    except csv.Error as error:
        raise WrongFormat(path, f"is no table: {error}", _DAMAGED) from error


def _regular(path: Path) -> Report | None:
    """Read a report of one row per launch whose rows are built alike; None where it is another, or they are not."""
    with opened(path, MOST_BYTES) as file:
        try:
            layout, columns = _heading(path, csv.reader((line.decode() for line in file), strict=True))
            if not layout.times or len(set(columns)) < len(columns):
                return None
            times = {columns.index(name): name in layout.needs for name in layout.times.intersection(columns)}
            found = read_blocks(file, len(columns), times)
        except (IrregularError, WrongFormat, UnicodeError, csv.Error):
            return None
    held: dict[str, Column] = {columns[at]: values for at, values in found.numbers.items()}
    for segment in found.segments:
        texts = Texts(columns[at] for at in segment.columns)
        texts.add(zip(*segment.texts, strict=True))
        held |= {name: Spread(column, segment.ids) for name, column in texts.names().items()}
    return Report(layout.kind, path, held, found.rows)


def _parse_table(path: Path, encoding: str, strict: bool) -> Report:
    with opened(path, MOST_BYTES) as held, TextIOWrapper(held, encoding=encoding, newline="") as file:
        rows = filter(_is_filled, csv.reader(file, strict=strict))
        layout, columns = _heading(path, rows)
        places = {name: place for place, name in enumerate(columns)}
        texts, at = Texts(places), 0
        while chunk := list(islice(rows, CHUNK)):
            if any(len(row) != len(columns) for row in chunk):
                chunk = [_fitted(path, at + i, row, len(columns)) for i, row in enumerate(chunk, 1)]
            cells = list(zip(*chunk, strict=True))
            texts.add(cells[place] for place in places.values())
            at += len(chunk)
    return _report(layout, path, texts, at)


def _report(layout: Layout, path: Path, texts: Texts, rows: int) -> Report:
    return Report(layout.kind, path, {name: Spread(column) for name, column in texts.names().items()}, rows)


def _is_filled(row: list[str]) -> bool:
    return any(map(str.strip, row))


def _heading(path: Path, rows: Iterator[list[str]]) -> tuple[Layout, list[str]]:
    """Return layout and columns; a file without the title line starts with its header."""
    filled = filter(_is_filled, rows)
    first, title = next(filled, []), ""
    if sum(1 for cell in first if cell.strip()) <= 1:
        title, first = "".join(first), next(filled, [])
        if not first:
            raise WrongFormat(path, "holds a title and no header line: the file is cut off", _AGAIN)
    width = max((at for at, cell in enumerate(first, 1) if cell.strip()), default=0)
    columns = [canonical(cell) for cell in first[:width]]
    return _layout(path, title, columns), columns


def _layout(path: Path, title: str, columns: Sequence[str]) -> Layout:
    if len(columns) > MOST_COLUMNS:
        raise WrongFormat(path, f"has {len(columns)} columns, where no report of DLProf has {MOST_COLUMNS}", _DAMAGED)
    layout = by_title(title) or by_header(columns)
    if layout is None:
        raise WrongFormat(path, f"no report of DLProf has the columns {', '.join(columns)[:120]}", _DAMAGED)
    if missing := sorted(layout.needs - set(columns)):
        found = f"the {layout.kind} report lacks the column{'s'[: len(missing) - 1]} {', '.join(missing)}"
        raise WrongFormat(path, found, _DAMAGED)
    if twice := sorted({name for name in columns if columns.count(name) > 1 and name in layout.needs}):
        raise WrongFormat(path, f"the {layout.kind} report has the column {twice[0]} twice", _DAMAGED)
    return layout


def _fitted(path: Path, number: int, row: list[str], width: int) -> list[str]:
    """Return the row at the header's width; only blank cells may be left over."""
    if len(row) < width:
        found = f"row {number} has {len(row)} of {width} cells: the file is cut off or damaged"
        raise WrongFormat(path, found, _AGAIN)
    if _is_filled(row[width:]):
        raise WrongFormat(path, f"row {number} has {len(row)} cells under {width} headings", _DAMAGED)
    return row[:width]


def _of_json(path: Path, text: str) -> Report | Summary:
    """Read a summary, or ``{title: [row, ...]}``; an empty list is a report without rows."""
    try:
        held = parse(text, odd=str)  # a report refuses an odd number by its column and row
    except ValueError as error:
        again = "the file is cut off or damaged; copy it again"
        raise WrongFormat(path, f"is no JSON: {str(error)[:100]}", again) from error
    if not isinstance(held, dict):
        raise WrongFormat(path, "is JSON without an object at its top", _DAMAGED)
    if any(key.strip().lower() in SECTIONS and isinstance(value, dict) for key, value in held.items()):
        return from_object(path, held)
    title, rows = next(iter(held.items()), ("", None))
    layout = by_title(title)
    if layout is None or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WrongFormat(path, f"{title[:40]!r} is no list of rows of a DLProf report", _DAMAGED)
    names = list(dict.fromkeys(name for row in rows for name in row))
    places = {canonical(name): name for name in names}
    if rows:
        _layout(path, title, [canonical(name) for name in names])
    texts = Texts(places)
    texts.add([unquoted(path, row.get(name)) for row in rows] for name in places.values() if rows)
    return _report(layout, path, texts, len(rows))
