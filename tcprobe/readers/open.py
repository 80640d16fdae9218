"""Open any profile: find the files of each format at a path, read them, and join those of one run."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.errors import EmptyInput, InputError, MissingInput, UnreadableInput, UsageError, WrongFormat
from tcprobe.foreign import GZIP, SQLITE, ZIP, head, leads_out, opened
from tcprobe.probe.constants import RECORD, WITH_XSPACE
from tcprobe.progress import begin
from tcprobe.readers import READERS
from tcprobe.readers.base import Holder, Reader, Refusal
from tcprobe.readers.merge import merge
from tcprobe.readers.one_run import away, few, left_notes, left_out, over_notes, session_of, several_runs
from tcprobe.schema.profile import Note, Profile, ProfileSource

LARGEST: Final = 1 << 62  # each reader has its own limit
MOST_NAMES: Final = 10_000  # compared with a name that is not there


class FormatFiles(Struct, frozen=True):
    """The files of one format that a path holds."""

    reader: Reader
    files: list[Path]

    def read(self) -> Profile:
        """Read them, as `Reader.read`."""
        begin(f"reading {self.files[0].name}" + (f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""))
        return self.reader.read(self.files)

    def unread(self, why: str) -> ProfileSource:
        """Return the source that says that these files were not read, and why."""
        return ProfileSource(self.reader.FORMAT, tuple(str(file) for file in self.files), unread=why)


def open_profile(path: Path, readers: Sequence[Reader] = READERS) -> Profile:
    """Read the profile at `path`: a run folder, a profile file, or a directory that holds one.

    Of several formats the richest (the order of `readers`) gives all that it has. Those that are of the same run,
    for they lie in the same run folder or the same session folder, add what it lacks; of the others nothing is read
    and a note names them. `Metadata.sources` says what was taken from which.

    Raises:
        MissingInput: there is nothing at `path`.
        EmptyInput: the file has no bytes, or the directory holds no profile.
        WrongFormat: the file is of no format that is known.
        UnreadableInput: the system refused to read it.
        UsageError: the directory holds several runs; the message lists them.
        InputError: whatever the reader finds wrong with it.
    """
    _check_readable(path)
    found = find_formats(path, readers)
    if not found:
        raise _nothing(path, readers)
    first = found[0]
    over = first.reader.passes_over(path, first.files) if isinstance(first.reader, Holder) else []
    if len({file.parent for file in first.files}) > 1:
        raise several_runs(path, first.files, over)
    others = [other for other in found[1:] if not _inside(other.files, first.files)]
    if isinstance(first.reader, Holder):
        profile = _held(first.reader, first.files, readers).with_notes(*over_notes(path, over))
        profile = _with_second(profile, first.reader, first.files, readers)
    else:
        session = session_of(first.files)
        same_run = [other for other in others if session is not None and session_of(other.files) == session]
        others = [other for other in others if other not in same_run]
        profile = _joined(first.read(), same_run).with_notes(*left_notes(path))
    return _with_others(profile, first.reader, others)


def find_formats(path: Path, readers: Sequence[Reader]) -> list[FormatFiles]:
    """Return the files of each format that `path` holds, richest first; `_held` looks into a run folder.

    A file is of one format: where two readers find it, of the richer one's.
    """
    found: list[FormatFiles] = []
    taken: set[Path] = set()
    for reader in readers:
        if files := [file for file in reader.finds(path) if file not in taken]:
            taken.update(files)
            found.append(FormatFiles(reader, files))
            if isinstance(reader, Holder) and path in (files[0], files[0].parent):
                break
    return found


def _read_all(found: Sequence[FormatFiles]) -> tuple[list[Profile], list[tuple[FormatFiles, Refusal]]]:
    """Read each source; one that cannot be read costs its tables and nothing else."""
    profiles: list[Profile] = []
    refused: list[tuple[FormatFiles, Refusal]] = []
    for one in found:
        try:
            profiles.append(one.read())
        except (InputError, UsageError) as error:
            refused.append((one, error))
    return profiles, refused


def _held(holder: Holder, files: list[Path], readers: Sequence[Reader]) -> Profile:
    """Read a run folder with all that the profilers left in it."""
    folder = holder.holds(files)
    elsewhere = leads_out(folder, files[0].parent)
    others = [r for r in readers if not isinstance(r, Holder)]
    inside = find_formats(folder, others) if folder.is_dir() and not elsewhere else []
    profiles, refused = _read_all(inside)
    errors = [away(folder)] if elsewhere else [error for _, error in refused]
    profile = holder.around(files, profiles, errors)
    return _with_unread(profile if elsewhere else profile.with_notes(*left_notes(folder)), refused)


def _with_second(profile: Profile, holder: Holder, files: list[Path], readers: Sequence[Reader]) -> Profile:
    """Lend a run the ops of a second run of the same program, whose folder lies in its own."""
    second = files[0].parent / WITH_XSPACE
    if not second.is_dir() or leads_out(second, files[0].parent) or holder.finds(second) != [second / RECORD]:
        return profile
    from tcprobe.readers.borrow import with_ops_of

    return with_ops_of(profile, _held(holder, [second / RECORD], readers))


def _joined(profile: Profile, same_run: Sequence[FormatFiles]) -> Profile:
    """Join the richest source with the others of its run."""
    profiles, refused = _read_all(same_run)
    notes = [Note("unreadable-profile", error.message, error.hint) for _, error in refused]
    return _with_unread(merge([profile, *profiles]).with_notes(*notes), refused)


def _with_unread(profile: Profile, refused: Sequence[tuple[FormatFiles, Refusal]]) -> Profile:
    unread = (one.unread(error.message) for one, error in refused)
    return profile.with_metadata(sources=(*profile.metadata.sources, *unread))


def _check_readable(path: Path) -> None:
    if not os.path.lexists(path):
        raise MissingInput(path, "no such file or directory", _neighbours(path))
    if path.is_dir():
        try:
            next(iter(path.iterdir()), None)
        except OSError as error:
            raise UnreadableInput(path, f"cannot be read: {error.strerror}", "check the permissions") from error
        return
    with opened(path, LARGEST) as file:
        if not file.read(1):
            raise EmptyInput(
                path, "the file is empty", "the program that writes it failed or has not finished: read what it says"
            )


def _neighbours(path: Path) -> str:
    """Return what to type instead: files whose names resemble the missing one's."""
    from difflib import get_close_matches

    try:
        names = sorted(p.name for p in path.parent.iterdir())
    except FileNotFoundError:
        return f"{path.parent} does not exist either"
    except OSError:
        return "check the path"
    near = get_close_matches(path.name, names[:MOST_NAMES], n=3)
    return f"did you mean {' or '.join(str(path.parent / n) for n in near)}?" if near else "check the path"


