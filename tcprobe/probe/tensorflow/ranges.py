"""Marks steps and phases for TensorFlow's profiler, and the layers and waits of eager steps as phases."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, ContextManager, Dict, Optional

from ..constants import LAYER_MARK, STEP_MARK
from ..core import ranges
from ..core.gaps import Gaps
from .hooks.fits import Fits
from .hooks.layers import LayerHooks
from .hooks.patch import Ending, Patches, around

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


class LayerRanges:
    """Marks calls of layers and iterators from `open` to `close`, so that steps outside the window pay nothing.

    Attributes:
        iterator: the class of iterators over datasets; None where there is none.
    """

    def __init__(self, layers: LayerHooks, marks: ranges.Ranges, gaps: Gaps) -> None:
        self.iterator: Any = None
        self._layers = layers
        self._ranges = marks
        self._gaps = gaps
        self._patches = Patches()
        self._end: Ending = partial(gaps.run, "ranges", marks.end_phase)

    def open(self) -> None:
        """Mark from now on."""
        self._layers.on_eager = self._called
        if self.iterator is not None:
            self._patches.method(self.iterator, "_next_internal", around(self._gaps, "ranges", self._waits))

    def close(self) -> None:
        """Mark no more."""
        self._layers.on_eager = None
        self._patches.restore()

    def _called(self, layer: Any) -> Optional[Ending]:
        return self._begin(str(layer.name), LAYER_MARK)

    def _waits(self, _: Any) -> Optional[Ending]:
        return self._begin("input") if self._layers.eager() else None

    def _begin(self, name: str, mark: str = "") -> Optional[Ending]:
        if not self._ranges.active:
            return None
        self._ranges.begin_phase(name, mark)
        return self._end
