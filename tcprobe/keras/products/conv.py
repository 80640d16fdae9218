"""Convolutional layers as TensorFlow's ops, in the form in which Keras 3 calls them.

Source: keras/src/backend/tensorflow/nn.py (conv, conv_transpose, separable_conv), tf.nn.convolution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from tcprobe.keras.catalogue import rank_of
from tcprobe.keras.products.passes import Passes, Records
from tcprobe.keras.settings import LayerSettings, channels_last, per_axis, size_of, word_of
from tcprobe.keras.shapes.spatial import convolved, join, split, transposed, window_axis
from tcprobe.schema.op import Shape, Size, product

_LAYOUTS: Final = {(2, True): "NHWC", (2, False): "NCHW", (3, True): "NDHWC", (3, False): "NCDHW"}


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """One convolution op: what slides over which image.

    Attributes:
        batch: images.
        size, out, taps: spatial sizes of image, result and filter.
        channels, filters: all groups together.
        strides, dilations: per spatial dimension.
        padding: ``SAME`` or ``VALID``; None where unknown.
        groups: None where unknown.
        last: whether channels are the last dimension.
    """

    batch: Size
    size: Shape
    out: Shape
    taps: Shape
    channels: Size
    filters: Size
    strides: Shape
    dilations: Shape
    padding: str | None
    groups: Size
    last: bool

    @property
    def image(self) -> Shape:
        """Shape of the image."""
        return join(self.batch, self.size, self.channels, self.last)

    @property
    def result(self) -> Shape:
        """Shape of the forward op's output."""
        return join(self.batch, self.out, self.filters, self.last)

    @property
    def kernel(self) -> Shape:
        """Shape of the filter: HWIO, the input channels those of one group."""
        channels, groups = self.channels, self.groups
        one = None if channels is None or not groups or channels % groups else channels // groups
        return (*self.taps, one, self.filters)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of all three ops."""
        known: dict[str, Any] = {
            "data_format": _LAYOUTS[len(self.size), self.last],
            "dilations": list(join(1, self.dilations, 1, self.last)),
            "groups": self.groups,
        }
        if self.padding is None:  # how strides fall is not known either
            return known
        return {**known, "strides": list(join(1, self.strides, 1, self.last)), "padding": self.padding}


def conv(passes: Passes, kind: str, config: LayerSettings, shape: Shape | None) -> Records:
    """Return the passes of Conv1D, Conv2D or Conv3D."""
    window = _window(kind, config, shape)
    return [] if window is None else _passes(passes, _as_image(_spread(window)))


def conv_transpose(passes: Passes, kind: str, config: LayerSettings, shape: Shape | None) -> Records:
    """Return the passes of Conv*Transpose: its forward pass is the input gradient of a convolution from its output."""
    axes, last = rank_of(kind), channels_last(config)
    if axes is None or last is None:
        return []
    shape = _filled(shape, axes)
    size, channels = split(shape, last)
    out = transposed(kind, config, shape)
    window = SlidingWindow(
        shape[0], (None,) * axes if out is None else split(out, last)[0], size,
        per_axis(config, "kernel_size", axes, None), size_of(config, "filters"), channels,
        per_axis(config, "strides", axes), per_axis(config, "dilation_rate", axes), _padding(config), 1, last,
    )  # fmt: skip
    forward, dgrad, wgrad = (record for record, _ in _passes(Passes(passes.dtype), _as_image(window)))
    return passes.keep(replace(dgrad, pass_="forward"), replace(forward, pass_="dgrad"), wgrad)


def separable(passes: Passes, kind: str, config: LayerSettings, shape: Shape | None) -> Records:
    """Return the 1x1 convolution of SeparableConv1D or 2D; its depthwise part multiplies no matrices."""
    axes, last = rank_of(kind), channels_last(config)
    if axes is None or last is None:
        return []
    shape = _filled(shape, axes)
    out = convolved(kind, config, shape)
    if out is None:
        return []
    size, ones = split(out, last)[0], (1,) * axes
    channels = product((split(shape, last)[1], size_of(config, "depth_multiplier", 1)))
    window = SlidingWindow(
        shape[0], size, size, ones, channels, size_of(config, "filters"), ones, ones, "VALID", 1, last
    )  # fmt: skip
    return _passes(passes.inside, _as_image(window))


def conv_recurrent(passes: Passes, kind: str, config: LayerSettings, shape: Shape | None) -> Records:
    """Return one time step of ConvLSTM: for each of four gates a convolution of the input and one of the state."""
    axes, last = rank_of(kind), channels_last(config)
    if axes is None or last is None:
        return []
    step = None if shape is None or len(shape) != axes + 3 else (shape[0], *shape[2:])
    window = _window(kind, config, step)
    if window is None:
        return []
    state = replace(
        window, size=window.out, channels=window.filters, strides=(1,) * axes, dilations=(1,) * axes, padding="SAME"
    )
    found = _passes(passes, _as_image(_spread(window))) + _passes(passes.inside, _as_image(state))
    return [(record, calls * 4) for record, calls in found]


def _filled(shape: Shape | None, axes: int) -> Shape:
    return shape if shape is not None and len(shape) == axes + 2 else (None,) * (axes + 2)


def _padding(config: LayerSettings) -> str | None:
    word = word_of(config, "padding", "valid")
    return word.upper() if word in ("valid", "same") else None


def _window(kind: str, config: LayerSettings, shape: Shape | None) -> SlidingWindow | None:
    axes, last = rank_of(kind), channels_last(config)
    if axes is None or last is None:
        return None
    shape = _filled(shape, axes)
    size, channels = split(shape, last)
    taps, dilations = per_axis(config, "kernel_size", axes, None), per_axis(config, "dilation_rate", axes)
    strides, padding = per_axis(config, "strides", axes), _padding(config)
    if word_of(config, "padding", "valid") == "causal":
        size, padding = tuple(map(_causal, size, taps, dilations)), "VALID"
    word = padding.lower() if padding else None
    out = tuple(window_axis(*axis, word) for axis in zip(size, taps, strides, dilations, strict=True))
    filters, groups = size_of(config, "filters"), size_of(config, "groups", 1)
    return SlidingWindow(shape[0], size, out, taps, channels, filters, strides, dilations, padding, groups, last)


def _causal(size: Size, taps: Size, dilation: Size) -> Size:
    """Keras pads all of a causal convolution's reach in front, then convolves without padding."""
    return None if size is None or taps is None or dilation is None else size + dilation * (taps - 1)


