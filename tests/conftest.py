"""Shared by all tests: a fixed, plain terminal and no settings of the developer's own."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [n for n in os.environ if n.startswith("TCPROBE_")]:
        monkeypatch.delenv(name)
