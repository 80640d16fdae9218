"""Tells threads that train apart: one has the steps, and calls of others are only counted."""

from __future__ import annotations

import collections
import sys
import threading
from threading import get_ident
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Set

from .journal import CallLog

TAKES_OVER = 8  # calls of a thread after which it may have the steps instead of one that is silent, or made fewer
SILENT = 16  # usual distances between two calls of a thread, without one: a validation may be as long
MOST_KEPT = 64  # calls of a thread that may still become steps


class Here(threading.local):
    """What this thread runs.

    Attributes:
        inside: a call from outside any other, so that calls within it are parts of it.
        current: what is being called; None outside, and in a call that nothing asks about.
        helps: it is a thread of the framework's, and works for a call in another; None while nobody has asked.
    """

    inside = False
    current: Any = None
    helps: Optional[bool] = None


class Aside(NamedTuple):
    """A training call in a thread that does not have the steps.

    Attributes:
        callee: what was called.
        start: in ns since the start of the workload.
        steps: that it makes.
    """

    callee: Any
    start: int
    steps: int


class Threads:
    """The threads that train.

    Args:
        log: keeps the calls of those that do not have the steps.

    Attributes:
        here: what this thread runs.
        callers: threads that are inside a call.
        apart: a thread has trained that does not have the steps.
        helps: says whether a thread is the framework's own: replicas of a distributed model run in such.
    """

    def __init__(self, log: CallLog) -> None:
        self.here = Here()
        self.callers: Set[int] = set()
        self.helps: Callable[[threading.Thread], bool] = lambda _: False
        self.apart = False
        self._log = log
        self._made = 0  # calls of the thread that has the steps
        self._since = self._last = 0  # starts of the first and the latest of them
        self._aside: Dict[int, Deque[Aside]] = {}  # latest calls of the others since then

    def is_inside(self) -> bool:
        """Say whether what runs is part of a call, in this thread or for one in another."""
        here = self.here
        return here.inside or (bool(self.callers) and self._helps(here))

    def _helps(self, here: Here) -> bool:
        if here.helps is None:
            own = next((thread for thread in threading.enumerate() if thread.ident == get_ident()), None)
            here.helps = own is None or own.name.startswith("Dummy-") or self.helps(own)
        return here.helps

    def enter(self, current: Any) -> None:
        """Begin a call, or what holds parts of one, in this thread."""
        self.here.inside, self.here.current = True, current
        self.callers.add(get_ident())

    def leave(self, inside: bool = False) -> None:
        """End what this thread began; `inside`: nothing is a call of its own any more."""
        self.here.inside, self.here.current = inside, None
        self.callers.discard(get_ident())

    def called(self, start: int, calls: int = 1) -> None:
        """Note calls of the thread that has the steps, the latest of which began at `start`."""
        self._since = self._since if self._made else start
        self._made += calls
        self._last = start
        if self._aside:
            self.flush()

    def aside(self, thread: int, owner: Optional[int], call: Aside) -> List[Aside]:
        """Take a call of a thread that does not have the steps; return its latest ones where it has them from now on.

        It takes over where the other is gone; or is in no call, has made none for long, and waits for threads or never
        made many.
        """
        self.apart = True
        calls = self._aside.setdefault(thread, collections.deque())
        calls.append(call)
        if not self._gives_way(owner, call.start, len(calls)):
            if len(calls) > MOST_KEPT:
                self._keep(thread, calls.popleft())
            return []
        taken = list(self._aside.pop(thread))
        while taken and taken[0].start <= self._last:  # it was counted late
            self._keep(thread, taken.pop(0))
        self._made = 0 if taken else self._made
        return taken

    def _gives_way(self, owner: Optional[int], now: int, calls: int) -> bool:
        if calls == 1 and all(thread.ident != owner for thread in threading.enumerate()):
            return True
        usual = (self._last - self._since) / max(1, self._made - 1)
        if calls < TAKES_OVER or owner in self.callers or now - self._last <= SILENT * usual:
            return False
        frame = sys._current_frames().get(owner or 0)
        return self._made < TAKES_OVER or frame is None or frame.f_code.co_filename == threading.__file__

    def flush(self) -> None:
        """Keep the calls of threads that did not take over."""
        while self._aside:
            thread, calls = self._aside.popitem()
            for call in calls:
                self._keep(thread, call)

    def _keep(self, thread: int, call: Aside) -> None:
        call.callee.made += call.steps
        self._log.add(call.callee.key, call.start, call.steps, thread)
