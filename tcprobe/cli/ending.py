"""The standard streams, and how a command ends that fails.

A result that cannot be printed is an error with a name; what is told beside it is dropped. A failure that the user can
act on is two lines, a bug a log; no secret is in either.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Final, TextIO

from tcprobe import __version__
from tcprobe.errors import TcprobeError, cannot_write
from tcprobe.visible import say, tell

if TYPE_CHECKING:
    from typing_extensions import Buffer

CLOSED: Final = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""How the null device takes the place of a closed stream: reading input and writing results still fail."""


def guard_streams() -> None:
    """Replace the standard streams, so that none is None and a refusal of the system is told for what it is.

    A closed one would be None, and its number would go to the next file that is opened, into which libraries then log.
    """
    for number, access in CLOSED:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, access)  # takes the lowest free number
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a number; open until the end
    if _is_own(sys.stdout, 1):
        sys.stdout = _text(_Results(1, "w", closefd=False), sys.stdout, "strict")
    if _is_own(sys.stderr, 2):
        sys.stderr = _text(_Told(2, "w", closefd=False), sys.stderr, "backslashreplace")


class _Results(io.FileIO):
    """Standard output: the first refusal of the system is an OutputError, and what follows it is dropped."""

    failed = False

    def write(self, data: Buffer) -> int:
        size = len(memoryview(data))
        if self.failed or not size:  # click writes nothing, to learn whether a stream takes text
            return size
        try:
            return _written(self, data)
        except BrokenPipeError:
            self.failed = True
            raise
        except OSError as error:
            self.failed = True
            raise cannot_write("standard output", error) from error


class _Told(io.FileIO):
    """Standard error: what the system refuses is dropped, as it must cost neither the result nor the exit code."""

    def write(self, data: Buffer) -> int:
        try:
            return _written(self, data)
        except OSError:
            return len(memoryview(data))


def _written(stream: io.FileIO, data: Buffer) -> int:
    """Write to a stream and return how much; wait for one that another program made non-blocking."""
    while (count := io.FileIO.write(stream, data)) is None:
        import select

        select.select([], [stream], [])
    return count


def _is_own(stream: TextIO | None, number: int) -> bool:
    """Return whether a stream is the interpreter's own, or None; a program that calls `main` may have replaced it."""
    if stream is None:
        return True
    try:
        return type(stream) is io.TextIOWrapper and stream.fileno() == number
    except io.UnsupportedOperation:
        return False


def _text(raw: io.FileIO, old: TextIO | None, errors: str) -> io.TextIOWrapper:
    if not isinstance(old, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, line_buffering=raw.fileno() == 2)
    old.flush()
    return io.TextIOWrapper(
        raw if old.write_through else io.BufferedWriter(raw),
        old.encoding,
        old.errors,
        line_buffering=old.line_buffering,
        write_through=old.write_through,
    )


def say_failure(error: TcprobeError) -> int:
    """Say what failed, and what to do about it; return its exit code."""
    from tcprobe.masking import without_secrets

    say(f"error: {without_secrets(error.message)}")
    if error.hint:
        tell(f"hint: {without_secrets(error.hint)}")
    return error.exit_code


def report_bug(error: Exception) -> int:
    """Write the traceback of `error` to the state directory, print one line, and return exit code 3.

    Where it cannot be written, it is printed: this function itself does not fail.
    """
    import platform
    import traceback
    from pathlib import Path

    from tcprobe.masking import mask_words, without_secrets

    text = f"tcprobe {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text += f"command: {mask_words(sys.argv)}\n\n" + without_secrets("".join(traceback.format_exception(error)))
    say(f"internal error: {without_secrets(traceback.format_exception_only(error)[-1].strip())}")
    try:
        home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
        path = home / "tcprobe" / "last-error.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, RuntimeError, ValueError):  # RuntimeError: no home; ValueError: a null character in its name
        tell(*text.splitlines())
    else:
        tell(f"hint: this is a bug in tcprobe; please report it with {path}")
    return 3
