"""Renderer: a document's page as GitHub-flavoured Markdown, for a comment on a pull request."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import TextIO

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
    TextPart,
)
from tcprobe.report.drawn import Drawn
from tcprobe.report.grid import APART, LINKED, escape_markdown, markdown_line, markdown_lines
from tcprobe.visible import inert


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the page."""
    shown = (_block(block) for block in document.page())
    out.write(inert("\n\n".join("\n".join(lines) for lines in shown if lines)) + "\n")


def _fenced(lines: list[str]) -> list[str]:
    """Return lines as they are, in a fence longer than any row of its marks in them."""
    longest = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _block(block: Block) -> list[str]:
    match block:
        case Screen(lines=lines):
            return _fenced(["".join(part.text for part in line.parts).rstrip() for line in lines])
        case Heading(text=text, level=level):
            return [f"{'#' * level} {escape_markdown(text)}"]
        case Lines(lines=lines, bullets=True):
            return [f"- {_line(line)}" for line in lines]
        case Lines(lines=lines):
            return _apart([[_line(line)] for line in lines])
        case Facts(pairs=pairs):
            return [f"- {markdown_line(label)}: {escape_markdown(text)}" for label, text in pairs]
        case NumberedList():
            return _steps(block)
        case Remarks(remarks=remarks):
            return [_remark(remark) for remark in remarks]
        case Section():
            return [*([f"## {escape_markdown(block.title)}", ""] if block.title else []), *_table(block)]
        case Folded(title=title, blocks=blocks):
            inner = [lines for lines in map(_block, blocks) if lines]
            return _apart([[f"<details><summary>{_summary(title)}</summary>"], *inner, ["</details>"]])
        case LeftOut() | Drawn():
            return []


def _apart(blocks: list[list[str]]) -> list[str]:
    """Join blocks of lines with an empty line between them."""
    return [line for lines in blocks for line in ("", *lines)][1:]


def _line(line: TextLine) -> str:
    first, *others = line.parts or (TextPart(""),)
    return "".join((_part(first, markdown_line), *map(_part, others)))


def _part(part: TextPart, plain: Callable[[str], str] = escape_markdown) -> str:
    match part.style:
        case "strong":
            return f"**{escape_markdown(part.text)}**"
        case "code":
            return _code(part.text)
        case _:
            return plain(part.text)


def _code(text: str) -> str:
    """Return a code span, fenced by more backticks than the text holds in a row; nothing in it is markup."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{'`' * (longest + 1)}{space}{text}{space}{'`' * (longest + 1)}"


def _summary(title: str) -> str:
    """Return a title for the HTML that Markdown holds, where no Markdown counts."""
    return LINKED.sub(APART, html.escape(title, quote=False))


def _steps(steps: NumberedList) -> list[str]:
    numbered = [f"{n}. {markdown_line(text)}" for n, text in enumerate(steps.sentences, 1)]
    return [f"## {escape_markdown(steps.title)}", "", *numbered] if numbered else []


def _remark(remark: Remark) -> str:
    advice = f" *What to do:* {escape_markdown(remark.remedy)}" if remark.remedy else ""
    return f"- **{remark.level}**: {escape_markdown(remark.message)}{advice}"


def _table(section: Section) -> list[str]:
    return [*markdown_lines(section), *(line for note in section.notes for line in ("", markdown_line(note)))]
