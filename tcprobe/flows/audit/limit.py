"""How long one file may keep the processor: a file made to be endless costs itself, not the audit."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

MOST_SECONDS: Final = 8.0
"""Time of the processor to read, judge and mend a file; the largest of the files that people write take one second."""


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


def _expire(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError
