"""Training calls noted for later: once the window is over, a call costs a clock and an append, no more."""

from __future__ import annotations

import collections
import threading
from typing import Any, Deque, Tuple

RETRACTED = -1


class Backlog:
    """Calls that the journal's thread hands to the stepper.

    Args:
        stepper: takes the calls, in order.

    Attributes:
        note: appends ``(key, weight, start_ns)``; key RETRACTED takes the call before back.
    """

    def __init__(self, stepper: Any) -> None:
        self._waiting: Deque[Tuple[int, int, int]] = collections.deque()
        self._stepper = stepper
        self._lock = threading.Lock()
        self.note = self._waiting.append

    def drain(self) -> None:
        """Hand over everything noted so far."""
        with self._lock:
            while self._waiting:
                key, weight, start = self._waiting.popleft()
                if key == RETRACTED:
                    self._stepper.retract()
                else:
                    self._stepper.call(key, weight, start)
