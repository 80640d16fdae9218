"""What can be shown: in a notebook, as text, as Markdown and as JSON."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tcprobe.report.document import Document


class Shown:
    """An object of the API that has a document: the report of its verb."""

    _rows_in_html: int | None = None  # of each table in a notebook; None as everywhere

    def _document(self, top: int | None = None, web: bool = False) -> Document:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._as("html", self._rows_in_html, fragment=True)

    def to_json(self) -> str:
        """Return everything as JSON."""
        return self._as("json")

    def _as(self, name: str, top: int | None = None, width: int | None = None, fragment: bool = False) -> str:
        from tcprobe.report import Renderer, RenderSpec

        out = io.StringIO()
        Renderer(name, ()).render(self._document(top, fragment), RenderSpec(width, fragment=fragment), out)
        return out.getvalue()
