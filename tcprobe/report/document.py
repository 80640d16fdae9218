"""`Document`: what a verb has to say, as blocks for people and as raw values for programs.

Builders make documents (`tcprobe.report.run.document`, `tcprobe.report.audit.document`), renderers print them. A part
is built when a renderer asks for it, so that CSV needs no sentences and text no copies of large tables.
`Scan` is one with typed findings and notices for code scanning, which the SARIF and GitHub renderers print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.report.blocks import Block, Cell, Facts, Folded, Remarks, Section
from tcprobe.schema.finding import Finding
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc
    from tcprobe.schema.columns import Value


@dataclass(frozen=True, slots=True)
class DataTable:
    """One table for programs.

    Attributes:
        name: name of its file, without ending.
        columns: names of the columns, with the unit as suffix.
        rows: function that yields the rows, one value per column, None for NA; large tables become rows only then.
        newline: line ending in CSV.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterable[Sequence[Value]]]
    newline: str = "\n"


class Document(Protocol):
    """What every renderer accepts; the same document always gives the same bytes."""

    def screen(self) -> Sequence[Block]:
        """Return the blocks of a terminal, from top to bottom."""

    def page(self) -> Sequence[Block]:
        """Return the blocks of a page, from top to bottom."""

    def data(self) -> dict[str, Any]:
        """Return everything as one tree of raw values."""

    def tables(self) -> Iterable[DataTable]:
        """Return all tables, each for its own file."""

    def table(self) -> DataTable:
        """Return the one table that a single file holds; UsageError if that cannot be told."""


@dataclass(frozen=True, slots=True)
class Added:
    """What another document adds to the report of a run.

    Attributes:
        blocks: for people, after the headline.
        data: for programs, beside what the report holds.
        tables: for a folder.
    """

    blocks: tuple[Block, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[DataTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Plain:
    """A document that consists of given blocks; programs get the raw values of their tables."""

    blocks: tuple[Block, ...]

    def screen(self) -> Sequence[Block]:
        """Return the blocks."""
        return self.blocks

    def page(self) -> Sequence[Block]:
        """Return the blocks."""
        return self.blocks

    def data(self) -> dict[str, Any]:
        """Return facts, remarks and tables."""
        tables = {t.name: [dict(zip(t.columns, row, strict=True)) for row in t.rows()] for t in self.tables()}
        facts = dict(pair for block in self.blocks if isinstance(block, Facts) for pair in block.pairs)
        remarks = [remark for block in self.blocks if isinstance(block, Remarks) for remark in block.remarks]
        notes = [{"level": r.level, "message": r.message, "remedy": r.remedy} for r in remarks]
        return {"schema": 1, "tcprobe": __version__, "facts": facts, "tables": tables, "notes": notes}

    def tables(self) -> list[DataTable]:
        """Return the raw values of each section, named after its title and headings."""
        return [_data_table(section) for section in sections(self.blocks)]

    def table(self) -> DataTable:
        """Return the only table."""
        found = self.tables()
        if len(found) != 1:
            raise UsageError(f"one CSV holds one table, and there are {len(found)}", "write all tables with -o FOLDER")
        return found[0]


def sections(blocks: Iterable[Block]) -> Iterator[Section]:
    """Yield the tables among the blocks, including those in folded blocks."""
    for block in blocks:
        if isinstance(block, Section):
            yield block
        elif isinstance(block, Folded):
            yield from sections(block.blocks)


def _data_table(section: Section) -> DataTable:
    columns = list(zip(*section.cells, strict=True)) or [()] * len(section.headings)
    names = tuple(_column(head.text, cells) for head, cells in zip(section.headings, columns, strict=True))
    return DataTable(_snake(section.name), names, lambda: [tuple(map(_raw, row)) for row in section.cells])


def _column(heading: str, cells: Iterable[Cell | str]) -> str:
    unit = next((cell.unit for cell in cells if isinstance(cell, Cell) and cell.unit), "")
    return _snake(f"{heading} {unit}")


def _snake(text: str) -> str:
    return "_".join(re.findall(r"\w+", text.lower()))


def _raw(cell: Cell | str) -> Value:
    return cell if isinstance(cell, str) else cell.value


NoticeKind = Literal["failed", "unjudged", "unused", "unseen", "limit"]


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One finding in a scan.

    Attributes:
        finding: as the rule made it.
        sentence: the finding in words.
        file: absolute path of the file read, for a finding without a place.
        properties: its figures; None for unknown.
        related: other places that it affects, each with a phrase.
        remedy: what its fix does, as an imperative; empty if it has none.
        suppressed: whether a comment in the source silences it.
        known: whether the baseline holds it.
    """

    finding: Finding
    sentence: str
    file: str
    properties: dict[str, Any]
    related: tuple[tuple[Place, str], ...] = ()
    remedy: str = ""
    suppressed: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know about the scan itself.

    Attributes:
        kind: failed (the file was not read), unjudged (no layer of it could be judged, and so it fails), unused (a
            suppression that silences nothing), unseen (something that could not be judged), limit (of the whole scan).
        text: the notice in words, without its kind.
        file: absolute path; None for a limit.
        place: where in the file; None if no line is known.
    """

    kind: NoticeKind
    text: str
    file: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """All findings and notices of a scan.

    Attributes:
        root: absolute path of the folder that paths are relative to; empty if unknown.
        rules: documentation of the rules.
        results: findings, then suppressed ones, then known ones, each in the order of file and line.
        notices: ordered by kind.
    """

    root: str
    rules: tuple[RuleDoc, ...]
    results: tuple[ScanResult, ...]
    notices: tuple[Notice, ...]


class Scanned(Document, Protocol):
    """A document that can be shown by code scanning."""

    def scan(self) -> Scan:
        """Return its findings and notices."""
