"""Helpers for the tests: paths of the repository and of real samples, notebooks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
)
NO_NSYS = "Nsight Systems (nsys) is not on PATH (.ci/nsys puts it there on Debian)"
ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
TORCH = ROOT / ".torch" / "bin" / "python"
"""Where .ci/run puts PyTorch's CPU build."""


def run_with_torch(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python that has PyTorch; skip where none has it, and fail where the program does."""
    command = [str(TORCH) if TORCH.exists() else sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if "No module named 'torch'" in done.stderr:
        pytest.skip("PyTorch is not installed (.ci/run installs its CPU build where it can be had)")
    assert done.returncode == 0, done.stderr
    return done


NOBODY = 65534
"""A user without rights, on most systems."""


@contextmanager
def without_rights() -> Iterator[None]:
    """Be a user who may not look into everything and write everywhere, as root may."""
    if os.getuid():
        yield
        return
    group = os.getegid()
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)


@contextmanager
def place_for_all() -> Iterator[Path]:
    """Make a folder that every user may write; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def examples(few: int) -> int:
    """Return how many made-up inputs a slow test tries: `few`, and with `--long` as many times more as the others."""
    return few * settings().max_examples // 100


def mostly_long(every: Iterable[Any], kept: Callable[[Any], bool]) -> list[Any]:
    """Mark the cases that take the way of one that is kept: they run with `--long` alone."""
    return [one if kept(one) else pytest.param(*one, marks=pytest.mark.long) for one in every]


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
