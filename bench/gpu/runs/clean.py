"""Takes out of what is kept where it was recorded: paths, the machine's name, the user's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import ROOT
from bench.gpu.private import own_names, without_paths

BOARD: Final = re.compile(r"\b(GPU|MIG)-[0-9a-f][0-9a-f-]{7,}[0-9a-f/]*")
"""A board's own number, as CUDA_VISIBLE_DEVICES may name it."""
DROPPED: Final = frozenset({"host", "cwd", "paths"})
"""Keys of run.json and of a report's metadata that say nothing else."""
Cleaner = Callable[[str], str]


def cleaner(*places: Path) -> Cleaner:
    """Return what takes out paths: of the checkout and of `places` the head, of others all but the last name."""
    heads = sorted({str(path) for place in (*places, ROOT) for path in (place, place.resolve())}, key=len, reverse=True)

    def clean(text: str) -> str:
        for head in heads:
            text = text.replace(f"{head}/", "")
        return without_paths(text)

    return clean


def without_names(clean: Cleaner, names: Iterable[str] | None = None) -> Cleaner:
    """Return a cleaner that takes out names of machine and user too, as whole words, and boards' numbers."""
    known = own_names() if names is None else names
    words = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(known, key=len, reverse=True)]
    pattern = re.compile("|".join((*words, BOARD.pattern)))
    return lambda text: pattern.sub("***", clean(text))


def cleaned(tree: Any, clean: Cleaner) -> Any:
    """Return a tree of JSON with every text cleaned, and without the keys that say where it was recorded."""
    if isinstance(tree, dict):
        return {key: cleaned(value, clean) for key, value in tree.items() if key not in DROPPED}
    if isinstance(tree, list):
        return [cleaned(value, clean) for value in tree]
    return clean(tree) if isinstance(tree, str) else tree


def cleaned_report(report: dict[str, Any], clean: Cleaner) -> dict[str, Any]:
    """Return a report as JSON, cleaned: its tables and advice of paths, what describes the run of names too."""
    about = ("metadata", "notes", "absent")
    return {key: cleaned(value, without_names(clean) if key in about else clean) for key, value in report.items()}
