"""How Sphinx builds the documentation: `sphinx-build -W -c docs . build/docs`, as `.ci/docs` does.

The sources are the Markdown files as they stand in the repository: every link leads to the same place there and here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "tcprobe"
extensions = ["myst_parser"]
include_patterns = ["docs/**.md", "README.md", "SECURITY.md", "CHANGELOG.md"]
exclude_patterns = [".*", "bench", "build", "dist", "tcprobe", "tests", "workloads"]
root_doc = "docs/index"
myst_heading_anchors = 4
smartquotes = False  # would make one dash of the two before an option
html_theme = "furo"
html_title = project
html_static_path = html_css_files = ["pages.css"]
html_copy_source = html_show_sphinx = html_show_copyright = False
LINK = re.compile(r"\]\((?!https?:)([^)#]+)\.md\)")


def contents(_app: Any, name: str, source: list[str]) -> None:
    """Put the pages that a page lists into the table of contents, under its headings: Markdown has no word for that."""
    if name not in (root_doc, "docs/workloads"):
        return
    seen: set[str] = set()
    parts = re.split(r"(?m)^## (.+)\n", source[0])
    for heading, text in zip(["", *parts[1::2]], parts[::2], strict=True):
        pages = [page for page in dict.fromkeys(LINK.findall(text)) if page not in seen]
        seen.update(pages)
        options = [":hidden:", *([f":caption: {heading}"] if heading else [])]
        source[0] += "\n".join(["\n", "```{toctree}", *options, "", *pages, "```"]) if pages else ""


def front(app: Any, error: Exception | None) -> None:
    """Write the page that a server shows for the folder: it leads to the index."""
    if error is None:
        text = '<!doctype html><title>tcprobe</title><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def reachable(_app: Any, _name: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Let a keyboard scroll what is wider than the page, and tell a screen reader the level of a heading."""
    captions = str(context.get("furo_navigation_tree", ""))
    context["furo_navigation_tree"] = captions.replace('role="heading"', 'role="heading" aria-level="2"')
    body = str(context.get("body", "")).replace("<pre>", '<pre tabindex="0">')
    context["body"] = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')


def setup(app: Any) -> None:
    """Have Sphinx call what is above."""
    app.connect("source-read", contents)
    app.connect("html-page-context", reachable, priority=900)  # after the theme
    app.connect("build-finished", front)
