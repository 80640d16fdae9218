"""What a program printed, as results may hold it: without paths of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.gpu.day import said
from bench.gpu.private import without_paths

ERROR: Final = "tcprobe: error: "


def hide(log: Path) -> str:
    """Return a log without paths; empty if there is none."""
    return without_paths(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else ""


def problem(log: Path) -> tuple[str, str | None]:
    """Return why a run of tcprobe failed, from the last error in its log, and its hint; the last line without one."""
    lines = hide(log).splitlines()
    errors = [number for number, text in enumerate(lines) if text.startswith(ERROR)]
    if not errors:
        return said(log) or "it ended without a word", None
    after = lines[errors[-1] + 1 :]
    hint = next((text.removeprefix("hint: ") for text in after if text.startswith("hint: ")), None)
    return lines[errors[-1]].removeprefix(ERROR), hint
