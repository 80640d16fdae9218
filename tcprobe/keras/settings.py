"""Reads a layer's settings as its arguments gave them, with Keras' defaults.

A setting that is absent has Keras' default. One of a type that Keras does not take (``...`` too) was given, but is
not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from tcprobe.keras.catalogue import canonical_kind
from tcprobe.schema.op import Shape, Size

LayerSettings: TypeAlias = Mapping[str, Any]

LARGEST_SIZE: Final = 2**40
"""Elements; a dimension past it is in no memory, and products of such dimensions are past what a float holds."""
UNRESOLVED: Final = ...
"""What stands in `Layer.config` for an argument that was given and whose value is not known."""


def size_of(settings: LayerSettings, name: str, default: Size = None) -> Size:
    """Return a positive whole number; `default` where it is absent or None; None where it is not known."""
    value = settings.get(name)
    if value is None:
        return default
    return value if is_size(value) else None


def flag_of(settings: LayerSettings, name: str, default: bool) -> bool | None:
    """Return a truth value; `default` where it is absent; None where it is not known."""
    value = settings.get(name, default)
    return bool(value) if isinstance(value, bool | int) else None


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
    return float(value) if isinstance(value, int | float) else None


def per_axis(settings: LayerSettings, name: str, axes: int, default: Size = 1) -> Shape:
    """Return one size per spatial dimension: one number stands for all; what is not known is None."""
    value = settings.get(name)
    if value is None:
        return (default,) * axes
    if is_size(value):
        return (value,) * axes
    if isinstance(value, list | tuple) and len(value) == axes:
        return tuple(v if is_size(v) else None for v in value)
    if isinstance(value, list | tuple) and len(value) == 1:
        return ((value[0] if is_size(value[0]) else None),) * axes
    return (None,) * axes


def channels_last(settings: LayerSettings) -> bool | None:
    """Return whether features are the last dimension, Keras' default; None where the layout is not known."""
    layout = word_of(settings, "data_format", "channels_last")
    return layout == "channels_last" if layout in ("channels_last", "channels_first") else None


def is_size(value: Any) -> bool:
    """Say whether a value is a whole number from 0 on that a tensor can have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_SIZE


def shape_of(value: Any) -> Shape | None:
    """Return a sequence of sizes as a shape; None where it is none."""
    if not isinstance(value, list | tuple):
        return None
    return tuple(v if is_size(v) else None for v in value)


def is_many(shape: Any) -> bool:
    """Say whether a value is a sequence of shapes rather than one shape."""
    return isinstance(shape, list | tuple) and any(isinstance(s, list | tuple) for s in shape)


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
