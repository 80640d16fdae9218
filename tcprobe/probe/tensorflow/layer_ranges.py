"""Marks the layers of an eager model, and waits for its input, as ranges while the window is open."""

from __future__ import annotations

from functools import partial
from typing import Any, Optional

from ..constants import LAYER_MARK
from ..core.gaps import Gaps
from ..core.ranges import Ranges
from .hooks.layers import LayerHooks
from .hooks.patch import Ending, Patches, around


class LayerRanges:
    """Marks calls of layers and iterators from `open` to `close`, so that steps outside the window pay nothing.

    Attributes:
        iterator: the class of iterators over datasets; None where there is none.
    """

    def __init__(self, layers: LayerHooks, ranges: Ranges, gaps: Gaps) -> None:
        self.iterator: Any = None
        self._layers = layers
        self._ranges = ranges
        self._gaps = gaps
        self._patches = Patches()
        self._end: Ending = partial(gaps.run, "ranges", ranges.end_phase)

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
