"""Finds classes of Keras in the catalogue, by any of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from tcprobe.keras.classes import CLASSES
from tcprobe.keras.row import KerasClass

UNKNOWN_CLASS: Final = KerasClass("", "unknown", module="")
"""Stands for a class that is none of Keras'."""
LAYER_CLASSES: Final = tuple(row for row in CLASSES if row.module == "layers")
"""What `keras.layers` holds, the modules below it included."""
_BY_NAME: Final[Mapping[str, KerasClass]] = {name: row for row in LAYER_CLASSES for name in (row.name, *row.aliases)}


def class_of(kind: str) -> KerasClass:
    """Return the row of a class of ``keras.layers`` by its own name or another; `UNKNOWN_CLASS` where there is none."""
    return _BY_NAME.get(kind, UNKNOWN_CLASS)


@cache
def by_path() -> Mapping[str, KerasClass]:
    """Return the rows by each name that a class may be imported by, from ``keras`` on."""
    found = {}
    for row in CLASSES:
        home = row.path.rpartition(".")[0]
        found.update(dict.fromkeys((row.path, *row.paths, *(f"{home}.{alias}" for alias in row.aliases)), row))
    return found


def canonical_kind(kind: str) -> str:
    """Return a layer class's own name: ``MaxPool2D`` -> ``MaxPooling2D``; others as they are."""
    return class_of(kind).name or kind


def rank_of(kind: str) -> int | None:
    """Return the number of spatial dimensions of a layer class (``Conv2D``: 2); None where it has none, or any."""
    return class_of(kind).rank


# Source: TensorFlow 2.21 and Keras 3.15.1; names that are gone are kept: old files use them.
_FUNCTIONS: Final = """\
keras.Input shape batch_size dtype
keras.mixed_precision.set_global_policy policy
keras.mixed_precision.global_policy
keras.mixed_precision.experimental.set_policy policy
keras.mixed_precision.experimental.Policy name loss_scale
keras.mixed_precision.experimental.LossScaleOptimizer optimizer loss_scale
keras.config.set_dtype_policy policy
keras.config.set_floatx value
keras.backend.set_floatx value
keras.backend.set_epsilon value
keras.config.set_epsilon value
keras.ops.cast x dtype
keras.activations.softmax x axis
keras.ops.softmax x axis
tensorflow.cast x dtype name
tensorflow.constant value dtype shape name
tensorflow.convert_to_tensor value dtype
tensorflow.zeros shape dtype name
tensorflow.ones shape dtype name
tensorflow.reshape tensor shape name
tensorflow.matmul a b transpose_a transpose_b
tensorflow.reduce_mean input_tensor axis keepdims name
tensorflow.reduce_sum input_tensor axis keepdims name
tensorflow.nn.softmax logits axis name
tensorflow.config.experimental.enable_tensor_float_32_execution enabled
tensorflow.function func input_signature autograph jit_compile
"""

KERAS_2: Final = ("tf_keras", "tensorflow.python.keras")
"""Modules that are Keras 2, whatever is installed; any other may be either."""
_KERAS: Final = (*KERAS_2, "tensorflow.keras", "keras.api", "keras.src", "keras._tf_keras.keras", "keras_core")
_INNER: Final = re.compile(r"keras\.layers\.(?:[a-z_]++\.)+([A-Z]\w*)$")


@cache
def canonical_name(dotted: str) -> str:
    """Return the canonical name of an imported one: ``tensorflow.keras.layers.Dense`` -> ``keras.layers.Dense``.

    Names below ``keras.layers`` lose inner modules (``keras.layers.core.Dense``), and other names of a layer or model
    become its own (``MaxPool2D``). Everything else stays as it was imported.
    """
    name = _of_keras(re.sub(r"^tensorflow\.compat\.v[12]\.", "tensorflow.", dotted))
    name = _INNER.sub(r"keras.layers.\1", name)
    if name == "keras.layers.Input":
        return "keras.Input"
    row = by_path().get(name)
    # What precision is set by takes other arguments under each of its names.
    return name if row is None or row.module == "mixed_precision" else row.path


def _of_keras(name: str) -> str:
    prefix = next((p for p in _KERAS if name == p or name.startswith(p + ".")), None)
    return name if prefix is None else "keras" + name[len(prefix) :]


def layer_class(name: str | None) -> str | None:
    """Return the class of a canonical name where it is a layer of Keras' own (``Dense``); None otherwise."""
    row = by_path().get(name or "")
    return row.name if row is not None and row.module == "layers" and row.kind != "base" else None


def positional(dotted: str) -> tuple[str, ...]:
    """Return what the positional arguments of an imported name are called; empty where that is not known."""
    name = canonical_name(dotted)
    row = by_path().get(name)
    if row is None:
        return _functions().get(name, ())
    old = row.keras_2 is not None and dotted.startswith(KERAS_2)
    return row.keras_2 if old and row.keras_2 is not None else row.arguments


def public(module: str, name: str) -> bool:
    """Return whether ``from module import *`` binds a name of Keras that is known here."""
    dotted = canonical_name(f"{module}.{name}")
    return dotted in by_path() or dotted == "keras.Input"


def known(name: str) -> bool:
    """Return whether a canonical name stands for a class or function of Keras that is known here."""
    return name in by_path() or name in _functions()


@cache
def _functions() -> dict[str, tuple[str, ...]]:
    return {words[0]: tuple(words[1:]) for words in map(str.split, _FUNCTIONS.splitlines())}
