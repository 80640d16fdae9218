"""The columns of tables, as bench/gpu/README.md lists them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from tcprobe.cost.measured import MEASUREMENT_COLUMNS

README: Final = Path(__file__).parents[1] / "README.md"
_DESCRIBED: Final = re.compile(r"(?ms)^`([\w-]+\.csv\.gz)`([^:]*):(.*?)(?=\.\s|\n\n|\Z)")


@cache
def contract() -> dict[str, list[frozenset[str]]]:
    """Return the columns of each table by its file's name; several sets where a name has several kinds."""
    text = README.read_text(encoding="utf-8")
    while (bare := re.sub(r"\([^()]*\)", "", text)) != text:  # what stands in brackets describes values
        text = bare
    found: dict[str, list[frozenset[str]]] = {"raw.csv.gz": [frozenset(MEASUREMENT_COLUMNS)]}
    for name, _, body in _DESCRIBED.findall(text):
        found.setdefault(name, []).append(frozenset(re.findall(r"`(\w+)`", body)))
    return found


def missing(name: str, columns: set[str]) -> set[str] | None:
    """Return the columns that a table lacks, of the kind that it lacks the fewest of; None if nothing describes it."""
    kinds = contract().get(name)
    return None if kinds is None else set(min((kind - columns for kind in kinds), key=len))
