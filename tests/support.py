"""Helpers for the tests: paths of the repository and of real samples."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import settings

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def examples(few: int) -> int:
    """Return how many made-up inputs a slow test tries: `few`, and with `--long` as many times more as the others."""
    return few * settings().max_examples // 100


def shared(path: str) -> Path:
    """Return a file of the shared samples; skip the test where the folder is absent."""
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"real samples are not here: {found}")
    return found
