"""Marks the layers of an eager model, and waits for its input, as ranges while the window is open."""

from __future__ import annotations

from typing import Any, Callable, List

from ..constants import LAYER_MARK
from ..core.gaps import Gaps
from ..core.ranges import Ranges
from .hooks.patch import Patches


class LayerRanges:
    """Hooks calls of layers and iterators from `open` to `close`, so that steps outside the window pay nothing.

    Attributes:
        bases: of the layers of every Keras.
        eager: whether TensorFlow executes eagerly.
        iterator: the class of iterators over datasets; None where there is none.
    """

    def __init__(self, ranges: Ranges, gaps: Gaps) -> None:
        self.bases: List[Any] = []
        self.eager: Callable[[], bool] = lambda: True
        self.iterator: Any = None
        self._ranges = ranges
        self._gaps = gaps
        self._patches = Patches()

    def open(self) -> None:
        """Hook."""
        for base in self.bases:
            self._patches.method(base, "__call__", self._marking)
        if self.iterator is not None:
            self._patches.method(self.iterator, "_next_internal", self._waiting)

    def close(self) -> None:
        """Put the originals back."""
        self._patches.restore()

    def _marking(self, original: Any) -> Any:
        ranges, gaps = self._ranges, self._gaps

        def call(layer: Any, *args: Any, **kwds: Any) -> Any:
            if not ranges.active or not self.eager():
                return original(layer, *args, **kwds)
            gaps.run("ranges of layers", lambda: ranges.begin_phase(str(layer.name), LAYER_MARK))
            try:
                return original(layer, *args, **kwds)
            finally:
                gaps.run("ranges of layers", ranges.end_phase)

        return call

    def _waiting(self, original: Any) -> Any:
        ranges, gaps = self._ranges, self._gaps

        def next_internal(iterator: Any) -> Any:
            if not ranges.active or not self.eager():
                return original(iterator)
            gaps.run("ranges", lambda: ranges.begin_phase("input"))
            try:
                return original(iterator)
            finally:
                gaps.run("ranges", ranges.end_phase)

        return next_internal