def _nothing(path: Path, readers: Sequence[Reader]) -> EmptyInput | WrongFormat:
    *most, last = dict.fromkeys(reader.WHAT for reader in readers)
    known = f"{', '.join(most)}, or {last}" if most else last
    if path.is_dir():
        names = sorted(p.name for p in path.iterdir())
        held = f"it holds {few(names)}" if names else "it is empty"
        left = "".join(f"; {said}" for said in left_out(path))
        return EmptyInput(path, f"no profile in this directory ({held}{left})", f"expected {known}")
    return WrongFormat(path, f"not a profile: {_kind(path)}", f"expected {known}")


def _kind(path: Path) -> str:
    """Say in a few words what a file's first bytes look like."""
    start = head(path, 512) or b""
    magic = {
        SQLITE: "an SQLite database",
        GZIP: "gzip data",
        ZIP: "a zip archive",
        b"\x7fELF": "a program",
        b"%PDF": "a PDF",
    }
    if name := next((name for prefix, name in magic.items() if start.startswith(prefix)), None):
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
    homes = {file.parent for file in files if file.name == RECORD}
    return bool(homes) and all(any(o.is_relative_to(home) for home in homes) for o in other)


def _with_others(profile: Profile, reader: Reader, others: Sequence[FormatFiles]) -> Profile:
    if not others:
        return profile
    names = ", ".join(other.reader.FORMAT for other in others)
    note = Note(
        "other-formats-present",
        f"the {reader.FORMAT} profile was read; the directory also holds {names}, which was not",
        "give the path of a file to read that one",
        "note",
    )
    unread = (other.unread("nothing tells that it is of the same run") for other in others)
    return profile.with_notes(note).with_metadata(sources=(*profile.metadata.sources, *unread))
