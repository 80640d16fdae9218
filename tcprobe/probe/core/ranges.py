"""Marks steps and phases: NVTX ranges in domain `tcprobe`, and annotations of the framework's own profiler."""

from __future__ import annotations

from typing import Any, ContextManager, List, Optional

from .gaps import Gaps

DOMAIN = "tcprobe"


class Annotations:
    """What marks steps and phases for a framework's profiler; this one marks nothing."""

    def open(self) -> None:
        """Get ready; called as the window opens."""

    def step(self, number: int) -> Optional[ContextManager[Any]]:
        """Return what marks step `number`."""

    def phase(self, name: str) -> Optional[ContextManager[Any]]:
        """Return what marks a phase."""


class Ranges:
    """Opens and closes ranges; everything is free of effect until `active`.

    Attributes:
        active: the profiler's window is open, or a tool listens to NVTX.
        nvtx: version of package nvtx; None where it is not importable.
        annotations: the framework's, once it is imported.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.active = False
        self.nvtx: Optional[str] = None
        self._gaps = gaps
        self._domain: Any = None
        self.annotations = Annotations()
        self._step: Optional[ContextManager[Any]] = None
        self._phases: List[Any] = []
        self._heard = False

    def find_nvtx(self) -> None:
        """Import package nvtx; without it steps have no NVTX range."""
        try:
            import importlib.metadata

            import nvtx

            self.nvtx = importlib.metadata.version("nvtx")
            self._domain = nvtx.get_domain(DOMAIN)
        except ImportError:
            self._gaps.add("NVTX ranges", "package nvtx is not installed in this interpreter")
            return
        except Exception as error:
            self._gaps.add("NVTX ranges", error)
            return
        # Where no tool listens, the package hands out a domain that does nothing.
        self._heard = type(self._domain).__name__ != "DummyDomain"
        self.active = self.active or self._heard

    def open(self) -> None:
        """Begin to mark; called as the window opens."""
        self.active = True
        self.annotations.open()

    def close(self) -> None:
        """End what is marked; a tool that listens to NVTX goes on hearing steps."""
        self.end_step()
        self.active = self._heard

    def begin_step(self, number: int) -> None:
        """End the step before and begin step `number`."""
        if not self.active:
            return
        self.end_step()
        self._push("step %d" % number)
        self._step = self.annotations.step(number)
        if self._step is not None:
            self._step.__enter__()

    def end_step(self) -> None:
        """End the step and every phase in it."""
        while self._phases:
            self.end_phase()
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)
        if self._depth:
            self._pop()

    def begin_phase(self, name: str) -> None:
        """Begin a phase within the step (forward, backward, optimizer, a layer, a function)."""
        if not self.active:
            return
        self._push(name)
        trace = self.annotations.phase(name)
        if trace is not None:
            trace.__enter__()
        self._phases.append(trace)

    def end_phase(self) -> None:
        """End the latest phase."""
        if self._phases:
            trace = self._phases.pop()
            if trace is not None:
                trace.__exit__(None, None, None)
            self._pop()

    _depth = 0

    def _push(self, name: str) -> None:
        self._depth += 1
        if self._domain is not None:
            self._domain.push_range(self._domain.get_event_attributes(message=name))

    def _pop(self) -> None:
        self._depth -= 1
        if self._domain is not None:
            self._domain.pop_range()
