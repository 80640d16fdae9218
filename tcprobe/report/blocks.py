"""Blocks: the building parts of a document for people, which renderers lay out without knowing what it is about."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from tcprobe.visible import shown

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

Style = Literal["plain", "strong", "dim", "accent", "warning", "error", "code"]
RemarkLevel = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text in one style."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of text.

    Attributes:
        parts: its pieces; if the line is wrapped, only the first of several keeps its style.
        indent: text before each further line if it is wrapped; None if it is never wrapped.
    """

    parts: tuple[TextPart, ...]
    indent: str | None = None


def wrapped_line(text: str, style: Style = "plain", indent: str = "") -> TextLine:
    """Return a line in one style that may be wrapped."""
    return TextLine((TextPart(text, style),), indent)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading over the document or the blocks that follow; `level` 1 is a page's title."""

    text: str
    level: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that belong together: paragraphs or list items."""

    lines: tuple[TextLine, ...]
    bullets: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the subject of the document, as (label, text) pairs."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NumberedList:
    """A numbered list of sentences."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to know, and what to do about it; `remedy` is None if nothing can be done."""

    level: RemarkLevel
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Remarks:
    """A list of remarks, in order."""

    remarks: tuple[Remark, ...]


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column of a section.

    Attributes:
        text: heading of the column.
        right: whether cells are aligned right, as for numbers.
        rank: 0 is always shown; on a narrow terminal, columns with the highest rank are dropped first.
        least: minimum width to which a narrow terminal may shorten a name in its middle, or wrap a sentence;
            0 if cells are never shortened, like numbers, and of sentences for the usual one.
        wraps: whether cells are sentences, which a narrow terminal may wrap.
        path: whether cells are file:line, which is shortened at its start.
    """

    text: str
    right: bool = False
    rank: int = 0
    least: int = 0
    wraps: bool = False
    path: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure or name as shown, with its raw value before scaling, rounding and escaping.

    Attributes:
        text: for people.
        value: for programs, in full precision; None is NA.
        unit: unit of the value (``ns``, ``bytes``, ``pct``, ``flops``); empty for a count or a name.
    """

    text: str
    value: Value
    unit: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Section:
    """A table as shown.

    Attributes:
        title: text above it; empty for none. A remark in brackets is not part of its name.
        headings: its columns.
        cells: one tuple per row; a plain string is its own raw value.
        notes: text below it.
    """

    title: str
    headings: tuple[ColumnHead, ...] = ()
    cells: tuple[tuple[Cell | str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The title without its remark in brackets."""
        return self.title.partition(" (")[0]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a page hides until the reader opens them."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Where to say which tables lack columns because of the width; `remedy` says how to see them all."""

    remedy: str


Block: TypeAlias = Heading | Lines | Facts | NumberedList | Remarks | Section | Folded | LeftOut
AnyBlock = TypeVar("AnyBlock", bound=Block)


def visible_block(block: AnyBlock) -> AnyBlock:
    """Return a block whose text is as people see it (`tcprobe.visible.shown`), each piece one line; raw values stay."""
    made: AnyBlock = _visible(block)
    return made


def _visible(part: Any) -> Any:
    if type(part) is Cell:  # by far the most
        seen = shown(part.text)
        return part if seen is part.text else Cell(seen, part.value, part.unit)
    match part:
        case str():
            return shown(part)
        case tuple():
            return tuple(map(_visible, part))
        case _ if is_dataclass(part) and not isinstance(part, type):
            return replace(part, **{field.name: _visible(getattr(part, field.name)) for field in fields(part)})
        case _:
            return part
