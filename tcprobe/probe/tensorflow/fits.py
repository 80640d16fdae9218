"""Tells which `fit` of Keras is running, and what hands it its batches."""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, Optional

from ..core.gaps import Gaps, Guard
from .patch import Patches, defining_class

DATA_HANDLER = "DataHandler"  # Keras 2's; Keras 3 calls it TFEpochIterator


class Fit:
    """A call of `fit`.

    Attributes:
        marks_steps: it marks its steps in the profile itself, as Keras 2 does.
        batches: Keras' own object that hands out the batches, from its construction on; None before.
    """

    def __init__(self, marks_steps: bool) -> None:
        self.marks_steps = marks_steps
        self.batches: Any = None


class Fits:
    """Hooks `fit` of any Keras."""

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._patches = Patches()
        self._local = threading.local()

    def install(self, keras: Any) -> None:
        """Hook one Keras; a second may be hooked beside it."""
        with Guard(self._gaps, "keras Model.fit"):
            owner = defining_class(keras.Model, "fit")
            batches = batches_class(owner)
            of_keras_2 = batches.__name__ == DATA_HANDLER
            self._patches.method(owner, "fit", lambda fit: self._fitting(fit, of_keras_2))
            self._patches.method(batches, "__init__", self._making)

    def remove(self) -> None:
        """Put the original methods back."""
        self._patches.restore()

    def current(self) -> Optional[Fit]:
        """Return the `fit` that runs in this thread, None outside any."""
        found: Optional[Fit] = getattr(self._local, "fit", None)
        return found

    def _fitting(self, original: Callable[..., Any], marks_steps: bool) -> Callable[..., Any]:
        local = self._local

        def fit(model: Any, *args: Any, **kwds: Any) -> Any:
            before = getattr(local, "fit", None)
            local.fit = Fit(marks_steps)
            try:
                return original(model, *args, **kwds)
            finally:
                local.fit = before

        return fit

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        fits = self

        def __init__(batches: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            fit = fits.current()
            if fit is not None and fit.batches is None:  # the first is that of training; validation follows
                fit.batches = batches  # known before it asks a strategy to split its batches
            original(batches, *args, **kwds)

        return __init__


def batches_class(trainer: Any) -> Any:
    """Return the class whose objects hand `fit` its batches, given the class that defines `fit`.

    Raises:
        AttributeError: this Keras has none that is known.
    """
    module: Any = sys.modules[trainer.__module__]
    adapter = getattr(module, "data_adapter", None)
    return module.TFEpochIterator if adapter is None else getattr(adapter, DATA_HANDLER)
