"""Helpers for the tests: paths of the repository and of real samples, notebooks."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

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


def notebook_text(*cells: str | list[str], **metadata: Any) -> str:
    """Return a notebook of code cells as Jupyter writes it; its language is Python unless `metadata` says otherwise."""
    made = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in cells
    ]
    whole = {"cells": made, "metadata": metadata or {"language_info": {"name": "python"}}}
    return json.dumps({**whole, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False)
