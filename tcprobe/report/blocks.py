"""Blocks: the building parts of a document for people, which renderers lay out without knowing what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.visible import shown

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

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


class Screen(Struct, frozen=True):
    """The first screen: lines that are laid out already, in columns of one width."""

    lines: tuple[TextLine, ...]


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


class LeftOut(Struct, frozen=True):
    """Where to say which tables lack columns because of the width; `remedy` says how to see them all."""

    remedy: str


Block: TypeAlias = Screen | Heading | Lines | Facts | NumberedList | Remarks | Section | Folded | LeftOut


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
