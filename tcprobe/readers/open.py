"""Open any profile: find which formats a path holds, choose the richest, read it."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

from tcprobe.errors import EmptyInput, MissingInput, UnreadableInput, WrongFormat
from tcprobe.readers import READERS
from tcprobe.readers.base import Reader
from tcprobe.readers.one_run import few, several_runs
from tcprobe.schema.profile import Note, Profile

KNOWN = "a run folder of tcprobe, *.xplane.pb of TensorFlow or JAX, or the CSV or JSON reports of DLProf"


def open_profile(path: Path, readers: Sequence[Reader] = READERS) -> Profile:
    """Read the profile at `path`: a run folder, a profile file, or a directory that holds one.

    Of several formats in one directory the richest is read (the order of `READERS`), and a note names the rest.

    Raises:
        MissingInput: there is nothing at `path`.
        EmptyInput: the file has no bytes, or the directory holds no profile.
        WrongFormat: the file is of no format that is known.
        UnreadableInput: the system refused to read it.
        UsageError: the directory holds several runs; the message lists them.
        InputError: whatever the reader finds wrong with it.
    """
    _check_readable(path)
    found = [(reader, files) for reader in readers if (files := reader.finds(path))]
    if not found:
        raise _nothing(path)
    reader, files = found[0]
    if len({file.parent for file in files}) > 1:
        raise several_runs(path, files)
    profile = reader.read(files)
    others = [r for r, other in found[1:] if not _inside(other, files)]
    return _with_others(profile, reader, others)


def _check_readable(path: Path) -> None:
    try:
        if not path.exists():
            raise MissingInput(path, "no such file or directory", _neighbours(path))
        if path.is_dir():
            next(iter(path.iterdir()), None)
        else:
            with path.open("rb") as file:
                empty = not file.read(1)
            if empty:
                raise EmptyInput(path, "the file is empty", "the profiler may not have finished writing it")
    except OSError as error:
        raise UnreadableInput(path, f"cannot be read: {error.strerror}", "check the permissions") from error


def _neighbours(path: Path) -> str:
    """Return what to type instead: files whose names resemble the missing one's."""
    from difflib import get_close_matches

    try:
        names = sorted(p.name for p in path.parent.iterdir())
    except OSError:
        return f"{path.parent} does not exist either"
    near = get_close_matches(path.name, names, n=3)
    return f"did you mean {' or '.join(str(path.parent / n) for n in near)}?" if near else "check the path"


def _nothing(path: Path) -> EmptyInput | WrongFormat:
    if path.is_dir():
        names = sorted(p.name for p in path.iterdir())
        held = f"it holds {few(names)}" if names else "it is empty"
        return EmptyInput(path, f"no profile in this directory ({held})", f"expected {KNOWN}")
    return WrongFormat(path, f"not a profile: {_kind(path)}", f"expected {KNOWN}")


def _kind(path: Path) -> str:
    """Say in a few words what a file's first bytes look like."""
    with path.open("rb") as file:
        start = file.read(512)
    magic = {
        b"SQLite format 3\0": "an SQLite database",
        b"\x1f\x8b": "gzip data",
        b"PK\x03\x04": "a zip archive",
        b"\x7fELF": "a program",
        b"%PDF": "a PDF",
    }
    for prefix, name in magic.items():
        if start.startswith(prefix):
            return f"it is {name}"
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start)  # a character may be cut at the end
    except UnicodeDecodeError:
        return "its bytes are of no known format"
    first = text.splitlines()[0].strip() if text.strip() else ""
    shown = first if len(first) <= 40 else f"{first[:40]}..."
    return f"it is text that starts with {shown!r}"


def _inside(other: list[Path], files: list[Path]) -> bool:
    """Whether all of `other` belong to the run that `files` already stand for (a run folder's raw files)."""
    homes = {file.parent for file in files if file.name == "run.json"}
    return bool(homes) and all(any(o.is_relative_to(home) for home in homes) for o in other)


def _with_others(profile: Profile, reader: Reader, others: list[Reader]) -> Profile:
    if not others:
        return profile
    names = ", ".join(other.FORMAT for other in others)
    note = Note(
        "other-formats-present",
        f"the {reader.FORMAT} profile was read; the directory also holds {names}, which was not",
        "give the path of a file to read that one",
        "note",
    )
    return profile.with_notes(note)
