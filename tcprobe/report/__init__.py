"""The output formats, one renderer module each, and which of them each kind of document has."""

from __future__ import annotations

from typing import Final, Literal

from tcprobe.report.base import Renderer

DocumentKind = Literal["run", "audit", "key_node", "compare"]

RENDERERS: Final[tuple[Renderer, ...]] = (
    Renderer("text", (".txt",)),
    Renderer("csv", (".csv",)),
    Renderer("json", (".json",)),
    Renderer("markdown", (".md", ".markdown")),
    Renderer("sarif", (".sarif",)),
    Renderer("github", ()),
)

FORMATS: Final[dict[DocumentKind, tuple[str, ...]]] = {
    "run": ("text", "csv", "json", "markdown"),
    "audit": ("text", "json", "csv", "markdown", "sarif", "github"),
    "key_node": ("text", "csv", "json", "markdown"),
    "compare": ("text", "json", "csv", "markdown"),
}
"""The formats of each kind of document, in the order in which its verb lists them."""


def renderers(kind: DocumentKind) -> tuple[Renderer, ...]:
    """Return the renderers for a kind of document."""
    named = {renderer.name: renderer for renderer in RENDERERS}
    return tuple(named[name] for name in FORMATS[kind])