def _spread(window: SlidingWindow) -> SlidingWindow:
    """Return a dilated convolution as tf.nn.convolution runs it: space to batch, then without dilation or padding."""
    if None in window.dilations or window.padding is None:
        unknown = (None,) * len(window.size)
        return window if None not in window.dilations else replace(window, batch=None, size=unknown, out=unknown)
    if all(d == 1 for d in window.dilations):
        return window
    same = window.padding == "SAME"
    size = tuple(_blocks(*axis, same) for axis in zip(window.size, window.taps, window.dilations, strict=True))
    ones = (1,) * len(size)
    out = tuple(window_axis(s, k, 1, 1, "valid") for s, k in zip(size, window.taps, strict=True))
    batch = product((window.batch, *window.dilations))
    return replace(window, batch=batch, size=size, out=out, dilations=ones, padding="VALID")


def _blocks(size: Size, taps: Size, dilation: Size, same: bool) -> Size:
    if size is None or taps is None or not dilation:
        return None
    return -(-(size + (taps - 1) * dilation * same) // dilation)


def _as_image(window: SlidingWindow) -> SlidingWindow:
    """Return a convolution of a sequence as one of an image of one row, as TensorFlow's conv1d runs it."""
    if len(window.size) != 1:
        return window
    return replace(
        window,
        size=(1, *window.size),
        out=(1, *window.out),
        taps=(1, *window.taps),
        strides=(1, *window.strides),
        dilations=(1, *window.dilations),
    )


def _passes(passes: Passes, window: SlidingWindow) -> Records:
    axes = len(window.size)
    suffix, vector = ("V2" if axes == 3 else ""), (axes + 2,)
    name, image, kernel, result = f"Conv{axes}D", window.image, window.kernel, window.result
    return passes.keep(
        passes.op(name, (image, kernel), result, "forward", **window.attributes),
        passes.op(f"{name}BackpropInput{suffix}", (vector, kernel, result), image, "dgrad", **window.attributes),
        passes.op(f"{name}BackpropFilter{suffix}", (image, vector, result), kernel, "wgrad", **window.attributes),
    )
