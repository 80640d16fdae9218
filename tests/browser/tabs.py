"""Pages that are open in a browser, and what it says of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis import Options
from tcprobe.flows.report import make_report
from tcprobe.report.document import Document, ReportSpec
from tcprobe.report.run.document import RunDocument
from tests.report.builders import rendered
from tests.support import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
SOURCES = {
    "run folder": FIXTURES / "gpu_run/run",
    "XSpace, JAX": FIXTURES / "h100/jax_bfloat16_odd.xplane.pb",
    "XSpace, two GPUs": FIXTURES / "xplane/two_gpus.xplane.pb",
    "DLProf": FIXTURES / "dlprof/tf2_1.8",
    "PyTorch": FIXTURES / "kineto/cpu.pt.trace.json.gz",
    "CPU": FIXTURES / "cpu_runs/gan",
}
KERNELS = "#kernels"


@cache
def of_path(path: Path) -> RunDocument:
    return RunDocument(make_report(path, Options(timeline=True)), ReportSpec(web=True))


_PAGES: dict[int, tuple[Document, str]] = {}
"""The pages of documents, by the identity of these."""


def html_of(document: Document) -> str:
    """Return the page of a document, made once: most tests open that of one run."""
    if id(document) not in _PAGES:
        _PAGES[id(document)] = document, rendered("html", document)
    return _PAGES[id(document)][1]


class Tab:
    """A page that is open, and what a browser says of it."""

    def __init__(self, browser: Any, file: Path, document: Document | None = None, **context: Any) -> None:
        if document is not None:
            file.write_text(html_of(document), encoding="utf-8", errors="backslashreplace")
        self.file, self.said, self.requests = file, list[str](), list[str]()
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **context)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def column(self, name: str, table: str = KERNELS) -> list[str]:
        """Return the raw values of a column of the rows that are seen, else their text."""
        found = self.page.eval_on_selector(
            table,
            """(table, name) => {
                const at = [...table.tHead.rows[0].cells].findIndex((head) => head.dataset.c === name);
                return [...table.tBodies[0].rows].filter((row) => !row.classList.contains("more"))
                    .map((row) => row.cells[at].dataset.v ?? row.cells[at].textContent);
            }""",
            name,
        )
        return list(found)

    def fold_out(self, table: str = KERNELS) -> None:
        self.page.eval_on_selector(table, "table => table.closest('main > details').open = true")

    def is_quiet(self) -> bool:
        """Return whether the browser had nothing to say, and asked for nothing but the page and its empty icon."""
        asked = [url for url in self.requests if url != "data:," and not url.startswith(self.file.as_uri())]
        return not self.said and not asked


def barriers(tab: Tab, *rules: str) -> list[str]:
    """Return what axe-core says that bars people from a page, serious or critical, by these rules or all."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-core: .ci/browser gets it").Axe()
    asked = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
    found = axe.run(tab.page, options=asked).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def barriers_in_both_colours(tab: Tab) -> list[str]:
    """Return what bars people from a page in light or dark colours, between which only contrast differs."""
    found = barriers(tab)
    tab.page.emulate_media(color_scheme="dark")
    return found + barriers(tab, "color-contrast")
