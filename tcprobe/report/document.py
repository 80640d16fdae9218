"""`Document`: what a verb has to say, as blocks for people and as raw values for programs.

Builders make documents (`tcprobe.report.run.document`, `tcprobe.report.audit.document`), renderers print them. A part
is built when a renderer asks for it, so that CSV needs no sentences and text no copies of large tables.
SARIF and GitHub's annotations are of audits alone, and read the report of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.report.blocks import Block

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value


SCHEMA: Final = 1
"""Increases when a key is removed or changes its meaning; new keys may be added at any time."""


class DataTable(Struct, frozen=True):
    """One table for programs."""

    name: str  # name of its file, without ending
    columns: tuple[str, ...]  # names of the columns, with the unit as suffix
    # function that yields the rows, one value per column, None for NA; large tables become rows only then
    rows: Callable[[], Iterable[Sequence[Value]]]
    newline: str = "\n"  # line ending in CSV


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


class Added(Struct, frozen=True):
    """What another document adds to the report of a run."""

    blocks: tuple[Block, ...] = ()  # for people, after the headline
    data: Mapping[str, Any] = field(default_factory=dict)  # for programs, beside what the report holds
    tables: tuple[DataTable, ...] = ()  # for a folder


ROWS_FOR_PEOPLE: Final = 10


class ReportSpec(Struct, frozen=True):
    """What the user asked to see."""

    top: int | None = None  # rows per table; 0 is all, None is 10 for people and all for programs
    by: tuple[str, ...] = ()  # tables to show, as ``--by`` names them; empty: the default ones
    # brief, width: of a terminal, whether only the first screen is to stand there, and its columns; None: unlimited.
    brief: bool = False
    width: int | None = None
    # cwd, verbose, typed: of an audit.
    cwd: str = ""  # absolute path of a folder; paths inside it are shown relative to it
    verbose: bool = False  # whether to list what the short form only counts
    # what the user typed after ``tcprobe audit-shapes``, to suggest the next command; empty if unknown
    typed: tuple[str, ...] = ()

    @property
    def rows_for_people(self) -> int | None:
        """Rows per table on a screen or page; None for all."""
        return ROWS_FOR_PEOPLE if self.top is None else self.top or None

    @property
    def rows_for_programs(self) -> int | None:
        """Rows per table in a file for programs; None for all."""
        return self.top or None

    def one_table(self, usual: str) -> str:
        """Return the table of a single file, as ``--by`` names it; UsageError if several were asked for."""
        if len(self.by) > 1:
            raise UsageError(
                f"one CSV holds one table, and --by asks for {len(self.by)} ({', '.join(self.by)})",
                "give --by once, or write all tables with -o FOLDER",
            )
        return self.by[0] if self.by else usual


def spelt(value: Any) -> Any:
    """Return a tree of values that a workload logged, with NaN and infinities as text: no number of JSON is one."""
    if isinstance(value, dict):
        return {key: spelt(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [spelt(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def data_of(more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree of a document: which form it has, what wrote it, and the rest."""
    return {"schema": SCHEMA, "tcprobe": __version__, **more}
