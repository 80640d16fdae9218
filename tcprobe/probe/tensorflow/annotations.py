"""Annotations of TensorFlow's profiler."""

from __future__ import annotations

import sys
from typing import Any, Callable, ContextManager, Dict

from ..core import ranges

STEP = "tcprobe_step"
ROOT = {"_r": 1}  # the profiler counts steps by the annotations that have it


class Annotations(ranges.Annotations):
    """Marks steps and phases with `tf.profiler.experimental.Trace`.

    Raises:
        AttributeError: this TensorFlow has none.
    """

    def __init__(self, tf: Any) -> None:
        self._trace: Callable[..., ContextManager[Any]] = tf.profiler.experimental.Trace
        self._root: Dict[str, int] = ROOT

    def open(self) -> None:
        """Leave the counting of steps to Keras where it does that."""
        self._root = {} if _in_fit_of_keras_2() else ROOT

    def step(self, number: int) -> ContextManager[Any]:
        """Return what marks step `number`."""
        return self._trace(STEP, step_num=number, **self._root)

    def phase(self, name: str) -> ContextManager[Any]:
        """Return what marks a phase."""
        return self._trace("tcprobe/" + name)


def _in_fit_of_keras_2() -> bool:
    """Say whether Keras 2's `fit` runs, whose own trace annotation counts the steps already."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "fit" and code.co_filename.endswith("engine/training.py"):
            return True
        frame = frame.f_back
    return False
