"""`Renderer`: one output format. `tcprobe.report.RENDERERS` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tcprobe.report.document import Document


@dataclass(frozen=True, slots=True)
class RenderSpec:
    """What the output can show.

    Attributes:
        width: columns of the terminal; None if the output is no terminal, so that nothing is cut.
        color: whether escape codes may be written.
    """

    width: int | None = None
    color: bool = False


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
        """Write the document to `out`; the same document and spec always give the same bytes."""
        import_module(f"tcprobe.report.{self.name}").render(document, spec, out)
