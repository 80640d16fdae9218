"""Renderer: a document's page as GitHub-flavoured Markdown, for a comment on a pull request."""

from __future__ import annotations

from typing import TextIO

from tcprobe.report.base import RenderSpec
from tcprobe.report.blocks import (
    Block,
    Facts,
    Folded,
    Heading,
    LeftOut,
    Lines,
    NumberedList,
    Remark,
    Remarks,
    Section,
    TextLine,
    TextPart,
)
from tcprobe.report.document import Document
from tcprobe.report.grid import escape_markdown, markdown_lines


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the page."""
    shown = (_block(block) for block in document.page())
    out.write("\n\n".join("\n".join(lines) for lines in shown if lines) + "\n")


def _block(block: Block) -> list[str]:
    match block:
        case Heading(text=text, level=level):
            return [f"{'#' * level} {text}"]
        case Lines(lines=lines, bullets=True):
            return [f"- {_line(line)}" for line in lines]
        case Lines(lines=lines):
            return _apart([[_line(line)] for line in lines])
        case Facts(pairs=pairs):
            return [f"- {label}: {escape_markdown(text)}" for label, text in pairs]
        case NumberedList():
            return _steps(block)
        case Remarks(remarks=remarks):
            return [_remark(remark) for remark in remarks]
        case Section():
            return [*([f"## {block.title}", ""] if block.title else []), *_table(block)]
        case Folded(title=title, blocks=blocks):
            inner = [lines for lines in map(_block, blocks) if lines]
            return _apart([[f"<details><summary>{title}</summary>"], *inner, ["</details>"]])
        case LeftOut():
            return []


def _apart(blocks: list[list[str]]) -> list[str]:
    """Join blocks of lines with an empty line between them."""
    return [line for lines in blocks for line in ("", *lines)][1:]


def _line(line: TextLine) -> str:
    return "".join(map(_part, line.parts))


def _part(part: TextPart) -> str:
    match part.style:
        case "strong":
            return f"**{escape_markdown(part.text)}**"
        case "code":
            return f"`{part.text}`"
        case _:
            return escape_markdown(part.text)


def _steps(steps: NumberedList) -> list[str]:
    numbered = [f"{n}. {escape_markdown(text)}" for n, text in enumerate(steps.sentences, 1)]
    return [f"## {steps.title}", "", *numbered] if numbered else []


def _remark(remark: Remark) -> str:
    advice = f" *What to do:* {escape_markdown(remark.remedy)}" if remark.remedy else ""
    return f"- **{remark.level}**: {escape_markdown(remark.message)}{advice}"


def _table(section: Section) -> list[str]:
    return [*markdown_lines(section), *(line for note in section.notes for line in ("", escape_markdown(note)))]
