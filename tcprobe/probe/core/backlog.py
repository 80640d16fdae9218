"""Training calls noted for later: once the window is over, a call costs a clock and an append, no more."""

from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Deque, Optional, Tuple

RETRACTED = -1


class Backlog:
    """Calls that the journal's thread hands to the stepper.

    Args:
        stepper: takes the calls, in order.
        resolve: turns function, `time.perf_counter_ns` and thread of a call in quick mode into key, steps and start;
            None where it does not count.

    Attributes:
        note: appends ``(key, steps, start_ns)``, key RETRACTED taking the call before back, or ``(function, clock,
            thread)``.
    """

    def __init__(self, stepper: Any, resolve: Callable[[Any, int, int], Optional[Tuple[int, int, int]]]) -> None:
        self._waiting: Deque[Tuple[Any, int, int]] = collections.deque()
        self._stepper = stepper
        self._resolve = resolve
        self._lock = threading.Lock()
        self.note = self._waiting.append

    def drain(self) -> None:
        """Hand over everything noted so far."""
        with self._lock:
            while self._waiting:
                what, first, second = self._waiting.popleft()
                call = (what, first, second) if isinstance(what, int) else self._resolve(what, first, second)
                if call is None:
                    continue
                if call[0] == RETRACTED:
                    self._stepper.retract()
                else:
                    self._stepper.call(*call)
