"""`Renderer`: one output format. `tcprobe.report.RENDERERS` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from tcprobe.report.blocks import visible_block

if TYPE_CHECKING:
    from tcprobe.report.blocks import Block
    from tcprobe.report.document import Document


@dataclass(frozen=True, slots=True)
class RenderSpec:
    """What the output can show.

    Attributes:
        width: columns of the terminal; None if the output is no terminal, so that nothing is cut.
        color: whether escape codes may be written.
        safe_csv: whether CSV is for a spreadsheet, which must not compute what was found in a file.
    """

    width: int | None = None
    color: bool = False
    safe_csv: bool = False


@dataclass(frozen=True, slots=True)
class Renderer:
    """One output format; its module has a function ``render(document, spec, out)`` and is loaded on first use.

    Attributes:
        name: its name on the command line and the name of its module in this package.
        suffixes: file name endings that select it (``.json``).
    """

    name: str
    suffixes: tuple[str, ...]

    def render(self, document: Document, spec: RenderSpec, out: TextIO) -> None:
        """Write the document to `out`; the same document and spec always give the same bytes.

        The module gets blocks whose text is visible, and adds what is its own: colours, layout, markup. Raw values
        for programs it gets as they are.
        """
        import_module(f"tcprobe.report.{self.name}").render(_Shown(document), spec, out)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A document for a renderer: what is for people is visible, all else is the document's own."""

    document: Document

    def screen(self) -> list[Block]:
        return [visible_block(block) for block in self.document.screen()]

    def page(self) -> list[Block]:
        return [visible_block(block) for block in self.document.page()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.document, name)
