"""Lay out the cells of a section as a text table, limited to a width or not, or as a Markdown table."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from tcprobe.report.blocks import ColumnHead, Section
from tcprobe.report.formatting import ending, shorten, wrapped
from tcprobe.visible import columns

GAP = "  "
LINKED: Final = re.compile(r":(?=//)|[wW]{3}(?=\.)|@(?=\w)|#(?=\d)|\b[gG][hH]-(?=\d)")
"""Where GitHub makes links of plain text: addresses, people and issues; no backslash hinders it.

Source: GitHub Flavored Markdown Spec, section 6.9; GitHub Docs, "Autolinked references and URLs".
"""
APART: Final = r"\g<0><!-- -->"
FIGURE: Final = re.compile(r"[0-9 .,%+/-]*")
"""Text without anything to escape, as most cells of a table are."""
OPENING: Final = re.compile(r" *(?:([#+=-])|(\d+)([.)]))?")
"""What makes a heading, a list, a rule or code of a line that begins with it."""
NARROWEST_SENTENCE = 28


@dataclass(frozen=True, slots=True)
class _Grid:
    """The cells of a section as text."""

    headings: tuple[ColumnHead, ...]
    cells: tuple[tuple[str, ...], ...]


def _grid(section: Section) -> _Grid:
    return _Grid(section.headings, tuple(tuple(map(str, row)) for row in section.cells))


def text_lines(section: Section, width: int | None) -> list[str]:
    """Return the lines of a table; with `width`, columns are dropped and names shortened until it fits."""
    if not section.cells:
        return []
    grid = _grid(section)
    fitted = grid if width is None else _fit(grid, width)
    widths = _widths(fitted)
    rows = (tuple(h.text for h in fitted.headings), *fitted.cells)
    return [line for row in rows for line in _lines(row, fitted.headings, widths)]


def left_out(section: Section, width: int | None) -> int:
    """Return how many columns `text_lines` drops for lack of space."""
    return (
        0 if width is None or not section.cells else len(section.headings) - len(_fit(_grid(section), width).headings)
    )


def markdown_lines(section: Section) -> list[str]:
    """Return the lines of a GitHub-flavoured Markdown table."""
    if not section.cells:
        return []
    rule = ["---:" if h.right else "---" for h in section.headings]
    heads = [escape_markdown(head.text) for head in section.headings]  # names of runs may stand there
    rows = [heads, rule, *([escape_markdown(str(c)) for c in r] for r in section.cells)]
    return [f"| {' | '.join(row)} |" for row in rows]


def escape_markdown(text: str) -> str:
    """Escape what Markdown or HTML would read as markup in a name: a link, image, code, formula, table cell, tag."""
    if FIGURE.fullmatch(text):
        return text
    escaped = html.escape(text.replace("\\", "\\\\"), quote=False)
    for character in "|*_`[]~$":
        escaped = escaped.replace(character, f"\\{character}")
    return LINKED.sub(APART, escaped)


def markdown_line(text: str) -> str:
    """Return text as Markdown that begins a line, or an item of a list, as no block but a paragraph."""
    return OPENING.sub(_paragraph, escape_markdown(text), count=1)


def _paragraph(opening: re.Match[str]) -> str:
    mark, number, point = opening.groups("")
    return f"{number}\\{mark or point}" if mark or point else ""


def _widths(grid: _Grid) -> list[int]:
    cells = zip(*grid.cells, strict=True)
    return [
        max(len(h.text), *(columns(line) for cell in column for line in cell.split("\n")))
        for h, column in zip(grid.headings, cells, strict=True)
    ]


def _lines(row: tuple[str, ...], headings: tuple[ColumnHead, ...], widths: list[int]) -> list[str]:
    """Return the lines of one row; a wrapped cell takes several, other cells are on the first."""
    layers = zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    return [_line(layer, headings, widths) for layer in layers]


def _line(cells: tuple[str, ...], headings: tuple[ColumnHead, ...], widths: list[int]) -> str:
    spaces = [" " * (w - columns(c)) for c, w in zip(cells, widths, strict=True)]
    placed = [s + c if h.right else c + s for c, h, s in zip(cells, headings, spaces, strict=True)]
    return GAP.join(placed).rstrip()


def _fit(grid: _Grid, width: int) -> _Grid:
    """Drop columns of high rank until names fit at their minimum width, then divide the space among names."""
    widths = _widths(grid)
    while _least(grid.headings, widths) > width and any(h.rank for h in grid.headings):
        out = max(range(len(grid.headings)), key=lambda i: (grid.headings[i].rank, i))
        grid, widths = _without(grid, out), widths[:out] + widths[out + 1 :]
    return _shortened(grid, widths, width)


def _least(headings: tuple[ColumnHead, ...], widths: list[int]) -> int:
    needed = [min(w, max(_enough(h), len(h.text))) if _enough(h) else w for h, w in zip(headings, widths, strict=True)]
    return sum(needed) + len(GAP) * (len(needed) - 1)


def _enough(head: ColumnHead) -> int:
    return head.least or (NARROWEST_SENTENCE if head.wraps else 0)


def _without(grid: _Grid, column: int) -> _Grid:
    return replace(
        grid,
        headings=grid.headings[:column] + grid.headings[column + 1 :],
        cells=tuple(row[:column] + row[column + 1 :] for row in grid.cells),
    )


def _shortened(grid: _Grid, widths: list[int], width: int) -> _Grid:
    elastic = [i for i, h in enumerate(grid.headings) if _enough(h)]
    room = width - sum(w for i, w in enumerate(widths) if i not in elastic) - len(GAP) * (len(widths) - 1)
    limits = dict(zip(elastic, _shared([(widths[i], _enough(grid.headings[i])) for i in elastic], room), strict=True))
    rows = (
        tuple(_cut(c, h, limits.get(i, columns(c))) for i, (c, h) in enumerate(zip(row, grid.headings, strict=True)))
        for row in grid.cells
    )
    return replace(grid, cells=tuple(rows))


def _cut(cell: str, head: ColumnHead, limit: int) -> str:
    if columns(cell) <= limit:
        return cell
    if head.wraps:
        return "\n".join(wrapped(cell, limit, long_words=True))
    return f"..{ending(cell, limit - 2)}" if head.path else shorten(cell, limit)


def _shared(wanted: list[tuple[int, int]], room: int) -> list[int]:
    """Divide `room` among columns of (wanted, least) width: each gets its least, then an equal part of the rest."""
    given = [min(want, least) for want, least in wanted]
    room -= sum(given)
    missing = [want - has for (want, _), has in zip(wanted, given, strict=True)]
    for done, i in enumerate(sorted(range(len(wanted)), key=lambda i: missing[i])):
        more = max(0, min(missing[i], room // (len(wanted) - done)))
        given[i] += more
        room -= more
    return given
