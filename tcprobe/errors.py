"""All errors that a user can act on, as a tree of exceptions with codes.

TcprobeError                 one line for the user, a hint, a code, an exit code
├─ UsageError        E1xx    a bad option or argument value
├─ InputError        E2xx    a file that cannot be used
│  ├─ MissingInput   E201    it is not there
│  ├─ EmptyInput     E202    it holds no bytes, or no profile
│  ├─ WrongFormat    E203    it is something else, or damaged
│  ├─ UnsupportedVersion E204  right format, wrong version
│  └─ UnreadableInput E205   the system refused to read it
├─ OutputError       E3xx    a result that cannot be written (exists, no permission)
├─ ToolError         E4xx    a profiler or interpreter that is missing or failed
└─ MeasurementFailed E5xx    the workload ran, but what it should measure was not recorded

Any other exception that escapes is a bug in tcprobe: exit code 3. `Interrupted` is no failure: exit code 130.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final


class TcprobeError(Exception):
    """A failure that the user can act on: one line, and a hint on what to do.

    Args:
        message: what was found and what was expected, without a trailing full stop.
        hint: the next thing to try; None if there is none.
    """

    code = "E000"
    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Interrupted(BaseException):
    """Ctrl-C within a verb; of a KeyboardInterrupt typer would make an exit code and no word."""


class UsageError(TcprobeError):
    """A command-line option or argument that cannot be used."""

    code = "E101"


class InputError(TcprobeError):
    """An input file that cannot be used.

    Args:
        path: the file, as the user named it.
        found: what is wrong with it.
        hint: what to do.
    """

    code = "E200"

    def __init__(self, path: Path | str, found: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {found}", hint)
        self.path = path
        self.found = found


class MissingInput(InputError):
    """The file or directory does not exist."""

    code = "E201"


class EmptyInput(InputError):
    """The file is empty, or the directory holds no profile."""

    code = "E202"


class WrongFormat(InputError):
    """The file is not what its place or name promises, or it is damaged."""

    code = "E203"


class UnsupportedVersion(InputError):
    """The format is known; this version of it is not."""

    code = "E204"


class UnreadableInput(InputError):
    """The operating system refused to read the file."""

    code = "E205"


class OutputError(TcprobeError):
    """A result cannot be written: it exists already, or the system refused."""

    code = "E301"


class ToolError(TcprobeError):
    """A profiler, interpreter or other program is missing or failed."""

    code = "E401"


class MeasurementFailed(TcprobeError):
    """The workload ran and what should have been measured was not recorded."""

    code = "E501"


WHAT_HELPS: Final = {
    errno.ENOSPC: "make room on its disk (space: df -h, inodes: df -i), or choose another place",
    errno.EDQUOT: "the quota of this user is used up: make room, or choose another place",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f), or choose another place",
    errno.EROFS: "choose a place on a file system that can be written",
    errno.EIO: "the disk or its connection fails: choose another place",
    errno.EBADF: "it is closed: leave it open, or choose another place with -o",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "the machine has too many files open: end what holds them",
    errno.ENOMEM: "free memory on this machine",
    errno.ENAMETOOLONG: "no file system takes a name as long: give a shorter one",
    errno.ELOOP: "its links lead in a circle: name the file itself",
    errno.ENOTDIR: "a part of it that should be a folder is a file: check the path",
    errno.EAGAIN: "raise the limit on processes (ulimit -u)",
}
"""What to do about a refusal of the system; any other is a matter of permissions or names."""


def cannot_write(path: Path | str, error: OSError) -> OutputError:
    """Return the error that says where the system refused to write, why, and what helps."""
    helps = WHAT_HELPS.get(error.errno or 0, "check the folder and its permissions, or choose another place")
    return OutputError(f"{path}: cannot be written: {error.strerror or error}", helps)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn a refusal of the system into an OutputError that names the file or folder."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def not_ours(error: Exception) -> TcprobeError | None:
    """Return the failure that the user can act on behind an exception that nothing else named; None for a bug.

    The system is out of something, the current folder is gone, or a library that tcprobe needs is damaged.
    """
    match error:
        case MemoryError():
            return TcprobeError("there is not enough memory", "raise the limit (ulimit -v), or free memory")
        case ImportError(name=name) if (name or "").partition(".")[0] != "tcprobe":
            said = (str(error).strip().splitlines() or [""])[0]
            what = f"{name or 'a library'} cannot be imported: {said}"
            return TcprobeError(what, "free memory, or install tcprobe again")
        case OSError(errno=errno.ENOENT, filename=None):
            gone = not _has_folder()
            what = "the current folder is gone" if gone else str(error.strerror)
            return TcprobeError(what, "change to a folder that exists" if gone else "set TMPDIR to a folder of yours")
        case OSError(errno=number) if number in WHAT_HELPS or number in (errno.EACCES, errno.EPERM):
            place = f"{error.filename}: " if error.filename is not None else ""
            helps = WHAT_HELPS.get(number, "check the permissions")
            return TcprobeError(f"{place}the system refused: {error.strerror}", helps)
    return None


def _has_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - the cheap one
    except OSError:
        return False
    return True
