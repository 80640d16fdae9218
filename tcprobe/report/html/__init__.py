"""Renderer: a document as one HTML file that loads nothing, or as the fragment of it that a notebook shows.

Templates escape every text (jinja2's autoescape); a policy in the page (CSP) lets nothing run, and no style count, but
what is hashed there. Without a script all tables are there and readable; the script sorts, filters and opens rows.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from tcprobe import __version__
from tcprobe.formatting import shorten
from tcprobe.report import RenderSpec
from tcprobe.report.document import Block, Cell, ColumnHead, Document, Folded, Heading, Screen, Section
from tcprobe.report.drawn import Curves, LaneChart
from tcprobe.report.html import draw

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HIDDEN_RANK: Final = 5  # columns from this rank on are not shown until the reader chooses them
MOST_TITLE: Final = 120
MOST_COLUMNS: Final = 40  # for which the style sheet has rules
OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]{1,30}(?![\w-])")


class TableCell(NamedTuple):
    """A cell as the template writes it."""

    text: str
    value: float | None  # to sort by, of a number
    cut: bool = False  # whether its middle is hidden


class Table(NamedTuple):
    """A table as the template writes it."""

    name: str  # the same in every page with this table, for addresses
    classes: str  # which columns are aligned right, wrapped, hidden
    headings: tuple[ColumnHead, ...]
    section: Section

    @property
    def rows(self) -> Iterator[list[TableCell]]:
        for row in self.section.cells:
            yield [_cell(cell, head) for cell, head in zip(row, self.headings, strict=True)]


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:
    """Write the page; of a notebook only its blocks, with their style and without the script."""
    blocks = list(document.page())
    name = "fragment.html" if spec.fragment else "page.html"
    tables = {id(section): table for section, table in _tables(_sections(blocks))}
    curves, lanes = (any(isinstance(block, kind) for block in blocks) for kind in (Curves, LaneChart))
    styles = ("page.css", *(("uplot/uPlot.min.css",) if curves and not spec.fragment else ()))
    scripts = (
        "page.js",
        *(("uplot/uPlot.iife.min.js", "curves.js") if curves else ()),
        *(("timeline.js",) if lanes else ()),
    )
    made = _environment().get_template(name).generate(
        blocks=blocks, title=_title(blocks), table_of=lambda section: tables[id(section)], whole=not spec.fragment,
        styles=map(_text, styles), scripts=map(_text, scripts), policy=_policy(styles, scripts), version=__version__,
    )  # fmt: skip
    out.writelines(made)
    out.write("\n")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("tcprobe.report", "html"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.globals.update(draw=draw, kind=lambda block: type(block).__name__, most_columns=MOST_COLUMNS)
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    made.filters["unbroken"] = unbroken
    return made


def unbroken(text: str) -> Markup:
    """Return escaped text in which no line ends within an option (``--fail-if``)."""
    from markupsafe import Markup, escape

    return Markup(OPTION.sub(r'<span class="option">\g<0></span>', str(escape(text))))


@cache
def _text(name: str) -> str:
    """Return a style sheet or script; of ours without the blanks that only its readers need, of others as it is."""
    environment = _environment()
    if name.endswith("page.css"):
        whole = environment.get_template(name).render()
    else:
        assert environment.loader is not None
        whole = environment.loader.get_source(environment, name)[0]
    return whole if "/" in name else re.sub(r"(?m)^ +", "", whole)


@cache
def _policy(styles: tuple[str, ...], scripts: tuple[str, ...]) -> str:
    """Return the page's policy: nothing is loaded, sent or run but the style sheets and scripts of these hashes."""
    style, script = (" ".join(f"'sha256-{_digest(name)}'" for name in names) for names in (styles, scripts))
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'"
    )


def _digest(name: str) -> str:
    return base64.b64encode(hashlib.sha256(_text(name).encode()).digest()).decode()


def _title(blocks: Iterable[Block]) -> str:
    """Return the title of the page: what it is of, as far as a block says."""
    first = next((block.first for block in blocks if isinstance(block, Screen) and block.first), None)
    heading = next((block.text for block in blocks if isinstance(block, Heading)), "tcprobe")
    named = "" if first is None else ", ".join(left for left, _ in first.head)
    return f"{shorten(named, MOST_TITLE)}: {heading}" if named else heading


def _sections(blocks: Iterable[Block], title: str = "") -> Iterator[tuple[str, Section]]:
    """Yield the tables with their titles; that of a folded one stands over the fold."""
    for block in blocks:
        if isinstance(block, Section):
            yield block.name or title.partition(" (")[0] or "table", block
        elif isinstance(block, Folded):
            yield from _sections(block.blocks, block.title)


def _tables(sections: Iterable[tuple[str, Section]]) -> Iterator[tuple[Section, Table]]:
    taken: dict[str, int] = {}
    for title, section in sections:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-") or "table"
        taken[name] = taken.get(name, 0) + 1
        name = name if taken[name] == 1 else f"{name}-{taken[name]}"
        marks = [f"r{at}" for at, head in enumerate(section.headings, 1) if head.right]
        cells = zip(*section.cells, strict=True) if section.cells else [()] * len(section.headings)
        columns = enumerate(zip(section.headings, cells, strict=True), 1)
        marks += [f"w{at}" for at, (head, texts) in columns if _wraps(head, max(map(len, map(str, texts)), default=0))]
        marks += [f"h{at}" for at, head in enumerate(section.headings, 1) if head.rank >= HIDDEN_RANK]
        yield section, Table(name, " ".join(marks), section.headings, section)


def _wraps(head: ColumnHead, longest: int) -> bool:
    """Return whether a column holds sentences; names and places are shortened instead."""
    return head.wraps or (longest > draw.LONG and not head.least and not head.path)


def _cell(cell: Cell | str, head: ColumnHead) -> TableCell:
    text, value = (cell.text, cell.value) if isinstance(cell, Cell) else (cell, None)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) and head.right else None
    return TableCell(text, number, bool(head.least or head.path) and not head.wraps)
