"""FLOPs of a convolution: the same in all three passes, by every door, against a count of each product by itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.schema.op import OpRecord

PASSES = ("forward", "dgrad", "wgrad")


class Axis(Struct, frozen=True):
    """One spatial dimension of a convolution; `before` and `after` are its padding."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def reach(self) -> int:
        return (self.taps - 1) * self.dilation + 1

    @property
    def out(self) -> int:
        return (self.size + self.before + self.after - self.reach) // self.stride + 1


class Conv(Struct, frozen=True):
    axes: tuple[Axis, ...]
    padding: str
    batch: int
    channels: int  # of a group
    filters: int  # of a group
    groups: int
    last: bool

    @property
    def shapes(self) -> tuple[list[int], list[int], list[int]]:
        image, result = ([self.batch, *sizes] for sizes in ([a.size for a in self.axes], [a.out for a in self.axes]))
        where = len(image) if self.last else 1
        image.insert(where, self.channels * self.groups)
        result.insert(where, self.filters * self.groups)
        return image, [*(a.taps for a in self.axes), self.channels, self.filters * self.groups], result

    def counted(self) -> int:
        """Count, one by one, where a tap meets an output position, on padding too."""
        places = (1 for each in combinations(*(combinations(range(a.out), range(a.taps)) for a in self.axes)) if each)
        return 2 * sum(places) * self.batch * self.channels * self.filters * self.groups

    def traced(self) -> Iterator[OpRecord]:
        """Yield the three passes as TensorFlow's ops, which take a sequence for an image of one row."""
        if len(self.axes) == 1:
            yield from replace(self, axes=(Axis(1, 1, 1, 1, 0, 0), *self.axes)).traced()
            return
        image, kernel, result = (tuple(shape) for shape in self.shapes)
        axes, name = len(self.axes), f"Conv{len(self.axes)}D"
        layout = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}[axes][self.last]

        def per_axis(sizes: list[int]) -> list[int]:
            return [1, *sizes, 1] if self.last else [1, 1, *sizes]

        attributes: dict[str, Any] = {
            "data_format": layout, "padding": self.padding, "strides": per_axis([a.stride for a in self.axes]),
            "dilations": per_axis([a.dilation for a in self.axes]),
        }  # fmt: skip
        ops = (
            (name, (image, kernel), result),
            (f"{name}BackpropInput", ((axes + 2,), kernel, result), image),
            (f"{name}BackpropFilter", (image, (axes + 2,), result), kernel),
        )
        for (op, inputs, output), pass_ in zip(ops, PASSES, strict=True):
            yield OpRecord(op, inputs, output, attributes, "float16", pass_)

    def compiled(self, says: bool) -> Iterator[OpRecord]:
        """Yield the passes as XLA's convolutions: gradients dilate their image or their window.

        Args:
            says: whether the profile tells which pass it is.
        """
        lead, axes = (self.batch, self.channels, self.filters), self.axes
        for pass_, (batch, features, out), sides, window in (
            ("forward", lead, ("size", "taps", "out"), [_window(a, a.stride, 1, a.dilation) for a in axes]),
            ("dgrad", (self.batch, self.filters, self.channels), ("out", "taps", "size"),
             [{**_window(a, 1, a.stride, a.dilation), "window_reversal": 1} for a in axes]),
            ("wgrad", (self.channels, self.batch, self.filters), ("size", "out", "taps"),
             [_window(a, a.dilation, 1, a.stride) for a in axes]),
        ):  # fmt: skip
            image, kernel, result = ([getattr(a, side) for a in axes] for side in sides)
            groups = self.groups if pass_ != "wgrad" else 1
            shapes = ((batch, features * groups, *image), (features, out * groups, *kernel))
            spatial = list(range(2, 2 + len(axes)))
            numbers = {
                "input_batch_dimension": 0, "input_feature_dimension": 1, "input_spatial_dimensions": spatial,
                "kernel_input_feature_dimension": 0, "kernel_output_feature_dimension": 1,
                "kernel_spatial_dimensions": spatial, "output_batch_dimension": 0, "output_feature_dimension": 1,
                "output_spatial_dimensions": spatial,
            }  # fmt: skip
            attributes = {"convolution_dimension_numbers": numbers, "window": {"dimensions": window}}
            if groups > 1:
                attributes["feature_group_count"] = groups
            yield OpRecord(
                "convolution", shapes, (batch, out * groups, *result), attributes, None, pass_ if says else None
            )


def _window(axis: Axis, stride: int, of_image: int, of_window: int) -> dict[str, int]:
    return {"stride": stride, "base_dilation": of_image, "window_dilation": of_window}


