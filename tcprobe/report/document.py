"""`Document`: what a verb has to say, as blocks for people and as raw values for programs.

Builders make documents (`tcprobe.report.run.document`, `tcprobe.report.audit.document`), renderers print them. A part
is built when a renderer asks for it, so that CSV needs no sentences and text no copies of large tables.
SARIF and GitHub's annotations are of audits alone, and read the report of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.report.drawn import Drawn, Part
from tcprobe.visible import shown

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
ROWS_IN_BROWSER: Final = 500  # a page of a million kernels stays small; CSV has the rest


class ReportSpec(Struct, frozen=True):
    """What the user asked to see."""

    top: int | None = None  # rows per table; 0 is all, None is 10 for people and all for programs
    by: tuple[str, ...] = ()  # tables to show, as ``--by`` names them; empty: the default ones
    # brief, width: of a terminal, whether only the first screen is to stand there, and its columns; None: unlimited.
    brief: bool = False
    width: int | None = None
    web: bool = False  # of a page for a browser, which has pictures and every table
    # cwd, verbose, typed: of an audit.
    cwd: str = ""  # absolute path of a folder; paths inside it are shown relative to it
    verbose: bool = False  # whether to list what the short form only counts
    # what the user typed after ``tcprobe audit-shapes``, to suggest the next command; empty if unknown
    typed: tuple[str, ...] = ()

    @property
    def rows_for_people(self) -> int | None:
        """Rows per table on a screen or page; None for all."""
        usual = ROWS_IN_BROWSER if self.web else ROWS_FOR_PEOPLE
        return usual if self.top is None else self.top or None

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


Style = Literal["plain", "strong", "dim", "accent", "warning", "error", "code", "good", "bad"]
RemarkLevel = Literal["error", "warning", "note"]


class TextPart(Struct, frozen=True):
    """A piece of text in one style."""

    text: str
    style: Style = "plain"


class TextLine(Struct, frozen=True):
    """One line of text."""

    parts: tuple[TextPart, ...]  # its pieces; if the line is wrapped, only the first of several keeps its style
    indent: str | None = None  # text before each further line if it is wrapped; None if it is never wrapped


def line_of(*parts: TextPart | str) -> TextLine:
    """Return a line that is never wrapped."""
    return TextLine(tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def wrapped_line(text: str, style: Style = "plain", indent: str = "") -> TextLine:
    """Return a line in one style that may be wrapped."""
    return TextLine((TextPart(text, style),), indent)


class Task(Struct, frozen=True):
    """One of the things to do first."""

    title: str
    saves: tuple[tuple[str, str], ...]  # (likely or at most, how much); empty where that is not known
    share: str  # of the step
    code: str  # of its rule
    why: str
    source: str = ""  # file:line


class First(Struct, frozen=True):
    """The first screen in its pieces, with the words of its lines."""

    head: tuple[tuple[str, str], ...]  # what it is, and what is known of that
    verdict: tuple[str, str, str]  # the sentence, parted before and after its word
    tone: Style  # of that word
    more: tuple[str, ...]
    # title, total, parts: of the bar; without parts where no time is known.
    title: str
    total: str
    parts: tuple[Part, ...]
    lines: tuple[TextLine, ...]  # ranks, or predicted steps, in columns
    tasks: tuple[Task, ...]
    nothing: str  # what stands there where there is none
    left: str  # what is left of the step when all is done
    sure: str


class Screen(Struct, frozen=True):
    """The first screen: lines that are laid out already, in columns of one width."""

    lines: tuple[TextLine, ...]
    first: First | None = None  # the same in its pieces, where a picture can be drawn of it


class Heading(Struct, frozen=True):
    """A heading over the document or the blocks that follow; `level` 1 is a page's title."""

    text: str
    level: int


class Lines(Struct, frozen=True):
    """Lines that belong together: paragraphs or list items."""

    lines: tuple[TextLine, ...]
    bullets: bool = False


class Facts(Struct, frozen=True):
    """Facts about the subject of the document, as (label, text) pairs."""

    pairs: tuple[tuple[str, str], ...]


class NumberedList(Struct, frozen=True):
    """A numbered list of sentences."""

    title: str
    sentences: tuple[str, ...]


class Remark(Struct, frozen=True):
    """Something to know, and what to do about it; `remedy` is None if nothing can be done."""

    level: RemarkLevel
    message: str
    remedy: str | None = None


class Remarks(Struct, frozen=True):
    """A list of remarks, in order."""

    remarks: tuple[Remark, ...]


class ColumnHead(Struct, frozen=True):
    """A column of a section."""

    text: str  # heading of the column
    right: bool = False  # whether cells are aligned right, as for numbers
    rank: int = 0  # 0 is always shown; on a narrow terminal, columns with the highest rank are dropped first
    # minimum width to which a narrow terminal may shorten a name in its middle, or wrap a sentence; 0 if cells are
    # never shortened, like numbers, and of sentences for the usual one
    least: int = 0
    wraps: bool = False  # whether cells are sentences, which a narrow terminal may wrap
    path: bool = False  # whether cells are file:line, which is shortened at its start
    column: str = ""  # name of the column of the contract that it shows; empty where it shows something else


class Cell(Struct, frozen=True):
    """A figure or name as shown, with its raw value before scaling, rounding and escaping."""

    text: str  # for people
    value: Value  # for programs, in full precision; None is NA
    unit: str = ""  # unit of the value (``ns``, ``bytes``, ``pct``, ``flops``); empty for a count or a name

    def __str__(self) -> str:
        return self.text


class Section(Struct, frozen=True):
    """A table as shown."""

    title: str  # text above it; empty for none. A remark in brackets is not part of its name.
    headings: tuple[ColumnHead, ...] = ()  # its columns
    cells: tuple[tuple[Cell | str, ...], ...] = ()  # one tuple per row; a plain string is its own raw value
    notes: tuple[str, ...] = ()  # text below it

    @property
    def name(self) -> str:
        """The title without its remark in brackets."""
        return self.title.partition(" (")[0]


class Folded(Struct, frozen=True):
    """Blocks that a page hides until the reader opens them."""

    title: str
    blocks: tuple[Block, ...]
    shown: bool = False  # whether a browser begins with it open


class LeftOut(Struct, frozen=True):
    """Where to say which tables lack columns because of the width; `remedy` says how to see them all."""

    remedy: str


Block: TypeAlias = Screen | Heading | Lines | Facts | NumberedList | Remarks | Section | Folded | LeftOut | Drawn


def answer_of(sentences: Sequence[str]) -> Lines:
    """Return the answer of a document: sentences, of which the first is strong."""
    first, *rest = sentences
    return Lines((wrapped_line(first, "strong"), *map(wrapped_line, rest)))


def folded(section: Section) -> Folded:
    """Return a table that a page hides."""
    return Folded(section.title, (replace(section, title=""),))


def sections(blocks: Iterable[Block]) -> Iterator[Section]:
    """Yield the tables among the blocks, including those in folded blocks."""
    for block in blocks:
        if isinstance(block, Section):
            yield block
        elif isinstance(block, Folded):
            yield from sections(block.blocks)


def visible_block(part: Any) -> Any:
    """Return a block whose text is as people see it (`tcprobe.visible.shown`), each piece one line; raw values stay."""
    if type(part) is Cell:  # by far the most
        seen = shown(part.text)
        return part if seen is part.text else Cell(seen, part.value, part.unit)
    match part:
        case str():
            return shown(part)
        case tuple():
            return tuple(map(visible_block, part))
        case Struct():
            return replace(part, **{name: visible_block(getattr(part, name)) for name in part.__struct_fields__})
        case _:
            return part
