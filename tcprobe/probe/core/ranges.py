"""Marks steps and phases: NVTX ranges in domain `tcprobe`, and annotations of the framework's own profiler."""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional

from ..constants import DOMAIN, WINDOW_RANGE
from .gaps import Gaps

TOOL = "NVTX_INJECTION64_PATH"  # where a tool that listens names its library
DISABLED = "NVTX_DISABLE"  # package nvtx marks nothing where it is set
_NEVER = object()


class Annotations:
    """What marks steps and phases for a framework's profiler; this one marks nothing."""

    def open(self) -> None:
        """Get ready; called as the window opens."""

    def step(self, number: int) -> Optional[ContextManager[Any]]:
        """Return what marks step `number`."""

    def phase(self, name: str) -> Optional[ContextManager[Any]]:
        """Return what marks a phase."""


class Open(NamedTuple):
    """A range that is open: what marks it for the framework's profiler, and how many of NVTX were open before it."""

    annotation: Optional[ContextManager[Any]]
    outer: int


class Opened(threading.local):
    """The ranges that are open in this thread, in NVTX and altogether.

    A signal's handler, or the `KeyboardInterrupt` that it raises, comes between two steps of the interpreter. Where a
    range is begun or ended and remembered as such is one call of a function in C, so that neither can come between.

    Attributes:
        ranges: from the outside in.
        step: the first of them is a step.
    """

    def __init__(self, push: Optional[Callable[[Any], Any]], pop: Callable[[], Any]) -> None:
        # Every thread runs this anew, and drops what it has made as it ends.
        self.ranges: List[Open] = []
        self.step = False
        self._push = push
        self._pushed: List[Any] = []
        self._pop = zip(iter(self._pushed.pop, _NEVER), iter(pop, _NEVER))
        self._end = AtEnd(self._pushed, self._pop)

    def push(self, event: Any, annotation: Optional[ContextManager[Any]]) -> None:
        """Begin a range, in NVTX where there is an `event`."""
        self.ranges.append(Open(annotation, len(self._pushed)))
        if event is not None and self._push is not None:
            self._pushed.extend(map(self._push, (event,)))
        if annotation is not None:
            annotation.__enter__()

    def pop(self) -> None:
        """End the innermost range, and what is left open in it."""
        last = self.ranges.pop()
        if last.annotation is not None:
            last.annotation.__exit__(None, None, None)
        self._pop_to(last.outer)

    def pop_all(self) -> None:
        """End every range."""
        self.step = False
        while self.ranges:
            self.pop()
        self._pop_to(0)

    def _pop_to(self, count: int) -> None:
        while len(self._pushed) > count:
            next(self._pop)


class AtEnd:
    """Ends the ranges of NVTX that a thread leaves open: it belongs to the thread, and goes with it."""

    def __init__(self, pushed: List[Any], pop: Any) -> None:
        self._pid = os.getpid()
        self._pushed = pushed
        self._pop = pop

    def __del__(self) -> None:
        while self._pushed and os.getpid() == self._pid:  # a forked child has begun none of them
            next(self._pop)


class Ranges:
    """Opens and closes ranges; everything is free of effect until `active`.

    Every thread has ranges of its own, which it opens and closes itself.

    Attributes:
        active: the profiler's window is open, or a tool listens to NVTX.
        listening: a tool listens to NVTX.
        nvtx: how it is told: version of package nvtx, or "ctypes"; None where none listens or can be told.
        annotations: the framework's, once it is imported.
        heard: called once a tool is known to listen.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.active = False
        self.listening = False
        self.nvtx: Optional[str] = None
        self.annotations = Annotations()
        self.heard: Callable[[], None] = lambda: None
        self._domain: Any = None
        self._window: Any = None
        self._gaps = gaps
        self._event: Callable[[str], Any] = lambda _: None
        self._events: Dict[str, Any] = {}
        self._opened = Opened(None, lambda: None)

    def find_tool(self, early: bool = False) -> None:
        """Look for a tool that listens to NVTX, unless one has been found.

        Args:
            early: nothing is imported yet, and nothing may be: package nvtx brings NumPy, whose settings are the
                script's to make first.
        """
        path = os.environ.get(TOOL)
        if path and self._domain is None and not os.environ.get(DISABLED):
            self._gaps.run("NVTX ranges", lambda: self._attach(path, early))

    def _attach(self, path: str, early: bool) -> None:
        from .nvtx import by_header, find_domain

        domain = self._domain = (by_header if early else find_domain)(DOMAIN, path)
        if domain is not None:
            self._opened, self._event, self.nvtx = Opened(domain.push, domain.pop), domain.event, domain.by
            self.active = self.listening = True
            self.heard()

    def begin_window(self) -> bool:
        """Begin the range that a tool's recording begins with; return False where it cannot be begun."""
        if self.listening and self._domain.start is not None:
            self._window = self._domain.start(self._event(WINDOW_RANGE))
        return self._window is not None

    def end_window(self) -> None:
        """End that range, and mark no more: what comes after is not recorded."""
        window, self._window = self._window, None
        self.finish()
        if window is not None:
            self._domain.stop(window)

    def open(self) -> None:
        """Begin to mark; called as the window opens."""
        self.active = True
        self.annotations.open()

    def close(self) -> None:
        """End what is marked; a tool that listens to NVTX goes on hearing."""
        self.end_step()
        self.active = self.listening

    def finish(self) -> None:
        """End what is marked, and mark no more."""
        self.listening = False
        self.close()

    def abandon(self) -> None:
        """Mark no more and end nothing: in a forked child, where nothing has been begun."""
        self.active = self.listening = False
        self._opened = Opened(None, lambda: None)

    def begin_step(self, number: int, certain: bool = True) -> None:
        """End the step before and begin step `number`; one that may prove to be none has no range of NVTX."""
        if self.active:
            opened = self._opened
            opened.pop_all()
            opened.step = True
            opened.push(self._event("step %d" % number) if certain else None, self.annotations.step(number))

    def end_step(self) -> None:
        """End the step and every phase in it."""
        self._opened.pop_all()

    def begin_phase(self, name: str, mark: str = "") -> None:
        """Begin a phase within the step (forward, backward, optimizer, a layer, a function), or outside any.

        `mark` stands before the name in NVTX alone, so that a layer is not taken for a phase or a function.
        """
        if self.active:
            event = self._events.get(mark + name)
            if event is None and self.listening:
                event = self._events[mark + name] = self._event(mark + name)
            self._opened.push(event, self.annotations.phase(name))

    def end_phase(self) -> None:
        """End the latest phase."""
        opened = self._opened
        if len(opened.ranges) > opened.step:
            opened.pop()
        if not self.active:
            opened.pop_all()
