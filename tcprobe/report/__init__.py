"""The output formats, one renderer module each, and which of them each kind of document has."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from msgspec import Struct

from tcprobe.report.document import visible_block

if TYPE_CHECKING:
    from tcprobe.report.document import Block, Document


class RenderSpec(Struct, frozen=True):
    """What the output can show."""

    width: int | None = None  # columns of the terminal; None if the output is no terminal, so that nothing is cut
    color: bool = False  # whether escape codes may be written
    safe_csv: bool = False  # whether CSV is for a spreadsheet, which must not compute what was found in a file
    fragment: bool = False  # whether HTML is a part of a page: of a notebook


class Renderer(Struct, frozen=True):
    """One output format; its module has a function ``render(document, spec, out)`` and is loaded on first use."""

    name: str  # its name on the command line and the name of its module
    suffixes: tuple[str, ...]  # file name endings that select it (``.json``)
    room: str = "tcprobe.report"  # package of its module

    def render(self, document: Document, spec: RenderSpec, out: TextIO) -> None:
        """Write the document to `out`; the same document and spec always give the same bytes.

        The module gets blocks whose text is visible, and adds what is its own: colours, layout, markup. Raw values
        for programs it gets as they are.
        """
        import_module(f"{self.room}.{self.name}").render(_Shown(document), spec, out)


class _Shown(Struct, frozen=True):
    """A document for a renderer: what is for people is visible, all else is the document's own."""

    document: Document

    def screen(self) -> list[Block]:
        return [visible_block(block) for block in self.document.screen()]

    def page(self) -> list[Block]:
        return [visible_block(block) for block in self.document.page()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.document, name)


DocumentKind = Literal["run", "audit", "key_node", "compare", "sweep"]

AUDIT: Final = "tcprobe.report.audit"
RENDERERS: Final[tuple[Renderer, ...]] = (
    Renderer("text", (".txt",)),
    Renderer("csv", (".csv",)),
    Renderer("json", (".json",)),
    Renderer("markdown", (".md", ".markdown")),
    Renderer("html", (".html",)),
    Renderer("perfetto", (".pftrace", ".perfetto-trace")),
    Renderer("sarif", (".sarif",), AUDIT),
    Renderer("github", (), AUDIT),
    Renderer("junit", (".xml",), AUDIT),
)

FORMATS: Final[dict[DocumentKind, tuple[str, ...]]] = {
    "run": ("text", "csv", "json", "markdown", "html", "perfetto"),
    "audit": ("text", "json", "csv", "markdown", "html", "sarif", "github", "junit"),
    "key_node": ("text", "csv", "json", "markdown", "html"),
    "compare": ("text", "csv", "json", "markdown", "html"),
    "sweep": ("text", "csv", "json", "markdown", "html"),
}
"""The formats of each kind of document, in the order in which its verb lists them."""


def renderers(kind: DocumentKind) -> tuple[Renderer, ...]:
    """Return the renderers for a kind of document."""
    named = {renderer.name: renderer for renderer in RENDERERS}
    return tuple(named[name] for name in FORMATS[kind])
