"""The documentation as HTML, in a browser: it asks for nothing, and nothing serious bars anyone from it."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import Tab, barriers_in_both_colours
from tests.support import ROOT

pytestmark = pytest.mark.browser
PAGES = ("index", "tutorial", "gallery", "errors")
"""Of each kind one: a list, commands with what they print, pictures, what is made from code."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `.ci/docs` built, else build it."""
    if (ROOT / "build/docs/docs").is_dir():
        return ROOT / "build/docs"
    python = ROOT / ".docs/bin/python"
    if not python.exists() and not all(map(find_spec, ("sphinx", "furo", "myst_parser"))):
        pytest.skip("the documentation is not built, and Sphinx is not here: .ci/docs gets it where it can be had")
    made = tmp_path_factory.mktemp("docs")
    command = [python if python.exists() else sys.executable, "-m", "sphinx", "-q", "-W", "-c", "docs", ".", made]
    subprocess.run(command, cwd=ROOT, check=True)
    return made


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_documentation_loads_nothing_and_bars_nobody(name: str, browser: Any, built: Path) -> None:
    file = built / "docs" / f"{name}.html"
    tab = Tab(browser, file)
    outside = [url for url in tab.requests if not url.startswith(("data:", built.as_uri()))]
    assert not tab.said and not outside
    assert not [one for one in tab.page.locator("article img").all() if not one.get_attribute("alt")]
    tab.page.set_viewport_size({"width": 400, "height": 800})
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert not barriers_in_both_colours(tab)
    tab.context.close()
