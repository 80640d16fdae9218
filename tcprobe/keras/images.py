"""Output shapes of layers that slide a window over images or sequences, pad, crop or resize them.

Source: keras/src/ops/operation_utils.py (compute_conv_output_shape, compute_pooling_output_shape) and
keras/src/backend/common/backend_utils.py (compute_conv_transpose_output_shape), Keras 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tcprobe.keras.catalogue import class_of, rank_of
from tcprobe.keras.settings import LayerSettings, channels_last, per_axis, size_of, total_size, word_of
from tcprobe.schema.op import Shape, Size, known_size, product


class Image(NamedTuple):
    """The shape of images, or of sequences or volumes."""

    batch: Size
    spatial: Shape
    channels: Size
    last: bool  # whether channels are the last dimension

    @property
    def shape(self) -> Shape:
        """All of its dimensions."""
        batch, spatial, channels, last = self
        return (batch, *spatial, channels) if last else (batch, channels, *spatial)


def image_of(kind: str, settings: LayerSettings, shape: Shape) -> Image | None:
    """Return what a layer takes; None where its layout is not known or the shape does not fit."""
    axes, last = rank_of(kind), channels_last(settings)
    if axes is None or last is None or len(shape) != axes + 2:
        return None
    spatial, channels = (shape[1:-1], shape[-1]) if last else (shape[2:], shape[1])
    return Image(shape[0], spatial, channels, last)


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


def convolved(kind: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of Conv*, SeparableConv* and DepthwiseConv*."""
    axes, padding = len(image.spatial), word_of(settings, "padding", "valid")
    taps, steps = per_axis(settings, "kernel_size", axes, None), per_axis(settings, "strides", axes)
    dilations = per_axis(settings, "dilation_rate", axes)
    out = tuple(window_axis(*axis, padding) for axis in zip(image.spatial, taps, steps, dilations, strict=True))
    if class_of(kind).features == "scaled":
        filters = product((image.channels, size_of(settings, "depth_multiplier", 1)))
    else:
        filters = size_of(settings, "filters")
    return image._replace(spatial=out, channels=filters)


def transposed(_: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of Conv*Transpose."""
    axes, padding = len(image.spatial), word_of(settings, "padding", "valid")
    has_extra = settings.get("output_padding") is not None

    def along(size: Size, kernel: Size, stride: Size, dilation: Size, extra: Size) -> Size:
        if size is None or kernel is None or stride is None or dilation is None or (has_extra and extra is None):
            return None
        reach = (kernel - 1) * dilation + 1
        if padding == "valid":
            return (size - 1) * stride + reach + (max(stride - reach, 0) if extra is None else extra)
        if padding != "same":
            return None
        return size * stride if extra is None else (size - 1) * stride + reach % 2 + extra

    sizes = zip(
        image.spatial,
        per_axis(settings, "kernel_size", axes, None),
        per_axis(settings, "strides", axes),
        per_axis(settings, "dilation_rate", axes),
        per_axis(settings, "output_padding", axes, None, least=0),
        strict=True,
    )
    return image._replace(spatial=tuple(along(*axis) for axis in sizes), channels=size_of(settings, "filters"))


def pooled(_: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of MaxPooling* and AveragePooling*."""
    axes, padding = len(image.spatial), word_of(settings, "padding", "valid")
    taps = per_axis(settings, "pool_size", axes, 2)
    steps = taps if settings.get("strides") is None else per_axis(settings, "strides", axes)
    sizes = zip(image.spatial, taps, steps, strict=True)
    return image._replace(spatial=tuple(window_axis(size, tap, step, 1, padding) for size, tap, step in sizes))


def pooled_globally(_: str, settings: LayerSettings, image: Image) -> Image | None:
    """Return the output of GlobalMaxPooling* and GlobalAveragePooling*."""
    keep = settings.get("keepdims", False)
    return image._replace(spatial=(1,) * (len(image.spatial) * keep)) if isinstance(keep, bool) else None


def pooled_to_size(_: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of AdaptiveMaxPooling* and AdaptiveAveragePooling*."""
    return image._replace(spatial=per_axis(settings, "output_size", len(image.spatial), None))


def upsampled(_: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of UpSampling*."""
    factors = per_axis(settings, "size", len(image.spatial), 2)
    return image._replace(spatial=tuple(map(product, zip(image.spatial, factors, strict=True))))


def padded(_: str, settings: LayerSettings, image: Image) -> Image:
    """Return the output of ZeroPadding*."""
    sides = _sides(settings.get("padding"), len(image.spatial), 1)
    return image._replace(spatial=tuple(map(total_size, zip(image.spatial, sides, strict=True))))


def cropped(kind: str, settings: LayerSettings, image: Image) -> Image | None:
    """Return the output of Cropping*."""
    # Keras: Cropping1D and Cropping3D take one from each side, Cropping2D none.
    sides = _sides(settings.get("cropping"), len(image.spatial), 0 if kind == "Cropping2D" else 1)
    pairs = zip(image.spatial, sides, strict=True)
    out = tuple(None if size is None or side is None else size - side for size, side in pairs)
    return None if any(size is not None and size <= 0 for size in out) else image._replace(spatial=out)


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
