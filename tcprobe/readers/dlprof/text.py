"""Read one file of DLProf's, in either dialect, into a `Report` or a `Summary`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, Final

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
from tcprobe.readers.dlprof.report import Column, Report, Spread
from tcprobe.readers.dlprof.summary import Summary, from_lines, from_object
from tcprobe.readers.rows import LONGEST_CELL, Texts

MOST_BYTES: Final = 4 << 30  # fifteen million launches; a summary takes some kB
MOST_JSON_BYTES: Final = 1 << 30  # read at once, into ten times the memory
CHUNK: Final = 20_000  # rows held as Python strings at a time
MOST_COLUMNS: Final = 100  # the widest report has 56; short rows of JSON are filled up to all
_DAMAGED: Final = "the file is damaged, or is no report of DLProf's"


def read_report(found: ReportFile) -> Report | Summary:
    """Read one file.

    Raises:
        EmptyInput: it holds nothing.
        WrongFormat: it is cut off, damaged, or no report of DLProf's.
        UnreadableInput: the system refused.
    """
    try:
        if head(found.path, 1) == b"":
            raise EmptyInput(found.path, "the file is empty", "DLProf may not have finished writing it")
        if found.dialect == "json":
            return _read_json(found.path)
        return _read_summary(found.path) if found.kind == SUMMARY else _read_table(found.path)
    except UnicodeError as error:
        raise WrongFormat(found.path, "is not text in UTF-8, as DLProf writes it", _DAMAGED) from error


def _encoding(path: Path) -> str:
    return encoding_of(head(path, PEEK_BYTES) or b"")


def _read_summary(path: Path) -> Summary:
    text = read_text(path, MOST_BYTES, encoding=_encoding(path))
    summary = from_lines(path, text.splitlines(), ended=text.endswith("\n"))
    return summary if len(summary) else _nothing(path, "a summary without a figure")


def _nothing(path: Path, what: str) -> Summary:
    raise EmptyInput(path, f"holds {what}", "the profiler may not have finished writing it")


def _read_table(path: Path) -> Report:
    """Read a table: a long one of a regular build in array code, any other row by row, which finds what is wrong."""
    csv.field_size_limit(LONGEST_CELL)
    try:
        if found := _regular(path):
            return found
        return _parse_table(path, strict=True)
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise WrongFormat(path, "ends inside a quoted cell: the file is cut off", "copy it again") from error
    try:
        return _parse_table(path, strict=False)
    except csv.Error as error:
        raise WrongFormat(path, f"is no table: {error}", _DAMAGED) from error


def _regular(path: Path) -> Report | None:
    """Read a report of one row per launch whose rows are built alike; None where it is another, or they are not."""
    with opened(path, MOST_BYTES) as file:
        if encoding_of(file.read(PEEK_BYTES)) != "utf-8":
            return None
        file.seek(0)
        try:
            rows = csv.reader((line.decode() for line in file), strict=True)
            title, header = _heading(path, (row for row in rows if any(map(str.strip, row))))
            columns = [canonical(cell) for cell in header]
            layout = _layout(path, title, columns)
            if not layout.times or len(set(columns)) < len(columns):
                return None
            times = {columns.index(name): name in layout.needs for name in layout.times.intersection(columns)}
            found = read_blocks(file, len(columns), times)
        except (IrregularError, WrongFormat, UnicodeError, csv.Error):
            return None
    held: dict[str, Column] = {columns[at]: values for at, values in found.numbers.items()}
    for segment in found.segments:
        distinct = Texts(columns[at] for at in segment.columns)
        distinct.add(zip(*segment.texts, strict=True))
        held |= {name: Spread(texts, segment.ids) for name, texts in distinct.names().items()}
    return Report(layout.kind, path, held, found.rows)


def _parse_table(path: Path, strict: bool) -> Report:
    with opened(path, MOST_BYTES) as held, TextIOWrapper(held, encoding=_encoding(path), newline="") as file:
        rows = (row for row in csv.reader(file, strict=strict) if any(map(str.strip, row)))
        title, header = _heading(path, rows)
        columns = [canonical(cell) for cell in header]
        layout = _layout(path, title, columns)
        places = {name: place for place, name in enumerate(columns)}
        texts, at = Texts(places), 0
        while chunk := list(islice(rows, CHUNK)):
            if any(len(row) != len(columns) for row in chunk):
                chunk = [_fitted(path, at + i, row, len(columns)) for i, row in enumerate(chunk, 1)]
            cells = list(zip(*chunk, strict=True))
            texts.add(cells[place] for place in places.values())
            at += len(chunk)
    return Report(layout.kind, path, {**texts.names()}, at)


def _heading(path: Path, rows: Iterator[list[str]]) -> tuple[str, list[str]]:
    """Return title and header; a file without the title line starts with its header."""
    first = next(rows, [])
    if sum(1 for cell in first if cell.strip()) > 1:
        return "", _trimmed(first)
    header = next(rows, None)
    if header is None:
        raise WrongFormat(path, "holds a title and no header line: the file is cut off", "copy it again")
    return "".join(first), _trimmed(header)


def _trimmed(cells: list[str]) -> list[str]:
    width = max((at for at, cell in enumerate(cells, 1) if cell.strip()), default=0)
    return [cell.lstrip("\ufeff") for cell in cells[:width]]


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
        raise WrongFormat(path, found, "copy it again")
    if any(cell.strip() for cell in row[width:]):
        raise WrongFormat(path, f"row {number} has {len(row)} cells under {width} headings", _DAMAGED)
    return row[:width]


def _read_json(path: Path) -> Report | Summary:
    try:
        # A report refuses an odd number by its column and row.
        held = parse(read_text(path, MOST_JSON_BYTES, encoding=_encoding(path)), odd=str)
    except UnicodeError:
        raise
    except ValueError as error:
        raise WrongFormat(
            path, f"is no JSON: {str(error)[:100]}", "the file is cut off or damaged; copy it again"
        ) from error
    if not isinstance(held, dict):
        raise WrongFormat(path, "is JSON without an object at its top", _DAMAGED)
    if any(key.strip().lower() in SECTIONS and isinstance(value, dict) for key, value in held.items()):
        summary = from_object(path, held)
        return summary if len(summary) else _nothing(path, "a summary without a figure")
    return _json_table(path, held)


def _json_table(path: Path, held: dict[str, Any]) -> Report:
    """Read ``{title: [row, ...]}``; an empty list is a report without rows."""
    title, rows = next(iter(held.items()), ("", None))
    layout = by_title(title)
    if layout is None or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise WrongFormat(path, f"{title[:40]!r} is no list of rows of a DLProf report", _DAMAGED)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [canonical(name) for name in names]
    if rows:
        _layout(path, title, columns)
    places = {canonical(name): name for name in names}
    texts = Texts(places)
    texts.add([_cell(path, row.get(name)) for row in rows] for name in places.values() if rows)
    return Report(layout.kind, path, {**texts.names()}, len(rows))


def _cell(path: Path, value: Any) -> str:
    """Return a JSON value as text; DLProf leaves the CSV's quotes inside its strings."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        return value[1:-1] if quoted else value
    if isinstance(value, int | float):
        return repr(value)
    raise WrongFormat(path, f"a cell holds {type(value).__name__}, where text or a number was expected", _DAMAGED)
