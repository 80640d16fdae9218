"""What a renderer is: a module of this package, listed in `tcprobe.report.RENDERERS`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tcprobe.report.document import Document


@dataclass(frozen=True, slots=True)
class RenderSpec:
    """What the place can show.

    Attributes:
        width: columns of the terminal; None where the output is no terminal, so nothing is cut.
        color: whether escape codes may be written.
    """

    width: int | None = None
    color: bool = False


@dataclass(frozen=True, slots=True)
class Renderer:
    """One output format; its module has a function ``render(document, spec, out)`` and is loaded when it is called.

    Attributes:
        name: on the command line, and of its module in this package.
        suffixes: file name endings that choose it (``.json``).
    """

    name: str
    suffixes: tuple[str, ...]

    def render(self, document: Document, spec: RenderSpec, out: TextIO) -> None:
        """Write the document to `out`; the same document and spec give the same bytes."""
        import_module(f"tcprobe.report.{self.name}").render(document, spec, out)
