"""A document: what a report, an audit or a comparison says, for people in blocks and for programs in raw values.

A builder makes it (`tcprobe.report.run.document`, `tcprobe.report.audit.document`), every renderer takes it. Each part
is made when a renderer asks for it, so that a CSV costs no sentences and a text no copies of large tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.report.blocks import Block, Cell, Facts, Folded, Remarks, Section

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value


@dataclass(frozen=True, slots=True)
class DataTable:
    """One table for programs.

    Attributes:
        name: of its file.
        columns: names, with the unit as suffix.
        rows: makes the values, one a column; None is NA. Large tables are no rows until then.
        newline: what ends a line of its CSV.
    """

    name: str
    columns: tuple[str, ...]
    rows: Callable[[], Iterable[Sequence[Value]]]
    newline: str = "\n"


class Document(Protocol):
    """What every renderer takes; the same document gives the same bytes."""

    def screen(self) -> Sequence[Block]:
        """Return what a terminal shows, from top to bottom."""

    def page(self) -> Sequence[Block]:
        """Return what a page shows, from top to bottom."""

    def data(self) -> dict[str, Any]:
        """Return all of it as one tree of raw values."""

    def tables(self) -> Iterable[DataTable]:
        """Return the tables, each for a file of its own."""

    def table(self) -> DataTable:
        """Return the one table that a single file holds; raises UsageError where that cannot be told."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A document that is its blocks; programs get the raw values of the tables among them."""

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
        """Return each section's raw values under names made of its title and headings."""
        return [_data_table(section) for section in sections(self.blocks)]

    def table(self) -> DataTable:
        """Return the only one."""
        found = self.tables()
        if len(found) != 1:
            raise UsageError(f"one CSV holds one table, and there are {len(found)}", "write all tables with -o FOLDER")
        return found[0]


def sections(blocks: Iterable[Block]) -> Iterator[Section]:
    """Yield the tables among blocks, those that are folded away too."""
    for block in blocks:
        if isinstance(block, Section):
            yield block
        elif isinstance(block, Folded):
            yield from sections(block.blocks)


def _data_table(section: Section) -> DataTable:
    columns = list(zip(*section.cells, strict=True)) or [()] * len(section.heads)
    names = tuple(_column(head.text, cells) for head, cells in zip(section.heads, columns, strict=True))
    return DataTable(_snake(section.name), names, lambda: [tuple(map(_raw, row)) for row in section.cells])


def _column(heading: str, cells: Iterable[Cell | str]) -> str:
    unit = next((cell.unit for cell in cells if isinstance(cell, Cell) and cell.unit), "")
    return _snake(f"{heading} {unit}")


def _snake(text: str) -> str:
    return "_".join(re.findall(r"\w+", text.lower()))


def _raw(cell: Cell | str) -> Value:
    return cell if isinstance(cell, str) else cell.value
