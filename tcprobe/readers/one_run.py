"""Refuse a path that holds several runs and say which is the newest; say what the search for a profile left out."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tcprobe.errors import UsageError, WrongFormat
from tcprobe.foreign import left_below, modified, real_path
from tcprobe.schema.profile import Note

LISTED: Final = 8
ENDINGS: Final = (".pb", ".csv", ".json", ".sqlite", ".sqlite3", ".nsys-rep", ".qdrep", ".qdstrm")
MOST_SAID: Final = 3  # of each reason
_STAMP: Final = re.compile(r"(\d{4})_?(\d\d)_?(\d\d)[T_](\d\d)_?(\d\d)_?(\d\d)")  # of a session, of a run folder


def session_of(files: Sequence[Path]) -> Path | None:
    """Return the folder ``plugins/profile/SESSION`` that holds all files: what lies in one is of one run; else None."""
    folders = {file.parent for file in files}
    one = folders.pop() if len(folders) == 1 else None
    return one if one is not None and real_path(one).parts[-3:-1] == ("plugins", "profile") else None


def several_runs(path: Path, files: Sequence[Path], over: Sequence[Path] = ()) -> UsageError:
    """Return the error for a directory that holds several runs, each in a folder of its own.

    Lists the folders, and what lies in `path` itself file by file, the newest first; the hint names the newest. Runs
    that never ended, `over`, follow.
    """
    places = newest_first({file if file.parent == path else file.parent for file in files})
    said = f"{path}: {len(places)} profiles below this directory, the newest first: {few([str(p) for p in places])}"
    return UsageError("; ".join([said, *_unended(over)]), name_one(places))


def over_notes(path: Path, over: Sequence[Path]) -> Iterator[Note]:
    """Yield a note that names the runs below `path` that never ended, where another one is read."""
    for said in _unended(over):
        yield Note("unended-runs", f"{path}: {said}", name_one(newest_first(set(over))), "note")


def _unended(over: Sequence[Path]) -> Iterator[str]:
    if over:
        names = few([str(place) for place in newest_first(set(over))])
        yield f"besides {len(over)} whose run did not end, or goes on: {names}"


def not_one_run(files: Sequence[Path], why: str) -> UsageError:
    """Return the error for files of one folder that belong to different runs; `why` says how that shows."""
    shown = newest_first(set(files))
    said = f"{files[0].parent}: {len(files)} profiles that are no hosts of one run ({why}), the newest first: "
    return UsageError(said + few([p.name for p in shown]), name_one(shown))


def check_one(files: Sequence[Path], names: Sequence[str], what: str) -> None:
    """Check that reports that lie together are of one name.

    Args:
        files: which of them the hint may name.
        names: what each report's file name says that it is of.
        what: reports of how many things they are, with {} for the number.

    Raises:
        UsageError: the names differ.
    """
    distinct = list(dict.fromkeys(names))
    if len(distinct) > 1:
        said = f"{files[0].parent}: {what.format(len(distinct))} lie here: {few(distinct)}"
        raise UsageError(said, name_one(newest_first(set(files))))


def newest_first(places: set[Path]) -> list[Path]:
    """Sort by the time stamps in the names where all have one (a copy loses its own), else by modification."""
    stamps = {place: _STAMP.search(place.name) for place in places}
    if all(stamps.values()):
        return sorted(places, key=lambda p: (stamp.groups() if (stamp := stamps[p]) else (), str(p)), reverse=True)
    return sorted(places, key=lambda p: (-modified(p), str(p)))


def name_one(places: Sequence[Path]) -> str:
    """Return the hint that names the first place."""
    return f"name one of them, as in: tcprobe report {shlex.quote(str(places[0]))}"


def few(names: Sequence[str], most: int = LISTED) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def left_out(folder: Path) -> Iterator[str]:
    """Yield, for each reason, what was left out of a search below `folder`; nothing where `folder` is a file."""
    by_reason: dict[str, list[str]] = {}
    if folder.is_dir():
        for name, why in left_below(folder, lambda name: name.lower().endswith(ENDINGS)).items():
            by_reason.setdefault(why, []).append(os.path.relpath(name, folder))
    for why, names in by_reason.items():
        yield f"not read: {few(list(map(_short, names)), MOST_SAID)}: {why}"


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
