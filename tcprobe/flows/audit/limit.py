"""What one file may take of time, depth and memory: one that is made to be endless costs itself, not the audit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Final

from tcprobe.errors import UnreadableInput

MOST_SECONDS: Final = 8.0
"""Time of the processor to read, judge and mend a file; the largest of the files that people write take one second."""
SPLIT_FILE: Final = "audit the file that builds the model by itself, or a part of it"


class OutOfTimeError(Exception):
    """A file has kept the processor for as long as it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Do something for at most so many seconds of this process's own time; waiting for others does not count.

    Only the main thread can be interrupted; in another one it takes as long as it takes.

    Raises:
        OutOfTimeError: it took longer.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _expire)
    left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, left)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def within_limits(named: str, seconds: float | None) -> Iterator[None]:
    """Do something with a file that may be made to break what reads it, for at most `seconds`; None for any time.

    Raises:
        UnreadableInput: it takes more time, depth or memory than a file may.
    """
    try:
        with nullcontext() if seconds is None else at_most(seconds):
            yield
    except OutOfTimeError:
        raise UnreadableInput(named, f"is too much to judge: it takes more than {seconds:.0f} s", SPLIT_FILE) from None
    except RecursionError:
        raise UnreadableInput(named, "is nested too deeply to be judged") from None
    except MemoryError:
        raise UnreadableInput(named, "is too much to judge: memory ran out", SPLIT_FILE) from None


def _expire(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError
