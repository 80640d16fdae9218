"""Shared by all tests: where the real samples lie, and a fixed terminal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def shared(path: str) -> Path:
    """Return a file of the shared samples; skip the test where the folder is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"real samples are not here: {found}")
    return found


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    for name in [n for n in os.environ if n.startswith("TCPROBE_")]:
        monkeypatch.delenv(name)
