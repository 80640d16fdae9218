"""Ends a part of a script, or all of it some time after its first training call."""

from __future__ import annotations

import signal
import threading
from typing import Any, Callable

AGAIN = 2.0  # seconds after which a script that swallows its end is told again
MOST_TIMES = 3


class Stopped(BaseException):
    """The training step is known; what trains need not run on. No `except Exception` of the user's catches it."""


class Ended(Stopped):
    """Nothing of the script runs any more; the text says why."""


class Limit:
    """A timer for the main thread; without one in this system, or in another thread, the caller's limit stands.

    Args:
        seconds: until the script is ended.
        last: called when it has swallowed that several times.
    """

    def __init__(self, seconds: float, last: Callable[[], None]) -> None:
        self._seconds = seconds
        self._last = last
        self._times = 0
        self._began = False

    def start(self) -> None:
        """Begin to count, the first time."""
        main = threading.current_thread() is threading.main_thread()
        if not self._began and main and hasattr(signal, "setitimer"):
            self._began = True
            signal.signal(signal.SIGALRM, self._over)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, AGAIN)

    def stop(self) -> None:
        """End the count: what comes now is not the script's."""
        if self._began:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _over(self, *_: Any) -> None:
        self._times += 1
        if self._times > MOST_TIMES:
            self._last()
        raise Ended("%g s after its first training call" % self._seconds)
