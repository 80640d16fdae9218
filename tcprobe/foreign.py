"""The door for names of files and folders, and for files that others made: regular ones only, never waited on.

A FIFO waits for a writer, a device has no end, a link leads anywhere, and a folder may hold more than anyone can list.
They are never read past the size that was checked. A name is what a user typed, or gave to the Python API. What cannot
be read is one error with its reason; what a search leaves out is listed.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from msgspec import Struct

from tcprobe.errors import WHAT_HELPS, MissingInput, UnreadableInput, UsageError, WrongFormat, writing

MOST_ENTRIES: Final = 200_000  # of one search: half a second; a session of a profiler leaves a dozen files
MOST_LEVELS: Final = 64  # below the folder that was named; profiles lie four deep
SQLITE: Final = b"SQLite format 3\0"
"""What every SQLite database begins with."""
GZIP: Final = b"\x1f\x8b"
ZIP: Final = b"PK\x03\x04"
LEADS_OUT: Final = "a link that leads out of the folder"
_BUFFER: Final = 1 << 16
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
Entry: TypeAlias = os.DirEntry[str]
Level: TypeAlias = tuple[str, list[Entry], list[Entry]]


def input_path(name: str | os.PathLike[str]) -> Path:
    """Return the path of what a user wants read; where nothing is, the reader says what is missing.

    Raises:
        UsageError: the name is empty.
        MissingInput: it is a link that leads nowhere.
        UnreadableInput: the system cannot look it up: the name is too long or none that a file can have, or its way
            leads through a file, in a circle, or where this user may not look.
    """
    try:
        path = _looked_up(name)
    except OSError as error:
        raise _refusal(os.fspath(name), error) from error
    if path.is_symlink() and not path.exists():
        raise MissingInput(path, f"leads to {path.readlink()}, where nothing is", "check the link")
    return path


def output_path(name: str | os.PathLike[str]) -> Path:
    """Return the path of what a user wants written.

    Raises:
        UsageError: the name is empty.
        OutputError: the system cannot look it up, as in `input_path`.
    """
    with writing(os.fspath(name)):
        return _looked_up(name)


def _looked_up(name: str | os.PathLike[str]) -> Path:
    text = os.fspath(name)
    if not text:
        raise UsageError('"" names no file or folder', "an empty name: is a variable of the shell not set?")
    with suppress(FileNotFoundError):
        _status(text)
    return Path(text)


def _status(path: Path | str) -> os.stat_result:
    """Return what the system says about a path.

    Raises:
        OSError: it is not there or cannot be reached, also for a name that no file can have.
    """
    try:
        return os.stat(path)  # noqa: PTH116 - of a name as it is: a slash at its end counts
    except ValueError as error:  # NUL, half a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name") from error


def real_path(name: Path | str) -> Path:
    """Return the path that a name leads to; of links that lead in a circle the first again."""
    return Path(os.path.realpath(name))


class _Raw(io.RawIOBase):
    """A file that ends at a size, whatever is written behind it."""

    def __init__(self, file: io.FileIO, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int | None:
        got = self._file.readinto(memoryview(into)[: max(self._size - self._at, 0)])
        self._at += got or 0
        return got

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        at_end = whence == os.SEEK_END
        self._at = self._file.seek(offset + self._size if at_end else offset, os.SEEK_SET if at_end else whence)
        return self._at


@contextmanager
def opened(path: Path, most: int, within: Path | None = None) -> Iterator[BinaryIO]:
    """Open a regular file of at most `most` bytes, which ends where it ended then; errors of reading are told likewise.

    Args:
        path: the file; a link is followed.
        most: the largest size, in bytes.
        within: a folder that a link must not lead out of; None where the user named the file.

    Raises:
        MissingInput: there is no such file.
        WrongFormat: it is no regular file, is larger, or a link leads out of `within`.
        UnreadableInput: it is a folder, the system refused, or the memory does not hold it.
    """
    try:
        with _open(path, most, within) as file:
            yield file
    except FileNotFoundError:
        raise MissingInput(path, "no such file", "check the path") from None
    except OSError as error:
        raise _refusal(path, error) from error
    except MemoryError:
        found = "cannot be read: the memory does not hold it"
        raise UnreadableInput(path, found, "read it on a machine with more") from None


def _refusal(path: Path | str, error: OSError) -> UnreadableInput:
    helps = "check the permissions" if isinstance(error, PermissionError) else WHAT_HELPS.get(error.errno or 0)
    return UnreadableInput(path, f"cannot be read: {error.strerror or error}", helps)


@contextmanager
def _open(path: Path, most: int, within: Path | None) -> Iterator[BinaryIO]:
    """Open a file after a look at what it is: to open a device may already do something."""
    if within is not None and leads_out(path, within):
        raise WrongFormat(path, f"is {LEADS_OUT}, and is not followed", "put the file in its place")
    _check(path, _status(path), most)
    with io.FileIO(os.open(path, _FLAGS)) as file:
        found = os.fstat(file.fileno())
        _check(path, found, most)
        if not found.st_size and _holds_bytes(file.fileno()):
            raise WrongFormat(path, "is said to hold nothing and holds bytes: it is no ordinary file, or still written")
        with io.BufferedReader(_Raw(file, found.st_size), _BUFFER) as bounded:
            yield bounded


def _check(path: Path, found: os.stat_result, most: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise UnreadableInput(path, "cannot be read: it is a folder")
    if not stat.S_ISREG(found.st_mode):
        what = _KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise WrongFormat(path, f"is {what}, not a regular file", "write what it gives to a file, and name that")
    if found.st_size > most:
        raise WrongFormat(path, f"is too large: {size_text(found.st_size)}; at most {size_text(most)} are read")


def size_text(size: int) -> str:
    """Return a number of bytes as people write it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f}".removesuffix(".0") + f" {name}"
    return f"{size} bytes"


def _holds_bytes(descriptor: int) -> bool:
    """Whether a file without a size has content, as those of /proc; it is left where it was."""
    try:
        return bool(os.pread(descriptor, 1, 0))
    except BlockingIOError:
        return True


def read(path: Path, most: int, within: Path | None = None) -> bytes:
    """Return what a file holds; arguments and errors as for `opened`."""
    with opened(path, most, within) as file:
        return file.read(_length(file))


def _length(file: BinaryIO) -> int:
    """Return the size of an open file, which is then at its beginning; to ask for so much reads it at once."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def read_text(path: Path, most: int, within: Path | None = None, encoding: str = "utf-8") -> str:
    """Return the text of a file, its line ends as ``\\n``; arguments and errors as for `opened`.

    Raises:
        UnicodeError: it is no text in this encoding.
    """
    with opened(path, most, within) as file:
        return file.read(_length(file)).decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def encoding_of(start: bytes) -> str:
    """Return the encoding that a byte order mark names; UTF-8 without one."""
    return next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8")


def head(path: Path, size: int) -> bytes | None:
    """Return the first bytes of a regular file; None where it is none or cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        descriptor = os.open(path, _FLAGS)
        try:
            return os.read(descriptor, size) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        finally:
            os.close(descriptor)
    except OSError:
        return None


def is_there(path: Path | str) -> bool:
    """Say whether something is there that can be reached; `Path.exists` raises where that is refused."""
    return os.path.exists(path)  # noqa: PTH110


def is_folder(path: Path | str) -> bool:
    """Say whether there is a folder that can be reached."""
    return os.path.isdir(path)  # noqa: PTH112


def is_file(path: Path | str, within: Path | None = None) -> bool:
    """Say whether there is a regular file that can be reached, and no link to it leads out of `within`."""
    return os.path.isfile(path) and not (within is not None and leads_out(path, within))  # noqa: PTH113


def modified(path: Path) -> float:
    """Return when a file was changed last, in seconds since the epoch; 0 where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def leads_out(path: Path | str, home: Path | str) -> bool:
    """Say whether a path lies outside a folder once links are followed."""
    real, root = os.path.realpath(path), os.path.realpath(home)
    return os.path.commonpath((real, root)) != root


class Below(Struct, frozen=True):
    """What a search found."""

    files: tuple[Path, ...]  # regular files, by path
    left: dict[str, str]  # what was left out, and why


def below(folder: Path, wanted: Callable[[str], bool]) -> Below:
    """Return the regular files in and below a folder whose names are wanted, and what was left out.

    A link to a file in the folder counts as a file; one to a folder in it is passed over, as that is searched itself.
    """
    left: dict[str, str] = {}
    files = [Path(found) for found in _found(folder, wanted, left)]
    return Below(tuple(sorted(files)), left)


def left_below(folder: Path, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Return what `below` leaves out, and why."""
    left: dict[str, str] = {}
    deque(_found(folder, wanted, left), maxlen=0)
    return left


def _found(folder: Path, wanted: Callable[[str], bool], left: dict[str, str]) -> Iterator[str]:
    for _, _, others in walk(folder, left):
        for entry in others:
            named = wanted(entry.name)
            why = _why_not(entry, folder, named)
            if why:
                left[entry.path] = why
            elif why is None and named:
                yield entry.path


def _why_not(entry: Entry, home: Path, wanted: bool) -> str | None:
    """Return why an entry that is no folder is not read; empty where nobody wants to know, None for a file."""
    if entry.is_file(follow_symlinks=False):
        return None
    try:
        kind = stat.S_IFMT(entry.stat().st_mode)
    except OSError as error:
        return f"cannot be read: {error.strerror}" if wanted else ""
    if not wanted and kind != stat.S_IFDIR:
        return ""
    if entry.is_symlink() and leads_out(entry.path, home):
        return LEADS_OUT
    return {stat.S_IFREG: None, stat.S_IFDIR: ""}.get(kind, _KINDS.get(kind, "no file"))


def walk(folder: Path | str, left: dict[str, str], most: int = MOST_ENTRIES) -> Iterator[Level]:
    """Yield a folder and those below it, nearest first: its path, the folders in it, and all else.

    Links to folders count as else and are not followed. A caller may take folders out of the list. What is not
    searched is added to `left` with the reason: what the system refuses, and what passes `most` entries or
    `MOST_LEVELS` levels.
    """
    pending = deque([(os.fspath(folder), 0)])
    while pending:
        here, level = pending.popleft()
        if level > MOST_LEVELS:
            left[here] = f"not searched: it lies more than {MOST_LEVELS} levels deep"
            continue
        try:
            entries = _entries(here, most)
        except OSError as error:
            left[here] = f"cannot be read: {error.strerror}"
            continue
        if len(entries) > most:
            left[os.fspath(folder)] = f"not searched to its end: it holds more than {MOST_ENTRIES:,} entries"
            return
        most -= len(entries)
        folders, others = _parted(entries)
        yield here, folders, others
        pending.extend((entry.path, level + 1) for entry in folders)


def folders_in(folder: Path | str) -> list[Path]:
    """Return the folders in a folder, links left out, by name; none where it cannot be listed."""
    _, folders, _ = next(walk(folder, {}), ("", [], []))
    return [Path(entry.path) for entry in folders]


def _entries(folder: str, most: int) -> list[Entry]:
    with os.scandir(folder) as listed:
        return sorted((entry for entry, _ in zip(listed, range(most + 1), strict=False)), key=attrgetter("name"))


def _parted(entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    folders: list[Entry] = []
    others: list[Entry] = []
    for entry in entries:
        (folders if entry.is_dir(follow_symlinks=False) else others).append(entry)
    return folders, others
