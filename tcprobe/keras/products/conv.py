"""Convolutional layers as TensorFlow's ops, in the form in which Keras 3 calls them.

Source: keras/src/backend/tensorflow/nn.py (conv, conv_transpose, separable_conv), tf.nn.convolution.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.keras.catalogue import rank_of
from tcprobe.keras.images import Image, convolved, image_of, transposed, window_axis
from tcprobe.keras.products.passes import InputShapes, Passes, Records, times
from tcprobe.keras.settings import LayerSettings, per_axis, size_of, word_of
from tcprobe.schema.op import Shape, Size, product

_LAYOUTS: Final = {(2, True): "NHWC", (2, False): "NCHW", (3, True): "NDHWC", (3, False): "NCDHW"}


class SlidingWindow(Struct, frozen=True):
    """One convolution op: what slides over which image."""

    image: Image
    out: Shape  # spatial sizes of the result
    filters: Size  # of all groups together
    # taps, strides, dilations: per spatial dimension.
    taps: Shape
    strides: Shape
    dilations: Shape
    padding: str | None = "VALID"  # ``SAME`` or ``VALID``; None where unknown
    groups: Size = 1  # None where unknown

    def records(self, passes: Passes) -> Records:
        """Return the three passes; of a sequence those of an image of one row, as TensorFlow's conv1d runs it."""
        size, out, taps, strides, dilations = (
            (1, *part) if len(part) == 1 else part
            for part in (self.image.spatial, self.out, self.taps, self.strides, self.dilations)
        )
        image, groups, axes = self.image._replace(spatial=size), self.groups, len(size)
        channels = image.channels
        one = None if channels is None or not groups or channels % groups else channels // groups
        given, result = image.shape, Image(image.batch, out, self.filters, image.last).shape
        kernel, vector = (*taps, one, self.filters), (axes + 2,)
        spread, step = ([*Image(1, sizes, 1, image.last).shape] for sizes in (dilations, strides))
        attributes: dict[str, Any] = {"data_format": _LAYOUTS[axes, image.last], "dilations": spread, "groups": groups}
        if self.padding is not None:  # else how strides fall is not known either
            attributes |= {"strides": step, "padding": self.padding}
        name, suffix = f"Conv{axes}D", "V2" if axes == 3 else ""
        return passes.keep(
            passes.op(name, (given, kernel), result, "forward", **attributes),
            passes.op(f"{name}BackpropInput{suffix}", (vector, kernel, result), given, "dgrad", **attributes),
            passes.op(f"{name}BackpropFilter{suffix}", (given, vector, result), kernel, "wgrad", **attributes),
        )


def conv(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return the passes of Conv1D, Conv2D or Conv3D."""
    window = _window(kind, config, shapes[0])
    return [] if window is None else _spread(window).records(passes)


def conv_transpose(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return the passes of Conv*Transpose: its forward pass is the input gradient of a convolution from its output."""
    image = _image(kind, config, shapes[0])
    if image is None:
        return []
    out, axes = transposed(kind, config, image), len(image.spatial)
    window = SlidingWindow(
        out, image.spatial, image.channels, per_axis(config, "kernel_size", axes, None),
        per_axis(config, "strides", axes), per_axis(config, "dilation_rate", axes), _padding(config),
    )  # fmt: skip
    forward, dgrad, wgrad = (record for record, _ in window.records(Passes(passes.dtype)))
    return passes.keep(replace(dgrad, pass_="forward"), replace(forward, pass_="dgrad"), wgrad)


def separable(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return the 1x1 convolution of SeparableConv1D or 2D; its depthwise part multiplies no matrices."""
    image = _image(kind, config, shapes[0])
    if image is None:
        return []
    out, ones = convolved(kind, config, image), (1,) * len(image.spatial)
    channels = product((image.channels, size_of(config, "depth_multiplier", 1)))
    window = SlidingWindow(out._replace(channels=channels), out.spatial, out.channels, ones, ones, ones)
    return window.records(passes.inside)


def conv_recurrent(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return ConvLSTM: in each time step, for each of four gates a convolution of the input and one of the state.

    Where the number of steps is not known, one of an unknown batch stands for all.
    """
    shape = shapes[0]
    steps = shape[1] if shape is not None and len(shape) > 1 else None
    step = None if shape is None else (None if steps is None else shape[0], *shape[2:])
    window = _window(kind, config, step)
    if window is None:
        return []
    ones = (1,) * len(window.out)
    image = window.image._replace(spatial=window.out, channels=window.filters)
    state = replace(window, image=image, strides=ones, dilations=ones, padding="SAME")
    found = _spread(window).records(passes) + state.records(passes.inside)
    return times(times(found, 4), steps)


def _image(kind: str, config: LayerSettings, shape: Shape | None) -> Image | None:
    """Return what a layer takes, of unknown sizes where the shape does not fit; None where its layout is not known."""
    unknown = (None,) * ((rank_of(kind) or 0) + 2)
    return image_of(kind, config, shape or unknown) or image_of(kind, config, unknown)


def _padding(config: LayerSettings) -> str | None:
    word = word_of(config, "padding", "valid")
    return word.upper() if word in ("valid", "same") else None


def _window(kind: str, config: LayerSettings, shape: Shape | None) -> SlidingWindow | None:
    image = _image(kind, config, shape)
    if image is None:
        return None
    axes, padding = len(image.spatial), _padding(config)
    taps, dilations = per_axis(config, "kernel_size", axes, None), per_axis(config, "dilation_rate", axes)
    strides = per_axis(config, "strides", axes)
    if word_of(config, "padding", "valid") == "causal":
        # Keras pads all of a causal convolution's reach in front, then convolves without padding
        image = image._replace(spatial=tuple(map(_causal, image.spatial, taps, dilations)))
        padding = "VALID"
    word = padding.lower() if padding else None
    out = tuple(window_axis(*axis, word) for axis in zip(image.spatial, taps, strides, dilations, strict=True))
    filters, groups = size_of(config, "filters"), size_of(config, "groups", 1)
    return SlidingWindow(image, out, filters, taps, strides, dilations, padding, groups)


def _causal(size: Size, taps: Size, dilation: Size) -> Size:
    return None if size is None or taps is None or dilation is None else size + dilation * (taps - 1)


def _spread(window: SlidingWindow) -> SlidingWindow:
    """Return a dilated convolution as tf.nn.convolution runs it: space to batch, then without dilation or padding."""
    image, dilations = window.image, window.dilations
    unknown = (None,) * len(dilations)
    if None in dilations:
        return replace(window, image=image._replace(batch=None, spatial=unknown), out=unknown)
    if window.padding is None or all(d == 1 for d in dilations):
        return window
    same = window.padding == "SAME"
    size = tuple(_blocks(*axis, same) for axis in zip(image.spatial, window.taps, dilations, strict=True))
    out = tuple(window_axis(s, k, 1, 1, "valid") for s, k in zip(size, window.taps, strict=True))
    image = image._replace(batch=product((image.batch, *dilations)), spatial=size)
    return replace(window, image=image, out=out, dilations=(1,) * len(size), padding="VALID")


def _blocks(size: Size, taps: Size, dilation: Size, same: bool) -> Size:
    if size is None or taps is None or not dilation:
        return None
    return -(-(size + (taps - 1) * dilation * same) // dilation)
