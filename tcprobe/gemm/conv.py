"""Convolutions and their gradients as implicit matrix multiplications, for any number of spatial dimensions.

NVIDIA, "Optimizing Convolutional Layers", gives the three multiplications: forward N*P*Q x K x C*R*S, input
gradient N*H*W x C x K*R*S, weight gradient C*R*S x K x N*P*Q. That is what a library computes and `tcprobe.cost` times.
FLOPs are the same in all three passes: each weight meets each output position once, N*P*Q * C*R*S*K (taps on padding
count). The sizes of an input gradient do not say them: there taps also fall outside the output.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import product as combinations
from typing import Any, Final, Literal

from msgspec import Struct

from tcprobe.gemm.record import first_known
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, known_size, product

ConvPass = Literal["forward", "dgrad", "wgrad"]
CONV_PASSES: Final[dict[str, ConvPass]] = {"conv": "forward", "conv_dgrad": "dgrad", "conv_wgrad": "wgrad"}
"""The pass that each family of convolutions is, as `tcprobe.gemm.ops.family_of` names them."""
OUTPUT: Final = -1
PLACES: Final[dict[ConvPass, tuple[int, int, int]]] = {
    "forward": (0, 1, OUTPUT), "dgrad": (OUTPUT, 1, 2), "wgrad": (0, OUTPUT, 2)
}  # fmt: skip
"""Where image, kernel and result of the forward convolution are: the index of an input, or the output."""
MOST_TAPS: Final = 65536  # no real filter is wider: the record is damaged


class Convolution(Struct, frozen=True):
    """The sizes of one convolution, which its three passes share."""

    batch: Size  # number of images
    # size, out, kernel: spatial sizes of the input, the output and the filter.
    size: Shape
    out: Shape
    kernel: Shape
    # channels, filters: input and output channels of all groups together.
    channels: Size
    filters: Size
    group_channels: Size  # input channels that one filter sees
    # strides, dilations, pads: per spatial dimension; `pads` counts only the padding before the input; a stride is None
    # if it is not recorded.
    strides: Shape
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    declared: Size = None  # number of groups that the op states (no TensorFlow op does); None if it states none

    @property
    def groups(self) -> Size:
        """Number of groups; None if the channels do not tell."""
        if self.declared and (not self.channels or not self.group_channels):
            return self.declared
        if not self.channels or not self.group_channels or self.channels % self.group_channels:
            return None
        return self.channels // self.group_channels

    @property
    def group_filters(self) -> Size:
        """Output channels of one group."""
        groups = self.groups
        return None if groups is None or self.filters is None or self.filters % groups else self.filters // groups

    @property
    def multiplications(self) -> Size:
        """Multiplications of each of the three passes; None if a size is unknown."""
        weights = product((*self.kernel, self.group_channels, self.group_filters, self.groups))
        return product((self.batch, *self.out, weights))

    def gemms(self, kind: ConvPass) -> list[Gemm]:
        """Return the multiplications of one pass; unknown sizes are None."""
        if kind == "dgrad":
            return self._dgrad()
        rows, window = product((self.batch, *self.out)), product((self.group_channels, *self.kernel))
        if kind == "forward":
            return [Gemm(rows, self.group_filters, window, self.groups, self.contiguous)]
        return [Gemm(window, self.group_filters, rows, self.groups, self.contiguous)]

    @property
    def contiguous(self) -> tuple[Contiguous, ...]:
        """Channels and filters of one group: innermost in channels-last memory, the layout for Tensor Cores."""
        return (Contiguous("channels", self.group_channels), Contiguous("filters", self.group_filters))

    def _dgrad(self) -> list[Gemm]:
        """A stride splits the input into interleaved grids, and each grid meets only some of the taps.

        Each tap of a grid meets all output positions. Taps whose grid has no input position meet padding alone: they
        count with the first grid.
        """
        every = self.multiplications
        spatial = zip(self.size, self.kernel, self.strides, self.dilations, self.pads, strict=True)
        axes = [_phases(*axis) for axis in spatial]
        if any(axis is None for axis in axes):
            return [Gemm(None, self.group_channels, None, self.groups, self.contiguous, every)]
        found: Counter[tuple[Size, Size]] = Counter()
        for phases in combinations(*(axis.items() for axis in axes if axis is not None)):
            m = product((self.batch, *(rows for (rows, _), _ in phases)))
            k = product((self.group_filters, *(taps for (_, taps), _ in phases)))
            found[m, k] += math.prod(times for _, times in phases)
        if not found:
            return [Gemm(None, self.group_channels, None, self.groups, self.contiguous, every)]
        met = (self.batch, *self.out, self.group_channels, self.groups)
        needed = [product((*met, k, times)) for (_, k), times in found.items()]
        if every is not None:
            needed[0] = every - sum(count or 0 for count in needed[1:])
        return [
            Gemm(m, self.group_channels, k, product((self.groups, times)), self.contiguous, count)
            for ((m, k), times), count in zip(found.items(), needed, strict=True)
        ]


def _phases(size: Size, kernel: Size, stride: Size, dilation: int, pad: int) -> Counter[tuple[int, int]] | None:
    """Count the residues of the stride by their (input positions, filter taps); None if unknown."""
    if size is None or kernel is None or stride is None or kernel > MOST_TAPS:
        return None
    taps = Counter(tap * dilation % stride for tap in range(kernel))
    phases = (((size - 1 - (residue - pad) % stride) // stride + 1, count) for residue, count in taps.items())
    return Counter((rows, count) for rows, count in phases if rows > 0)


def conv_gemms(op: OpRecord, kind: ConvPass) -> list[Gemm]:
    """Return the multiplications of a TensorFlow convolution or of one of its gradients.

    Args:
        op: Conv*D, Conv*DBackpropInput* or Conv*DBackpropFilter* with its inputs in TensorFlow's order; the kernel
            is HWIO.
        kind: the pass that the op computes, seen from the convolution (the forward pass of a transposed layer is
            ``dgrad``).
    """
    known = convolution_of(op, kind)
    return [UNKNOWN_GEMM] if known is None else known.gemms(kind)


def convolution_of(op: OpRecord, kind: ConvPass) -> Convolution | None:
    """Return the convolution behind an op; None if a rank or the layout is unknown."""
    image, kernel, result = conv_operands(op, kind)
    if kernel is None or len(kernel) < 3 or (image is None and result is None):
        return None
    rank = len(kernel) - 2
    if any(s is not None and len(s) != rank + 2 for s in (image, result)):
        return None
    last = is_channels_last(op, image, kernel, result)
    if last is None:
        return None
    unknown: Shape = (None,) * (rank + 2)
    return _build(op, _split(image or unknown, last), kernel, _split(result or unknown, last), last)


def conv_operands(op: OpRecord, kind: ConvPass) -> tuple[Shape | None, Shape | None, Shape | None]:
    """Return the shapes of image, kernel and result of the forward convolution."""
    image, kernel, result = (op.output_shape if at == OUTPUT else op.shape(at) for at in PLACES[kind])
    return image, kernel, result


def is_channels_last(op: OpRecord, image: Shape | None, kernel: Shape, result: Shape | None) -> bool | None:
    """Return whether features are the last dimension of image and result; None if that is unknown."""
    layout = op.attributes.get("data_format")
    if isinstance(layout, str) and layout:
        return layout.endswith("C")
    if op.attributes:
        return True  # TensorFlow's default
    fits = {last: _layout_fits(last, image, kernel, result) for last in (True, False)}
    return None if fits[True] == fits[False] else fits[True]


def _layout_fits(last: bool, image: Shape | None, kernel: Shape, result: Shape | None) -> bool:
    where = -1 if last else 1
    return all(s is None or s[where] == channels for s, channels in ((image, kernel[-2]), (result, kernel[-1])))


def _split(shape: Shape, last: bool) -> tuple[Size, Shape, Size]:
    return (shape[0], shape[1:-1], shape[-1]) if last else (shape[0], shape[2:], shape[1])


def _build(
    op: OpRecord, image: tuple[Size, Shape, Size], kernel: Shape, result: tuple[Size, Shape, Size], last: bool
) -> Convolution:
    size, taps = image[1], kernel[:-2]
    axes = len(taps)
    dilations = _per_axis(op.attributes.get("dilations"), axes, last) or (1,) * axes
    strides = _per_axis(op.attributes.get("strides"), axes, last) or _unit_strides(size, result[1])
    padding = op.attributes.get("padding")
    computed = tuple(_out(*axis, padding) for axis in zip(size, taps, strides, dilations, strict=True))
    out = tuple(first_known(a, b) for a, b in zip(result[1], computed, strict=True))
    pads = tuple(_pad(*axis, padding) for axis in zip(size, out, taps, strides, dilations, strict=True))
    channels, filters = first_known(image[2], kernel[-2]), first_known(kernel[-1], result[2])
    batch = first_known(image[0], result[0])
    declared = op.attributes.get("groups")
    groups = declared if isinstance(declared, int) and declared > 0 else None
    return Convolution(batch, size, out, taps, channels, filters, kernel[-2], strides, dilations, pads, groups)


def _unit_strides(size: Shape, out: Shape) -> Shape:
    """Take a stride that is not recorded for 1 if the output is as large as the input, else for unknown."""
    return tuple(1 if a is not None and a == b else None for a, b in zip(size, out, strict=True))


def _per_axis(values: Any, axes: int, last: bool) -> tuple[int, ...] | None:
    if not isinstance(values, list) or any(known_size(v) is None for v in values):
        return None
    if len(values) == axes + 2:
        return tuple(values[1:-1] if last else values[2:])
    return tuple(values) if len(values) == axes else None


def _out(size: Size, kernel: Size, stride: Size, dilation: int, padding: Any) -> Size:
    """Return TensorFlow's output size (tf.nn.convolution); unknown for explicit paddings, which are not recorded."""
    if size is None or kernel is None or stride is None or padding not in ("SAME", "VALID"):
        return None
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "SAME" else max(0, -(-(size - reach + 1) // stride)) or None


def _pad(size: Size, out: Size, kernel: Size, stride: Size, dilation: int, padding: Any) -> int:
    if size is None or out is None or kernel is None or stride is None or padding != "SAME":
        return 0
    return max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0) // 2
