"""Lay out the cells of a section as a text table, limited to a width or not, or as a Markdown table."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.formatting import NA, distinct, ending, shortened, wrapped
from tcprobe.report.document import ColumnHead, Section, visible_block
from tcprobe.report.fields import Field, section
from tcprobe.visible import columns

GAP = "  "
LONG: Final = 60
"""Columns of text from which on, where nothing limits the width, a column stands last and is not padded."""
LINKED: Final = re.compile(r":(?=//)|[wW]{3}(?=\.)|@(?=\w)|#(?=\d)|\b[gG][hH]-(?=\d)")
"""Where GitHub makes links of plain text: addresses, people and issues; no backslash hinders it.

Source: GitHub Flavored Markdown Spec, section 6.9; GitHub Docs, "Autolinked references and URLs".
"""
APART: Final = r"\g<0><!-- -->"
FIGURE: Final = re.compile(r"[0-9 .,%+/-]*")
"""Text without anything to escape, as most cells of a table are."""
OPENING: Final = re.compile(r" *(?:([#+=-])|(\d+)([.)]))?")
"""What makes a heading, a list, a rule or code of a line that begins with it."""
NARROWEST_SENTENCE: Final = 28
SQUEEZED: Final = 14  # columns of a name or sentence, where else a row would be too wide, or not told from another
FEWEST_ROWS: Final = 3  # of a table from which on what all rows share stands in its title


class _Column(Struct):
    """A column as text."""

    head: ColumnHead
    cells: list[str]
    narrow: bool = False  # whether it may be narrower than is comfortable

    @property
    def width(self) -> int:
        return max(len(self.head.text), *(columns(line) for cell in self.cells for line in cell.split("\n")))

    @property
    def elastic(self) -> int:
        """The width to which cells may be shortened; 0 if they are not."""
        least = self.head.least or (NARROWEST_SENTENCE if self.head.wraps else 0)
        return min(least, SQUEEZED) if self.narrow else least


def text_lines(section: Section, width: int | None) -> list[str]:
    """Return the lines of a table; with `width`, columns are dropped and names shortened until it fits.

    Without, sentences and long names stand last, and no row is wider than its own text.
    """
    if not section.cells:
        return []
    fitted = _fit(section, width)
    widths = [column.width for column in fitted]
    if width is None:
        order = sorted(range(len(fitted)), key=lambda at: widths[at] > LONG or (at > 0 and fitted[at].head.wraps))
        fitted, widths = [fitted[at] for at in order], [widths[at] if widths[at] <= LONG else 0 for at in order]
    rows = zip(*([column.head.text, *column.cells] for column in fitted), strict=True)
    # a wrapped cell takes several lines, other cells are on the first
    layers = (layer for row in rows for layer in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""))
    return [GAP.join(map(_padded, layer, fitted, widths)).rstrip() for layer in layers]


def same_in_all(section: Section) -> tuple[Section, str]:
    """Return a table without the columns that hold one value in all of its rows, and these as text for its title.

    Columns that are always shown stay, and a table of fewer than three rows stays as it is.
    """
    columns_ = list(zip(section.headings, zip(*section.cells, strict=True), strict=True)) if section.cells else []
    same = {
        at: f"{head.text}: {cells[0]}"
        for at, (head, cells) in enumerate(columns_)
        if len(cells) >= FEWEST_ROWS
        and head.rank
        and not head.wraps
        and len({str(cell) for cell in cells}) == 1
        and str(cells[0]) not in ("", NA)
    }
    if not same:
        return section, ""
    kept = [at for at in range(len(columns_)) if at not in same]
    cells = tuple(tuple(row[at] for at in kept) for row in section.cells)
    return replace(section, headings=tuple(section.headings[at] for at in kept), cells=cells), "; ".join(same.values())


def table_lines(
    fields: Iterable[Field], rows: Sequence[Any], width: int | None = None, markdown: bool = False
) -> list[str]:
    """Return the lines of a table that stands by itself."""
    made = visible_block(section("", fields, rows))
    return [] if made is None else markdown_lines(made) if markdown else text_lines(made, width)


def _padded(cell: str, column: _Column, width: int) -> str:
    space = " " * (width - columns(cell)) if width else ""
    return space + cell if column.head.right else cell + space


def left_out(section: Section, width: int | None) -> int:
    """Return how many columns `text_lines` drops for lack of space."""
    return len(section.headings) - len(_fit(section, width)) if section.cells else 0


def _fit(section: Section, width: int | None) -> list[_Column]:
    """Drop columns of high rank until names fit at their minimum width, then divide the space among names.

    Before one goes by which rows are told apart, or where none is left that may go, names and sentences are squeezed.
    """
    cells = zip(*section.cells, strict=True)
    found = [_Column(h, list(map(str, column))) for h, column in zip(section.headings, cells, strict=True)]
    if width is None:
        return found
    widths = [column.width for column in found]
    while sum(map(_least, found, widths)) + len(GAP) * (len(found) - 1) > width:
        ranked = sorted(range(len(found)), key=lambda i: (-found[i].head.rank, -i))
        free = [i for i in ranked if found[i].head.rank]
        spare = [i for i in free if _told_apart(found, i)]
        if not spare and not found[0].narrow:
            found = [replace(column, narrow=True) for column in found]
        elif free:
            out = (spare or free)[0]
            del found[out], widths[out]
        else:
            break
    elastic = [i for i, column in enumerate(found) if column.elastic]
    room = width - sum(widths) + sum(widths[i] for i in elastic) - len(GAP) * (len(found) - 1)
    limits = _shared([(widths[i], found[i].elastic) for i in elastic], room)
    for i, limit in zip(elastic, limits, strict=True):
        head = found[i].head
        if head.wraps or head.path:
            found[i].cells = [_cut(cell, head, limit) for cell in found[i].cells]
        else:
            found[i].cells = distinct(found[i].cells, limit)
    return found


def _told_apart(found: list[_Column], without: int) -> bool:
    """Return whether rows differ in as many ways without a column as with it."""
    with_all = set(zip(*(column.cells for column in found), strict=True))
    others = [column.cells for i, column in enumerate(found) if i != without]
    return len(set(zip(*others, strict=True))) == len(with_all)


def _least(column: _Column, width: int) -> int:
    return min(width, max(column.elastic, len(column.head.text))) if column.elastic else width


def _cut(cell: str, head: ColumnHead, limit: int) -> str:
    if columns(cell) <= limit:
        return cell
    if head.wraps:
        return "\n".join(wrapped(cell, limit, long_words=True))
    return f"..{ending(cell, limit - 2)}" if head.path else shortened(cell, limit)


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