@st.composite
def convolutions(draw: st.DrawFn, ranks: tuple[int, ...] = (1, 2, 3)) -> Conv:
    padding = draw(st.sampled_from(["SAME", "VALID", "EXPLICIT"]))
    axes = []
    for _ in range(draw(st.sampled_from(ranks))):
        size, taps, stride, dilation = (draw(st.integers(1, most)) for most in (9, 5, 4, 3))
        reach = (taps - 1) * dilation + 1
        if padding == "SAME":
            whole = max((-(-size // stride) - 1) * stride + reach - size, 0)
            before, after = whole // 2, whole - whole // 2
        elif padding == "VALID":
            size, before, after = size + reach - 1, 0, 0
        else:
            before, after = draw(st.integers(0, 6)), draw(st.integers(0, 6))
            size = max(size, reach - before - after)
        axes.append(Axis(size, taps, stride, dilation, before, after))
    batch, channels, filters, groups = (draw(st.integers(1, most)) for most in (3, 5, 5, 3))
    if channels == 1:
        groups = 1
    return Conv(tuple(axes), padding, batch, channels, filters, groups, draw(st.booleans()))


@given(convolutions())
def test_all_passes_do_as_much_as_a_count_of_each_product(conv: Conv) -> None:
    for record in conv.traced():
        gemms = gemms_of(record)
        assert flops_of(gemms) == conv.counted(), record
        assert all(gemm.flops is not None and gemm.flops >= 0 for gemm in gemms)


@given(convolutions())
def test_all_passes_of_xla_do_as_much(conv: Conv) -> None:
    for record in conv.compiled(says=True):
        # XLA writes the weight gradient of groups in a way of its own (`batch_group_count`): one group stands for them
        groups = conv.groups if record.pass_ == "wgrad" else 1
        assert (flops_of(gemms_of(record)) or 0) * groups == conv.counted(), record


@given(convolutions())
def test_where_xla_does_not_say_the_pass_its_window_does(conv: Conv) -> None:
    for record in conv.compiled(says=False):
        groups = 1 if "feature_group_count" in record.attributes else conv.groups
        assert (flops_of(gemms_of(record)) or 0) * groups == conv.counted(), record


@given(convolutions((2, 3)))
def test_shapes_alone_tell_what_a_gradient_does(conv: Conv) -> None:
    """DLProf has neither strides nor padding: shapes suffice where they show the layout."""
    made = [(record, flops_of(gemms_of(OpRecord(record.op_type, record.input_shapes, record.output_shape))))
            for record in conv.traced()]  # fmt: skip
    assert all(flops in (None, conv.counted()) for _, flops in made)
    if conv.channels * conv.groups > 9 + 4 * 3 and conv.groups == 1:
        assert None not in [flops for _, flops in made]


@pytest.mark.parametrize(
    ("size", "taps", "out", "padding", "stride", "products"),
    [
        # LeNet's second layer on MNIST: 8x8 positions of 5x5 taps; over 12x12 positions of the image it was 2.25 times.
        (12, 5, 8, "VALID", 1, 8 * 8 * 25),
        # One position of 25 taps; the input gradient alone counted 25 of them, 625.
        (5, 5, 1, "VALID", 1, 25),
        # DCGAN's first transposed layer, 1x1 to 4x4: as the input gradient of 4x4 to 1x1 it counted 16 times as much.
        (4, 4, 1, "VALID", 1, 16),
        # An odd image: 4x4 positions of 3x3 taps, 0.69 of which the gradient's grids hold.
        (7, 3, 4, "SAME", 2, 16 * 9),
        # One pixel: 8 of 9 taps meet padding, in every pass.
        (1, 3, 1, "SAME", 2, 9),
        # Strides that leave holes: a quarter of the image is read.
        (28, 1, 14, "VALID", 2, 14 * 14),
    ],
)
def test_worked_cases(size: int, taps: int, out: int, padding: str, stride: int, products: int) -> None:
    attributes = {"data_format": "NHWC", "padding": padding, "strides": [1, stride, stride, 1]}
    x, w, y = (2, size, size, 8), (taps, taps, 8, 16), (2, out, out, 16)
    records = (
        OpRecord("Conv2D", (x, w), y, attributes),
        OpRecord("Conv2DBackpropInput", ((4,), w, y), x, attributes),
        OpRecord("Conv2DBackpropFilter", (x, (4,), y), w, attributes),
    )
    assert [flops_of(gemms_of(record)) for record in records] == [2 * 2 * products * 8 * 16] * 3


def test_what_a_library_computes_is_not_the_arithmetic() -> None:
    """28x28 from 24x24 by 5x5 taps: every input position times every tap is computed, each output position counts."""
    attributes = {"data_format": "NHWC", "padding": "VALID", "strides": [1, 1, 1, 1]}
    record = OpRecord("Conv2DBackpropInput", ((4,), (5, 5, 8, 16), (2, 24, 24, 16)), (2, 28, 28, 8), attributes)
    (gemm,) = gemms_of(record)
    assert (gemm.m, gemm.n, gemm.k) == (2 * 28 * 28, 8, 25 * 16)
    assert (gemm.dense_flops, gemm.flops) == (2 * 2 * 28 * 28 * 25 * 128, 2 * 2 * 24 * 24 * 25 * 128)


def test_an_input_gradient_of_unknown_padding_and_output_has_unknown_flops() -> None:
    attributes = {"data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "EXPLICIT"}
    record = OpRecord("Conv2DBackpropInput", ((4,), (5, 5, 8, 16), None), (2, 28, 28, 8), attributes)
    assert flops_of(gemms_of(record)) is None


def test_each_grid_of_a_strided_gradient_has_its_taps_of_the_flops() -> None:
    """5 taps by stride 2: 3 even and 2 odd ones an axis; 14x14 positions meet all of them."""
    attributes = {"data_format": "NHWC", "strides": [1, 2, 2, 1], "padding": "SAME"}
    record = OpRecord("Conv2DBackpropInput", ((4,), (5, 5, 8, 16), (2, 14, 14, 16)), (2, 28, 28, 8), attributes)
    unit = 2 * 2 * 14 * 14 * 8 * 16
    assert sorted(gemm.flops or 0 for gemm in gemms_of(record)) == [4 * unit, 9 * unit, 12 * unit]
    assert flops_of(gemms_of(record)) == 25 * unit
