"""Takes out of what is kept where it was recorded: paths, the machine's name, the user's."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import ROOT

PATH: Final = re.compile(r"(?<![\w.+@~/-])/(?:[\w.+@~-]+/)+([\w.+@~-]*)")
"""An absolute path; of op names, devices and URLs none looks so."""
BOARD: Final = re.compile(r"\b(GPU|MIG)-[0-9a-f][0-9a-f-]{7,}[0-9a-f/]*")
"""A board's own number, as CUDA_VISIBLE_DEVICES may name it."""
DROPPED: Final = frozenset({"host", "cwd", "paths"})
"""Keys of run.json and of a report's metadata that say nothing else."""
NAMELESS: Final = frozenset({"", "root", "localhost"})
LEAST_BYTES: Final = 6  # a shorter name may stand in a raw trace by chance
HOSTNAMES: Final = 4  # field of XSpace
Cleaner = Callable[[str], str]


def cleaner(*places: Path) -> Cleaner:
    """Return what takes out paths: of the checkout and of `places` the head, of others all but the last name."""
    heads = sorted({str(path) for place in (*places, ROOT) for path in (place, place.resolve())}, key=len, reverse=True)

    def clean(text: str) -> str:
        for head in heads:
            text = text.replace(f"{head}/", "")
        return PATH.sub(r"\1", text)

    return clean


def without_names(clean: Cleaner, names: Iterable[str] | None = None) -> Cleaner:
    """Return a cleaner that takes out names of machine and user too, as whole words, and boards' numbers."""
    known = set(names) if names is not None else {platform.node(), platform.node().partition(".")[0], _user()}
    words = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(known - NAMELESS, key=len, reverse=True)]
    pattern = re.compile("|".join((*words, BOARD.pattern)))
    return lambda text: pattern.sub("***", clean(text))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""


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


def cleaned_trace(raw: bytes, *places: Path) -> bytes:
    """Return an XSpace without its list of host names, and with paths, machine and user written over.

    What is written over keeps its length, so that the file stays whole.
    """
    raw = b"".join(_fields(raw, HOSTNAMES))
    names = {str(ROOT), *map(str, places), str(Path.home()), platform.node(), _user()}
    for name in sorted(names, key=len, reverse=True):
        if len(name) >= LEAST_BYTES and name not in NAMELESS:
            raw = raw.replace(name.encode(), b"x" * len(name.encode()))
    return raw


def _fields(raw: bytes, dropped: int) -> Iterable[bytes]:
    """Yield the top-level fields of a message, all length-delimited as an XSpace's are, without one of them."""
    place = 0
    while place < len(raw):
        begin = place
        tag, place = _varint(raw, place)
        size, place = _varint(raw, place)
        place += size
        if tag & 7 != 2 or place > len(raw):
            raise ValueError(f"no XSpace: field {tag >> 3} at byte {begin}")
        if tag >> 3 != dropped:
            yield raw[begin:place]


def _varint(raw: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(raw):
        byte = raw[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            break
    return value, place
