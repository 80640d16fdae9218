"""Reads a layer's settings as its arguments gave them, with Keras' defaults.

A setting that is absent has Keras' default. One of a type that Keras does not take (``...`` too) was given, but is
not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from tcprobe.keras.catalogue import canonical_kind, class_of
from tcprobe.schema.op import Shape, Size, known_shape, known_size

LayerSettings: TypeAlias = Mapping[str, Any]

_MAY_BE_NEGATIVE: Final = ("normalization", "reshaping")
"""Kinds of layers for which -1 stands for what is left."""
_SHAPES: Final = (
    *("input_shape", "batch_shape", "batch_input_shape", "input_dim", "input_length"),
    *("kernel_size", "strides", "dilation_rate", "pool_size"),
)
SIZES: Final = "sizes go from 1 to 2**40"
UNRESOLVED: Final = ...
"""What stands in `Layer.config` for an argument that was given and whose value is not known."""


def size_of(settings: LayerSettings, name: str, default: Size = None) -> Size:
    """Return a size; `default` where it is absent or None; None where it is not known."""
    value = settings.get(name)
    if value is None:
        return default
    return known_size(value)


def flag_of(settings: LayerSettings, name: str, default: bool) -> bool | None:
    """Return a truth value; `default` where it is absent; None where it is not known."""
    value = settings.get(name, default)
    return bool(value) if isinstance(value, (bool, int)) else None


def word_of(settings: LayerSettings, name: str, default: str) -> str | None:
    """Return a word in lower case; `default` where it is absent or None; None where it is not known."""
    value = settings.get(name)
    if value is None:
        return default
    return value.lower() if isinstance(value, str) else None


def rate_of(settings: LayerSettings, name: str) -> float | None:
    """Return a share such as ``dropout``; 0 where it is absent or None, None where it is not known."""
    value = settings.get(name)
    if value is None:
        return 0.0
    return float(value) if isinstance(value, (int, float)) else None


def per_axis(settings: LayerSettings, name: str, axes: int, default: Size = 1, least: int = 1) -> Shape:
    """Return one size per spatial dimension, `least` or more: one number stands for all; what is not known is None."""
    value = settings.get(name)
    if value is None:
        return (default,) * axes
    given = value if isinstance(value, (list, tuple)) else (value,)
    sizes = tuple(known_size(v, least) for v in given)
    return sizes if len(sizes) == axes else sizes * axes if len(sizes) == 1 else (None,) * axes


def channels_last(settings: LayerSettings) -> bool | None:
    """Return whether features are the last dimension, Keras' default; None where the layout is not known."""
    layout = word_of(settings, "data_format", "channels_last")
    return layout == "channels_last" if layout in ("channels_last", "channels_first") else None


def is_size(value: Any) -> bool:
    """Say whether a value is a size that a tensor can have."""
    return known_size(value) is not None


def with_sizes(kind: str, settings: LayerSettings) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of a layer, those that are to be sizes and are none not known; and why, by name."""
    odd = {name: why for name in _sized(kind) if name in settings and (why := _no_sizes(settings[name]))}
    return {**settings, **dict.fromkeys(odd, UNRESOLVED)}, odd


@cache
def _sized(kind: str) -> tuple[str, ...]:
    """Return the settings of a class that are to be sizes."""
    row = class_of(kind)
    own = () if row.kind in _MAY_BE_NEGATIVE else (row.output, *row.inner, *row.counts, *row.structure)
    return tuple(name for name in (*own, *_SHAPES) if name)


def _no_sizes(value: Any) -> str | None:
    """Return why a number, or one of several, is no size; None where all are, and for what is no number."""
    numbers = [v for v in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(v, (int, float))]
    return next((no_size(v) for v in numbers if not is_size(v)), None)


def no_size(value: Any) -> str:
    """Return why a value is no size."""
    if isinstance(value, bool) or not isinstance(value, int):
        return f"it is no whole number: {SIZES}"
    return f"it is {'below 1' if value < 1 else 'past 2**40'}: {SIZES}"


def shape_of(value: Any) -> Shape | None:
    """Return a sequence of sizes as a shape; None where it is none."""
    if not isinstance(value, (list, tuple)):
        return None
    return known_shape(value)


def is_many(shape: Any) -> bool:
    """Say whether a value is a sequence of shapes rather than one shape."""
    return isinstance(shape, (list, tuple)) and not {list, tuple}.isdisjoint(map(type, shape))


def wrapped_layer(settings: LayerSettings, name: str = "layer") -> tuple[str, LayerSettings] | None:
    """Return kind and settings of the layer that a wrapper holds, as Keras' get_config nests it; None where unknown.

    ``{"class_name": "LSTM", "config": {"units": 64}}``.
    """
    inner = settings.get(name)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("class_name"), str):
        return None
    config = inner.get("config")
    return canonical_kind(inner["class_name"].rsplit(">", 1)[-1]), config if isinstance(config, Mapping) else {}


def total_size(sizes: Iterable[Size]) -> Size:
    """Return the sum; None where one is unknown."""
    known = list(sizes)
    return None if any(s is None for s in known) else sum(s for s in known if s is not None)
