"""Render a document to a string, as text, Markdown, JSON or HTML."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tcprobe.report import RENDERERS
from tcprobe.report.base import Renderer, RenderSpec

if TYPE_CHECKING:
    from tcprobe.report.document import Document

HTML = Renderer("html", (".html",))


def rendered(document: Document, name: str, width: int | None = None) -> str:
    """Return a document in the format of this name; `width` limits text, None does not."""
    renderer = HTML if name == "html" else next(one for one in RENDERERS if one.name == name)
    out = io.StringIO()
    renderer.render(document, RenderSpec(width), out)
    return out.getvalue()
