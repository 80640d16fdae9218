"""Markdown of a summary: tables and names of kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

MOST_NAME: Final = 160
UNKNOWN: Final = ""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table, columns whose head begins with ``#`` as numbers; nothing without rows."""
    lines = ["| " + " | ".join(map(cell, row)) + " |" for row in rows]
    if not lines:
        return []
    titles = " | ".join(title.lstrip("#") for title in head)
    return [f"| {titles} |", "|" + "|".join("--:" if t.startswith("#") else "---" for t in head) + "|", *lines, ""]


def cell(value: object) -> str:
    """Return a value as the text of a cell: on one line, a bar escaped, None empty."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return number(value)
    return re.sub(r"\s+", " ", str(value)).replace("|", "\\|")


def name(text: str) -> str:
    """Return a kernel's name as code, cut in its middle where it is long."""
    if len(text) > MOST_NAME:
        text = f"{text[: MOST_NAME // 2]}...{text[-MOST_NAME // 2 :]}"
    return f"`{text.replace('`', chr(39))}`" if text else UNKNOWN


def number(value: Any) -> str:
    """Return a number with three digits or all before the point; empty if unknown."""
    if value is None or value != value:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def micro(ns: float | None) -> str:
    """Return nanoseconds as microseconds."""
    return UNKNOWN if ns is None else number(ns / 1e3)
