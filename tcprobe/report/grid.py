"""Tables as text: sections of cells, laid out for a terminal of given width or without limit, or as Markdown."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from itertools import zip_longest

from tcprobe.report.formatting import shorten

GAP = "  "
NARROWEST_SENTENCE = 28


@dataclass(frozen=True, slots=True)
class Head:
    """One column as shown.

    Attributes:
        text: heading.
        right: numbers stand right.
        rank: 0 is always shown; on a narrow terminal the highest rank goes first.
        least: characters that are enough of a name, which a narrow terminal may show shortened in its middle;
            0 for what is never shortened, as numbers.
        wraps: a sentence, which a narrow terminal shows on several lines.
        path: file:line, which is shortened at its start.
    """

    text: str
    right: bool = False
    rank: int = 0
    least: int = 0
    wraps: bool = False
    path: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """One table as shown, with its title and what to say below it; `cells` has one row per table row."""

    title: str
    heads: tuple[Head, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


def text_lines(section: Section, width: int | None) -> list[str]:
    """Return the lines of a table; with `width`, columns are left out and names shortened until it fits."""
    if not section.cells:
        return []
    fitted = section if width is None else _fit(section, width)
    widths = _widths(fitted)
    rows = (tuple(h.text for h in fitted.heads), *fitted.cells)
    return [line for row in rows for line in _lines(row, fitted.heads, widths)]


def left_out(section: Section, width: int | None) -> int:
    """Return how many columns `text_lines` leaves out for want of room."""
    return 0 if width is None or not section.cells else len(section.heads) - len(_fit(section, width).heads)


def markdown_lines(section: Section) -> list[str]:
    """Return the lines of a GitHub-flavoured Markdown table."""
    if not section.cells:
        return []
    rule = ["---:" if h.right else "---" for h in section.heads]
    rows = [[h.text for h in section.heads], rule, *([escape_markdown(c) for c in r] for r in section.cells)]
    return [f"| {' | '.join(row)} |" for row in rows]


def escape_markdown(text: str) -> str:
    """Escape what Markdown or HTML would take for markup in a name."""
    escaped = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "|*_`[]~":
        escaped = escaped.replace(character, f"\\{character}")
    return escaped


def _widths(section: Section) -> list[int]:
    columns = zip(*section.cells, strict=True)
    return [
        max(len(h.text), *(len(line) for cell in column for line in cell.split("\n")))
        for h, column in zip(section.heads, columns, strict=True)
    ]


def _lines(row: tuple[str, ...], heads: tuple[Head, ...], widths: list[int]) -> list[str]:
    """Return the lines of one row; a cell that was wrapped holds several, the others stand on the first."""
    layers = zip_longest(*(cell.split("\n") for cell in row), fillvalue="")
    return [_line(layer, heads, widths) for layer in layers]


def _line(cells: tuple[str, ...], heads: tuple[Head, ...], widths: list[int]) -> str:
    placed = [c.rjust(w) if h.right else c.ljust(w) for c, h, w in zip(cells, heads, widths, strict=True)]
    return GAP.join(placed).rstrip()


def _fit(section: Section, width: int) -> Section:
    """Leave out columns of high rank until names at their least fit, then share the room among names."""
    while _least(section) > width and any(h.rank for h in section.heads):
        out = max(range(len(section.heads)), key=lambda i: (section.heads[i].rank, i))
        section = _without(section, out)
    return _shortened(section, width)


def _least(section: Section) -> int:
    needed = [
        min(w, max(_enough(h), len(h.text))) if _enough(h) else w
        for h, w in zip(section.heads, _widths(section), strict=True)
    ]
    return sum(needed) + len(GAP) * (len(needed) - 1)


def _enough(head: Head) -> int:
    return NARROWEST_SENTENCE if head.wraps else head.least


def _without(section: Section, column: int) -> Section:
    return replace(
        section,
        heads=section.heads[:column] + section.heads[column + 1 :],
        cells=tuple(row[:column] + row[column + 1 :] for row in section.cells),
    )


def _shortened(section: Section, width: int) -> Section:
    widths = _widths(section)
    elastic = [i for i, h in enumerate(section.heads) if _enough(h)]
    room = width - sum(w for i, w in enumerate(widths) if i not in elastic) - len(GAP) * (len(widths) - 1)
    limits = dict(zip(elastic, _shared([(widths[i], _enough(section.heads[i])) for i in elastic], room), strict=True))
    rows = (
        tuple(_cut(c, h, limits.get(i, len(c))) for i, (c, h) in enumerate(zip(row, section.heads, strict=True)))
        for row in section.cells
    )
    return replace(section, cells=tuple(rows))


def _cut(cell: str, head: Head, limit: int) -> str:
    if len(cell) <= limit:
        return cell
    if head.wraps:
        return "\n".join(textwrap.wrap(cell, limit))
    return f"..{cell[2 - limit :]}" if head.path else shorten(cell, limit)


def _shared(wanted: list[tuple[int, int]], room: int) -> list[int]:
    """Share `room` among columns of (wanted, least) width: each its least, then equal parts of the rest."""
    given = [min(want, least) for want, least in wanted]
    room -= sum(given)
    missing = [want - has for (want, _), has in zip(wanted, given, strict=True)]
    for done, i in enumerate(sorted(range(len(wanted)), key=lambda i: missing[i])):
        more = max(0, min(missing[i], room // (len(wanted) - done)))
        given[i] += more
        room -= more
    return given
