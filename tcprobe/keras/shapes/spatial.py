"""Output shapes of layers that slide a window over images or sequences, or resize them.

Source: keras/src/ops/operation_utils.py (compute_conv_output_shape, compute_pooling_output_shape) and
keras/src/backend/common/backend_utils.py (compute_conv_transpose_output_shape), Keras 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tcprobe.keras.catalogue import class_of, rank_of
from tcprobe.keras.settings import LayerSettings, channels_last, per_axis, size_of, total_size, word_of
from tcprobe.schema.op import Shape, Size, known_size, product


def split(shape: Shape, last: bool) -> tuple[Shape, Size]:
    """Return the spatial sizes and the channels of an image."""
    return (shape[1:-1], shape[-1]) if last else (shape[2:], shape[1])


def join(batch: Size, spatial: Shape, channels: Size, last: bool) -> Shape:
    """Return the shape of an image of these parts."""
    return (batch, *spatial, channels) if last else (batch, channels, *spatial)


def window_axis(size: Size, kernel: Size, stride: Size, dilation: Size, padding: str | None) -> Size:
    """Return the output size of a convolution or pooling along one dimension; None where it is not known or empty."""
    if padding not in ("valid", "same", "causal") or size is None or not stride:
        return None
    if padding != "valid":
        return (size - 1) // stride + 1
    if kernel is None or dilation is None:
        return None
    out = (size - dilation * (kernel - 1) - 1) // stride + 1
    return out if out > 0 else None


def transpose_axis(sizes: tuple[Size, Size, Size, Size], padding: str | None, extra: Size, has_extra: bool) -> Size:
    """Return the output size of a transposed convolution along one dimension.

    Args:
        sizes: of input, kernel, stride, dilation.
        padding: ``valid`` or ``same``.
        extra: output_padding.
        has_extra: whether output_padding was given.
    """
    size, kernel, stride, dilation = sizes
    if size is None or kernel is None or stride is None or dilation is None or (has_extra and extra is None):
        return None
    reach = (kernel - 1) * dilation + 1
    if padding == "valid":
        return (size - 1) * stride + reach + (max(reach, stride) - reach if extra is None else extra)
    if padding != "same":
        return None
    return size * stride if extra is None else (size - 1) * stride + reach % 2 + extra


def convolved(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of Conv*, SeparableConv* and DepthwiseConv*."""
    axes, last = rank_of(kind), channels_last(settings)
    if axes is None or last is None or len(shape) != axes + 2:
        return None
    spatial, channels = split(shape, last)
    padding = word_of(settings, "padding", "valid")
    taps, steps = per_axis(settings, "kernel_size", axes, None), per_axis(settings, "strides", axes)
    dilations = per_axis(settings, "dilation_rate", axes)
    out = tuple(window_axis(*axis, padding) for axis in zip(spatial, taps, steps, dilations, strict=True))
    if class_of(kind).features == "scaled":
        filters = product((channels, size_of(settings, "depth_multiplier", 1)))
    else:
        filters = size_of(settings, "filters")
    return join(shape[0], out, filters, last)


def transposed(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of Conv*Transpose."""
    axes, last = rank_of(kind), channels_last(settings)
    if axes is None or last is None or len(shape) != axes + 2:
        return None
    sizes = zip(
        split(shape, last)[0],
        per_axis(settings, "kernel_size", axes, None),
        per_axis(settings, "strides", axes),
        per_axis(settings, "dilation_rate", axes),
        strict=True,
    )
    padding, has_extra = word_of(settings, "padding", "valid"), settings.get("output_padding") is not None
    extras = per_axis(settings, "output_padding", axes, None, least=0)
    out = tuple(transpose_axis(s, padding, extra, has_extra) for s, extra in zip(sizes, extras, strict=True))
    return join(shape[0], out, size_of(settings, "filters"), last)


def pooled(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of MaxPooling* and AveragePooling*."""
    axes, last = rank_of(kind), channels_last(settings)
    if axes is None or last is None or len(shape) != axes + 2:
        return None
    spatial, channels = split(shape, last)
    taps = per_axis(settings, "pool_size", axes, 2)
    steps = taps if settings.get("strides") is None else per_axis(settings, "strides", axes)
    padding = word_of(settings, "padding", "valid")
    out = tuple(window_axis(s, k, t, 1, padding) for s, k, t in zip(spatial, taps, steps, strict=True))
    return join(shape[0], out, channels, last)


def pooled_globally(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of GlobalMaxPooling* and GlobalAveragePooling*."""
    axes, last = rank_of(kind), channels_last(settings)
    keep = settings.get("keepdims", False)
    if axes is None or last is None or len(shape) != axes + 2 or not isinstance(keep, bool):
        return None
    channels = split(shape, last)[1]
    return join(shape[0], (1,) * axes, channels, last) if keep else (shape[0], channels)


def pooled_to_size(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of AdaptiveMaxPooling* and AdaptiveAveragePooling*."""
    axes, last = rank_of(kind), channels_last(settings)
    if axes is None or last is None or len(shape) != axes + 2:
        return None
    return join(shape[0], per_axis(settings, "output_size", axes, None), split(shape, last)[1], last)


def upsampled(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of UpSampling*."""
    factors = per_axis(settings, "size", rank_of(kind) or 0, 2)
    return _each_axis(settings, shape, factors, lambda size, factor: product((size, factor)))


def padded(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of ZeroPadding*."""
    sides = _sides(settings.get("padding"), rank_of(kind) or 0, 1)
    return _each_axis(settings, shape, sides, lambda size, side: None if None in (size, side) else size + side)


def cropped(kind: str, settings: LayerSettings, shape: Shape) -> Shape | None:
    """Return the output shape of Cropping*."""
    # Keras: Cropping1D and Cropping3D take one from each side, Cropping2D none.
    sides = _sides(settings.get("cropping"), rank_of(kind) or 0, 0 if kind == "Cropping2D" else 1)
    out = _each_axis(settings, shape, sides, lambda size, side: None if None in (size, side) else size - side)
    return None if out is None or any(s is not None and s <= 0 for s in out[1:]) else out


def _each_axis(settings: LayerSettings, shape: Shape, values: Shape, rule: Callable[[Any, Any], Size]) -> Shape | None:
    last = channels_last(settings)
    if last is None or len(shape) != len(values) + 2:
        return None
    spatial, channels = split(shape, last)
    return join(shape[0], tuple(rule(s, v) for s, v in zip(spatial, values, strict=True)), channels, last)


def _sides(value: Any, axes: int, default: int) -> Shape:
    """Return what both sides of each dimension add up to: a number, one number an axis, or a pair an axis."""
    if value is None:
        return (2 * default,) * axes
    if not isinstance(value, list | tuple):
        return (_side(value),) * axes
    if axes == 1 and len(value) == 2 and _side(value) is not None:
        return (_side(value),)
    return tuple(_side(v) for v in value) if len(value) == axes else (None,) * axes


def _side(value: Any) -> Size:
    pair = value if isinstance(value, list | tuple) else (value, value)
    return total_size(known_size(v, 0) for v in pair) if len(pair) == 2 else None
