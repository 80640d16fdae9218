"""Hooks Keras: train functions, optimizers and, for the ranges of eager steps, layers."""

from __future__ import annotations

import functools
from typing import Any, List

from ..core.framework import Core
from .calls import CallWatch
from .layer_ranges import LayerRanges
from .patch import defining_class
from .precision import on_model

VALIDATION = ("evaluate", "test_on_batch")


class KerasHooks:
    """Hooks keras, tf_keras, or the tf.keras of Keras 2."""

    def __init__(self, core: Core, calls: CallWatch, layers: LayerRanges) -> None:
        self._layers = layers
        self._config = core.config
        self._training = core.training
        self._gaps = core.gaps
        self._calls = calls
        self._seen: List[Any] = []
        self._applies = False  # one optimizer's apply calls another: apply_gradients, apply, the inner one

    def install(self, keras: Any) -> None:
        """Hook one Keras; a second call with the same does nothing."""
        self._gaps.run("Keras fit", lambda: self._hook_fit(keras))
        self._gaps.run("Keras optimizers", lambda: self._hook_optimizers(keras))
        for name in VALIDATION:
            self._gaps.run("Keras validation", lambda name=name: self._hook_validation(keras, name))  # type: ignore[misc]
        self._gaps.run("ranges of layers", lambda: self._layers.add(defining_class(keras.layers.Layer, "__call__")))

    def _hook_fit(self, keras: Any) -> None:
        kind = defining_class(keras.Model, "make_train_function")
        if kind in self._seen:
            return
        self._seen.append(kind)
        make = kind.make_train_function

        @functools.wraps(make)
        def make_train_function(model: Any, *args: Any, **kwds: Any) -> Any:
            before = model.__dict__.get("train_function")
            if before is None:
                on_model(model, self._config.xla, self._gaps)
            result = make(model, *args, **kwds)
            if model.__dict__.get("train_function") is not before:
                self._gaps.run("Keras fit", lambda: self._calls.steps.announce(steps_per_execution(model)))
            return result

        kind.make_train_function = make_train_function

    def _hook_validation(self, keras: Any, name: str) -> None:
        kind = defining_class(keras.Model, name)
        if (kind, name) in self._seen:
            return
        self._seen.append((kind, name))
        original, tapes = kind.__dict__[name], self._calls.tapes

        @functools.wraps(original)
        def validate(*args: Any, **kwds: Any) -> Any:
            with tapes.validation():
                return original(*args, **kwds)

        setattr(kind, name, validate)

    def _hook_optimizers(self, keras: Any) -> None:
        for root in optimizer_classes(keras):
            for name in ("apply_gradients", "apply"):
                for kind in root.__mro__:
                    if name in kind.__dict__ and (kind, name) not in self._seen:
                        self._seen.append((kind, name))
                        setattr(kind, name, self._applying(kind.__dict__[name]))

    def _applying(self, apply: Any) -> Any:
        calls, training, gaps = self._calls, self._training, self._gaps

        @functools.wraps(apply)
        def applying(optimizer: Any, *args: Any, **kwds: Any) -> Any:
            current = training.current
            if self._applies or (current is None and training.inside):
                return apply(optimizer, *args, **kwds)
            if current is None:
                return calls.tapes.eager_apply(apply, optimizer, args, kwds)
            calls.trains()
            gaps.run("steps per call", lambda: calls.steps.applied(current.key, optimizer))
            self._applies = True
            try:
                return apply(optimizer, *args, **kwds)
            finally:
                self._applies = False

        return applying


def optimizer_classes(keras: Any) -> List[Any]:
    """Return the roots of this Keras' optimizers, the legacy ones and the wrapper for loss scaling too."""
    optimizers = keras.optimizers
    legacy = getattr(optimizers, "legacy", None)
    mixed = getattr(keras, "mixed_precision", None)
    found = [
        getattr(optimizers, "Optimizer", None),
        getattr(legacy, "Optimizer", None),
        getattr(mixed, "LossScaleOptimizer", None) or getattr(optimizers, "LossScaleOptimizer", None),
    ]
    return [kind for kind in found if isinstance(kind, type)]


def steps_per_execution(model: Any) -> int:
    """Return the steps that one call of the model's train function makes."""
    value = getattr(model, "steps_per_execution", None)
    value = getattr(model, "_steps_per_execution", None) if value is None else value
    if value is None:
        return 1
    return int(value.numpy()) if hasattr(value, "numpy") else int(value)
