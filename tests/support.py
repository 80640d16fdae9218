"""Helpers for the tests: where the real samples lie."""

from __future__ import annotations

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
