"""Leaves out of tcprobe's own step what makes no product and takes most of the time to trace."""

from __future__ import annotations

import gc
from types import TracebackType
from typing import Any, Callable, Optional, Sequence, Type

from ..core.gaps import Gaps, Guard
from ..tensorflow.hooks.patch import Patches, defining_class


class Lean:
    """While it is entered, Keras 3 normalises by running statistics, and no garbage is looked for.

    The statistics of a batch multiply no matrices, but with their gradients they are more than a third of all ops of a
    convolutional network (EfficientNetB7: 26,772 ops with them, 16,651 without). Keras 2 has one fused op for them.
    """

    def __init__(self, keras: Sequence[Any], gaps: Gaps) -> None:
        self._keras = [k for k in keras if hasattr(k, "ops")]
        self._gaps = gaps
        self._patches = Patches()
        self._collecting = False

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()
        for keras in self._keras:
            with Guard(self._gaps, "batch statistics"):
                owner = defining_class(keras.layers.BatchNormalization, "call")
                self._patches.method(owner, "call", _by_running_statistics)

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._patches.restore()
        if self._collecting:
            gc.enable()


def _by_running_statistics(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:  # noqa: ARG001
        return original(layer, inputs, training=False, mask=mask)

    return call
