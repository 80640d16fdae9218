"""Say what the search for a profile left out: links that lead elsewhere, what is no file, and what is too much."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tcprobe.errors import WrongFormat
from tcprobe.foreign import left_below
from tcprobe.schema.profile import Note

ENDINGS: Final = (".pb", ".csv", ".json", ".sqlite", ".sqlite3", ".nsys-rep", ".qdrep", ".qdstrm")
MOST_SAID: Final = 3  # of each reason


def left_out(folder: Path) -> Iterator[str]:
    """Yield, for each reason, what was left out of a search below `folder`; nothing where `folder` is a file."""
    by_reason: dict[str, list[str]] = {}
    if folder.is_dir():
        for name, why in left_below(folder, _may_be_one).items():
            by_reason.setdefault(why, []).append(os.path.relpath(name, folder))
    for why, names in by_reason.items():
        more = f" and {len(names) - MOST_SAID} more" if len(names) > MOST_SAID else ""
        yield f"not read: {', '.join(_short(name) for name in names[:MOST_SAID])}{more}: {why}"


def _may_be_one(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _short(name: str) -> str:
    """Return a path of many levels by its ends."""
    return name if len(name) <= 120 else f"{name[:40]}...{name[-40:]}"


def left_notes(folder: Path) -> Iterator[Note]:
    """Yield the same as notes."""
    for said in left_out(folder):
        yield Note("left-out", f"{folder}: {said}", "name a file or folder itself to have it read", "note")


def away(raw: Path) -> WrongFormat:
    """Return why a folder of raw files that lies elsewhere is not read."""
    found = f"a link that leads out of the run folder, to {os.path.realpath(raw)}: it was not followed"
    remedy = "move the whole run folder and link to that, or put the files back; or report them by themselves"
    return WrongFormat(raw, found, remedy)
