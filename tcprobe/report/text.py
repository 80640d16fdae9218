"""Renderer: a document as text, for a terminal or a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TextIO

from tcprobe.formatting import wrapped
from tcprobe.report import RenderSpec
from tcprobe.report.document import (
    Block,
    Document,
    Facts,
    Folded,
    Heading,
    LeftOut,
    Lines,
    NumberedList,
    Remark,
    Remarks,
    Screen,
    Section,
    TextLine,
    sections,
)
from tcprobe.report.drawn import Drawn
from tcprobe.report.grid import left_out, same_in_all, text_lines
from tcprobe.visible import columns, inert

STYLES: Final = {
    "strong": 1, "dim": 2, "accent": 36, "warning": 33, "error": 31, "note": 2, "good": 32, "bad": 31,
}  # fmt: skip
"""The code of each style (ECMA-48, SGR)."""


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:
    """Write the screen; without ``spec.width``, nothing is cut or dropped to fit."""
    out.write(inert(_joined(document.screen(), spec)) + "\n")


def _joined(blocks: Iterable[Block], spec: RenderSpec) -> str:
    blocks = list(blocks)
    shown = (_left_out(b, blocks, spec) if isinstance(b, LeftOut) else _block(b, spec) for b in blocks)
    return "\n\n".join("\n".join(lines) for lines in shown if lines)


def _block(block: Block, spec: RenderSpec) -> list[str]:
    match block:
        case Screen(lines=lines):
            return [x for line in lines for x in _line(line, "", spec)]
        case Heading(text=text):
            return [_paint(text, "strong", spec)]
        case Lines(lines=lines, bullets=bullets):
            return [x for line in lines for x in _line(line, "- " if bullets else "", spec)]
        case Facts():
            return _facts(block, spec)
        case NumberedList():
            return _steps(block, spec)
        case Remarks(remarks=remarks):
            return [x for remark in remarks for x in _remark(remark, spec)]
        case Section():
            return _section(block, spec)
        case Folded(title=title, blocks=blocks):
            return [_paint(title, "strong", spec), "", _joined(blocks, spec)]
        case LeftOut() | Drawn():
            return []


def _line(line: TextLine, mark: str, spec: RenderSpec) -> list[str]:
    """Return a line, wrapped if allowed; a long path or name is never broken, so that it can be copied."""
    if spec.width is None or line.indent is None:
        return [mark + "".join(_paint(part.text, part.style, spec) for part in line.parts)]
    whole = _wrapped(mark + "".join(part.text for part in line.parts), spec, line.indent)
    lead, *others = line.parts
    if not others:
        return [_paint(text, lead.style, spec) for text in whole]
    painted = mark + _paint(lead.text, lead.style, spec)
    return [painted + whole[0][len(mark) + len(lead.text) :], *whole[1:]]


def _facts(facts: Facts, spec: RenderSpec) -> list[str]:
    widest = max((len(label) for label, _ in facts.pairs), default=0)
    indent = " " * (widest + 2)
    return [x for label, text in facts.pairs for x in _wrapped(f"{label.ljust(widest)}  {text}", spec, indent)]


def _steps(steps: NumberedList, spec: RenderSpec) -> list[str]:
    lines = [x for n, step in enumerate(steps.sentences, 1) for x in _wrapped(f"{n}. {step}", spec, "   ")]
    return [_paint(steps.title, "strong", spec), *lines] if lines else []


def _remark(remark: Remark, spec: RenderSpec) -> list[str]:
    level, remedy = remark.level, remark.remedy
    first, *rest = _wrapped(f"{level}: {remark.message}", spec, "  ")
    lines = [_paint(level, level, spec) + first[len(level) :], *rest]
    return lines + (_wrapped(f"  what to do: {remedy}", spec, "  ") if remedy else [])


def _section(section: Section, spec: RenderSpec) -> list[str]:
    section, said = _titled(section, spec.width)
    title = [_paint(line, "strong", spec) for line in _wrapped(said, spec, "   ")] if said else []
    lines = text_lines(section, spec.width)
    notes = [x for note in section.notes for x in _wrapped(note, spec, "   ")]
    return [*title, *(_paint(head, "dim", spec) for head in lines[:1]), *lines[1:], *notes]


def _titled(section: Section, width: int | None) -> tuple[Section, str]:
    """Return a table and its title, which says what all of its rows share, where there is room for that."""
    less, same = same_in_all(section)
    said = f"{section.title.removesuffix(')')}; {same})" if section.title.endswith(")") else f"{section.title} ({same})"
    if not section.title or not same or (width is not None and columns(said) > width):
        return section, section.title
    return less, said


def _left_out(block: LeftOut, blocks: Iterable[Block], spec: RenderSpec) -> list[str]:
    tables = [section.name for section in sections(blocks) if left_out(section, spec.width)]
    said = f"Columns are left out to fit {spec.width} ({', '.join(tables)}); {block.remedy}."
    return [_paint(line, "dim", spec) for line in _wrapped(said, spec)] if tables else []


def _wrapped(text: str, spec: RenderSpec, indent: str = "") -> list[str]:
    if spec.width is None:
        return [text]
    return wrapped(text, spec.width, indent) or [""]


def _paint(text: str, style: str, spec: RenderSpec) -> str:
    if not spec.color or style not in STYLES or not text.strip():
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"
