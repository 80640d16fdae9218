"""Open any profile: find the files of each format at a path, read them, and join those of one run.

In the folder of a job each file names its rank, and no two name the same.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.errors import EmptyInput, InputError, MissingInput, UnreadableInput, UsageError, WrongFormat
from tcprobe.foreign import GZIP, SQLITE, ZIP, head, leads_out, opened
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import RANKS, RECORD, WITH_XSPACE
from tcprobe.progress import begin
from tcprobe.readers import READERS
from tcprobe.readers.base import Holder, Reader, Refusal
from tcprobe.readers.kineto import trace as kineto
from tcprobe.readers.merge import merge
from tcprobe.readers.nsys import database as nsys
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


_NAMED: Final = re.compile(r"(?:^|[^a-z])(?:rank|worker|process|task)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)


class RankFile(Struct, frozen=True):
    """The file, or run folder, of one rank."""

    path: Path
    rank: int | None  # None where a damaged file does not tell


class Job(Struct, frozen=True):
    """The ranks that lie in a folder, in their order."""

    files: tuple[RankFile, ...]
    notes: tuple[Note, ...] = ()  # what lies there besides, and how ranks are told
    some: bool = False  # whether some ranks alone were to be profiled


OF_RANKS: Final = (nsys.FORMAT, kineto.FORMAT)
"""Formats of which the files of one folder may be the ranks of a job."""


def find_job(path: Path, readers: Sequence[Reader] = READERS) -> Job | None:
    """Return the ranks of the job that a folder holds; None where it holds none, or a single profile.

    A run folder is one where its launcher started several ranks, each with a run folder within it. Otherwise all files
    of the richest format count. Two of the same number are of two jobs, and where most files have none it is no job.
    """
    if not path.is_dir():
        return None
    formats = find_formats(path, readers)
    if not formats:
        return None
    reader = formats[0].reader
    if isinstance(reader, Holder) and len(formats[0].files) == 1:
        ranks = formats[0].files[0].parent / RANKS
        return _started(ranks, readers) if ranks.is_dir() else None
    if len(formats[0].files) < 2:
        return None
    if len({file.parent for file in formats[0].files}) == 1 and reader.FORMAT not in OF_RANKS:
        return None  # the hosts of one session
    places = [file.parent if isinstance(reader, Holder) else file for file in formats[0].files]
    return _job(path, places, {place: _rank_of(place, reader) for place in places})


def _started(ranks: Path, readers: Sequence[Reader]) -> Job | None:
    """Return the ranks that a launcher started in one run, be it one alone."""
    formats = find_formats(ranks, readers)
    if not formats or not isinstance(formats[0].reader, Holder):
        return None
    files = [RankFile(file.parent, _recorded(file)) for file in formats[0].files]
    some = read_object(ranks.parent / RECORD).get("ranks") is not None
    return Job(_in_order(files), some=some)


def _in_order(files: Sequence[RankFile]) -> tuple[RankFile, ...]:
    return tuple(sorted(files, key=lambda one: (one.rank is None, one.rank or 0, one.path)))


def _job(path: Path, places: Sequence[Path], told: dict[Path, int | InputError | None]) -> Job | None:
    by_name = not any(isinstance(rank, int) for rank in told.values())
    ranks = {place: _named(place, path) if by_name else rank for place, rank in told.items()}
    files = [RankFile(p, r if isinstance(r, int) else None) for p, r in ranks.items() if r is not None]
    numbers = Counter(one.rank for one in files if one.rank is not None)
    if len(numbers) < 2 or max(numbers.values()) > 1 or 2 * len(files) <= len(places):
        return None
    notes = []
    if foreign := sorted(str(place.relative_to(path)) for place, rank in ranks.items() if rank is None):
        message = f"{path}: not read, as nothing tells which rank of the job it is: {few(foreign)}"
        notes.append(Note("not-of-the-job", message, "report it by itself"))
    if by_name:
        notes.append(Note("ranks-by-name", "which rank a file is of is told by its name alone", level="note"))
    return Job(_in_order(files), tuple(notes))


def _rank_of(place: Path, reader: Reader) -> int | InputError | None:
    """Return the number of a rank as its own file tells it; the error where that is damaged."""
    if isinstance(reader, Holder):
        return _recorded(place / RECORD)
    if reader.FORMAT not in OF_RANKS or nsys.looks_like_report(place):
        return None
    from tcprobe.readers.nsys.recording import peek_rank

    try:
        return kineto.peek_rank(place) if reader.FORMAT == kineto.FORMAT else peek_rank(place)
    except InputError as error:
        return error


def _recorded(record: Path) -> int | None:
    rank = read_object(record).get("rank")
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None


def _named(place: Path, folder: Path) -> int | None:
    found = _NAMED.findall(str(place.relative_to(folder)))
    return int(found[-1]) if found else None
