"""Tells what XLA would compile on a GPU, on a machine without one: what Keras 3 and TensorFlow decide there."""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import Any, Callable, NamedTuple, Optional

from ..tensorflow.hooks.patch import Patches, defining_class
from .classes import CUDNN_LAYERS

Method = Callable[..., Any]


class Xla(NamedTuple):
    """What audit.json says of a step.

    Attributes:
        xla: whether XLA compiles it; None where each function says so itself.
        xla_by_default: whether that is what Keras decided.
    """

    xla: Optional[bool]
    xla_by_default: bool = False


class AutoXla:
    """Notes the models whose `jit_compile` is "auto", which newer versions of Keras switch off where there is no GPU.

    Their train functions are made as on a GPU; they are traced and never compiled.
    """

    def __init__(self) -> None:
        self._auto: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._decides = False  # whether this Keras compiles by itself
        self._made = False
        self._patches = Patches()

    def install(self, keras: Any) -> None:
        """Hook a Keras that decides by itself; nothing happens with another."""
        if hasattr(keras.Model, "_resolve_auto_jit_compile"):
            self._decides = True
            self._patches.method(keras.Model, "_resolve_auto_jit_compile", self._resolving)
            self._patches.method(keras.Model, "compile", self._compiling)
            self._patches.method(keras.Model, "make_train_function", self._making)

    def _resolving(self, resolve: Method) -> Method:
        def resolved(model: Any) -> Any:
            self._auto.add(model)
            return resolve(model)

        return resolved

    def _compiling(self, plain: Method) -> Method:
        signature = inspect.signature(plain)

        def compiled(model: Any, *args: Any, **kwds: Any) -> None:
            plain(model, *args, **kwds)
            # Setting the attribute for the first time reads it, which resolves "auto" whatever was given.
            if signature.bind(model, *args, **kwds).arguments.get("jit_compile", "auto") != "auto":
                self._auto.discard(model)

        return compiled

    def _making(self, make: Method) -> Method:
        def made(model: Any, *args: Any, **kwds: Any) -> Any:
            if model not in self._auto or not self._supported(model):
                return make(model, *args, **kwds)
            before = model.jit_compile
            model.jit_compile = self._made = True
            try:
                return make(model, *args, **kwds)
            finally:
                model.jit_compile = before

        return made

    def decided(self) -> bool:
        """Return whether a train function was compiled since this was asked last, for Keras does so by itself."""
        made, self._made = self._made, False
        return made

    def of(self, model: Any) -> Xla:
        """Return whether XLA would compile a model's step on a GPU, as `fit` makes it."""
        is_open = not was_compiled(model) and self._decides
        if is_open or model in self._auto:
            supported = self._supported(model)
            return Xla(supported, supported)
        return Xla(bool(getattr(model, "jit_compile", getattr(model, "_jit_compile", None))))

    @staticmethod
    def _supported(model: Any) -> bool:
        if getattr(model, "_distribute_strategy", None) or any(_in_cudnn(part) for part in model._flatten_layers()):
            return False
        module = sys.modules[defining_class(type(model), "_resolve_auto_jit_compile").__module__]
        return bool(module.model_supports_jit(model))


def was_compiled(model: Any) -> bool:
    """Return whether the script has called a model's `compile`."""
    return bool(getattr(model, "compiled", False)) or getattr(model, "optimizer", None) is not None


def _in_cudnn(layer: Any) -> bool:
    """Return whether a layer runs in cuDNN on a GPU, which keeps Keras 3 from compiling the model that it is in.

    Source: keras/src/layers/rnn/lstm.py and gru.py, `supports_jit`; backend/tensorflow/rnn.py, `cudnn_ok`.
    """
    if not any(c.__name__ in CUDNN_LAYERS for c in type(layer).__mro__):
        return False
    cell = layer.cell
    names = [getattr(getattr(cell, n, None), "__name__", None) for n in ("activation", "recurrent_activation")]
    plain = not layer.unroll and not cell.recurrent_dropout and cell.use_bias and getattr(cell, "reset_after", True)
    return bool(plain and names == ["tanh", "sigmoid"] and getattr(layer, "use_cudnn", True) in (True, "auto"))
