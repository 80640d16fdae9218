"""Marks steps and phases in the profile of TensorFlow's profiler."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict

from ..constants import STEP_MARK
from ..core import ranges
from .hooks.fits import Fits

ROOT = {"_r": 1}  # the profiler counts steps by the annotations that have it


class TensorFlowAnnotations(ranges.Annotations):
    """Marks steps and phases with `tf.profiler.experimental.Trace`.

    Raises:
        AttributeError: this TensorFlow has none.
    """

    def __init__(self, tf: Any, fits: Fits) -> None:
        self._fits = fits
        self._trace: Callable[..., ContextManager[Any]] = tf.profiler.experimental.Trace
        self._root: Dict[str, int] = ROOT

    def open(self) -> None:
        """Leave the counting of steps to Keras where it does that."""
        fit = self._fits.current()
        self._root = {} if fit is not None and fit.marks_steps else ROOT

    def step(self, number: int) -> ContextManager[Any]:
        """Return what marks step `number`."""
        return self._trace(STEP_MARK, step_num=number, **self._root)

    def phase(self, name: str) -> ContextManager[Any]:
        """Return what marks a phase."""
        return self._trace("tcprobe/" + name)
