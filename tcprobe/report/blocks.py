"""What a report says, in blocks that a person reads one after the other; a renderer knows no more of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

Style = Literal["plain", "strong", "dim", "accent", "warning", "error", "code"]
Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Part:
    """Words in one style."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        parts: its words; where it is wrapped, only the first of several keeps its style.
        indent: what stands before its further lines where it is wrapped; None where it never is.
    """

    parts: tuple[Part, ...]
    indent: str | None = None


def sentence(text: str, style: Style = "plain", indent: str = "") -> Line:
    """Return a line in one style that may be wrapped."""
    return Line((Part(text, style),), indent)


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a document, or of the blocks below it; `level` is 1 for a whole page."""

    text: str
    level: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that belong together: paragraphs, or the items of a list."""

    lines: tuple[Line, ...]
    bullets: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What it is about, as (label, text)."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """Sentences in their order, numbered."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to know, and what to do about it; `remedy` is None where nothing can be done."""

    level: Level
    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Remarks:
    """Things to know, in their order."""

    remarks: tuple[Remark, ...]


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
class Cell:
    """A figure or name as shown, with what it was before it was scaled, rounded or made visible.

    Attributes:
        text: for a person.
        value: for a program, in full precision; None is NA.
        unit: of the value (``ns``, ``bytes``, ``pct``, ``flops``); empty for a count or a name.
    """

    text: str
    value: Value
    unit: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Section:
    """One table as shown.

    Attributes:
        title: above it; empty for none. What stands in brackets is about this table, not its name.
        heads: its columns.
        cells: one row per table row; a plain string is a text that is its own raw value.
        notes: below it.
    """

    title: str
    heads: tuple[Head, ...] = ()
    cells: tuple[tuple[Cell | str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The title without what it says about this table."""
        return self.title.partition(" (")[0]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a page shows when they are asked for."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The place to say which tables lack columns for want of room; `remedy` says what shows them all."""

    remedy: str


Block: TypeAlias = Heading | Lines | Facts | Steps | Remarks | Section | Folded | LeftOut
