"""Renderer: a document's page as HTML for a notebook: no script, no style sheet, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final, TextIO

from tcprobe.report import RenderSpec
from tcprobe.report.document import (
    Block,
    Document,
    Facts,
    Folded,
    Heading,
    Lines,
    NumberedList,
    Remarks,
    Screen,
    Section,
    TextLine,
)

_RIGHT: Final = ' style="text-align:right"'
_LEFT: Final = ' style="text-align:left"'
_PARTS: Final = {
    "strong": "<strong>{}</strong>",
    "good": '<span style="color:#1a7f37">{}</span>',
    "bad": '<span style="color:#cf222e">{}</span>',
    "dim": '<span style="opacity:.7">{}</span>',
}


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the page as one element; every text of a profile is escaped."""
    out.write('<div class="tcprobe">')
    for block in document.page():
        out.writelines(_block(block))
    out.write("</div>\n")


def _block(block: Block) -> Iterator[str]:
    match block:
        case Screen(lines=lines):
            text = "\n".join(map(_line, lines))
            yield f'<pre style="line-height:1.25">{text}</pre>'
        case Heading():
            level = min(block.level + 2, 6)
            yield f"<h{level}>{escape(block.text)}</h{level}>"
        case Lines():
            yield from (f"<p>{_line(line)}</p>" for line in block.lines)
        case Facts():
            rows = (f"<tr><th{_LEFT}>{escape(k)}</th><td{_LEFT}>{escape(v)}</td></tr>" for k, v in block.pairs)
            yield f"<table>{''.join(rows)}</table>"
        case NumberedList():
            if block.sentences:
                items = "".join(f"<li>{escape(sentence)}</li>" for sentence in block.sentences)
                yield f"<h4>{escape(block.title)}</h4><ol>{items}</ol>"
        case Remarks():
            for remark in block.remarks:
                remedy = f" <em>What to do:</em> {escape(remark.remedy)}" if remark.remedy else ""
                yield f"<p><strong>{escape(remark.level)}</strong>: {escape(remark.message)}{remedy}</p>"
        case Section():
            yield from _section(block)
        case Folded():
            inside = "".join(part for one in block.blocks for part in _block(one))
            yield f"<details><summary>{escape(block.title)}</summary>{inside}</details>"


def _line(line: TextLine) -> str:
    return "".join(_PARTS.get(part.style, "{}").format(escape(part.text)) for part in line.parts)


def _section(section: Section) -> Iterator[str]:
    if section.title:
        yield f"<h4>{escape(section.title)}</h4>"
    sides = [_RIGHT if head.right else _LEFT for head in section.headings]
    heads = "".join(f"<th{side}>{escape(h.text)}</th>" for side, h in zip(sides, section.headings, strict=True))
    rows = (
        f"<tr>{''.join(f'<td{side}>{escape(str(cell))}</td>' for side, cell in zip(sides, row, strict=True))}</tr>"
        for row in section.cells
    )
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    yield from (f"<p>{escape(note)}</p>" for note in section.notes)
