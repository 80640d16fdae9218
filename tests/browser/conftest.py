"""Chromium for all tests of pages, and where their pages lie."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    if CHROMIUM is None or find_spec("playwright") is None:
        pytest.skip("no Chromium on PATH, or no Playwright: .ci/browser gets both where they can be had")
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")
