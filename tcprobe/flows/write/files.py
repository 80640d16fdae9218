"""Write files completely or not at all; imports little, as every audit with an output file uses it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from tcprobe.errors import OutputError, writing
from tcprobe.visible import UNENCODABLE


def refuse_existing(paths: list[Path], force: bool) -> None:
    """Raise OutputError if one of the files exists and `force` is false, or if one is no file but a device or pipe."""
    for path in paths:
        if path.exists() and not path.is_file():
            what = "is a folder" if path.is_dir() else "exists and is no file"
            raise OutputError(f"{path}: {what}", "choose another name; -o - is standard output")
    existing = [p for p in paths if p.exists() or p.is_symlink()]
    if existing and not force:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise OutputError(f"{existing[0]}: exists already{more}", "--force replaces it, or choose another name for -o")


def write_files(jobs: Sequence[tuple[Path, Callable[[TextIO], None]]], force: bool) -> list[Path]:
    """Write all files under temporary names beside their own, then rename them; a failure leaves no file behind.

    Raises:
        OutputError: a file exists and `force` is false, or the system refused.
    """
    refuse_existing([path for path, _ in jobs], force)
    written: list[tuple[Path, Path]] = []
    try:
        for path, write in jobs:
            with writing(path):
                written.append((_temporary(path), path))
                with written[-1][0].open("x", encoding="utf-8", errors=UNENCODABLE, newline="") as out:
                    write(out)
        for temporary, path in written:
            with writing(path):
                temporary.replace(path)
    finally:
        for temporary, _ in written:
            with suppress(OSError):  # what failed before is what counts
                temporary.unlink(missing_ok=True)
    return [path for _, path in written]


def _temporary(path: Path) -> Path:
    """Return a short name that nobody else has: the longest names leave no room for more, and links may be waiting."""
    return path.with_name(f".tcprobe-{os.urandom(6).hex()}.tmp")
