"""Marks steps and phases: NVTX ranges in domain `tcprobe`, and trace annotations of TensorFlow's profiler."""

from __future__ import annotations

import sys
from typing import Any, List, Optional

from .gaps import Gaps

DOMAIN = "tcprobe"
STEP = "tcprobe_step"


class Ranges:
    """Opens and closes ranges; everything is free of effect until `active`.

    Attributes:
        active: the profiler's window is open, or a tool listens to NVTX.
        nvtx: version of package nvtx; None where it is not importable.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.active = False
        self.nvtx: Optional[str] = None
        self._gaps = gaps
        self._domain: Any = None
        self._trace: Any = None
        self._step: Any = None
        self._phases: List[Any] = []
        self._root = {"_r": 1}
        self._heard = False

    def on_tensorflow(self, tf: Any) -> None:
        """Take TensorFlow's Trace and, where it is importable, package nvtx."""
        self._gaps.run("trace annotations", lambda: setattr(self, "_trace", tf.profiler.experimental.Trace))
        self.find_nvtx()

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
        self._root = {} if _in_fit_of_keras_2() else {"_r": 1}

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
        if self._trace is not None:
            self._step = self._trace(STEP, step_num=number, **self._root)
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
        trace = None if self._trace is None else self._trace("tcprobe/" + name)
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


def _in_fit_of_keras_2() -> bool:
    """Say whether Keras 2's `fit` runs, whose own trace annotation counts the steps already."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "fit" and code.co_filename.endswith("engine/training.py"):
            return True
        frame = frame.f_back
    return False
