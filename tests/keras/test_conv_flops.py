"""FLOPs of convolutional layers: the same in all passes, by a count of the weights that meet each position."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.shapes import output_shape
from tcprobe.schema.model import Layer


@given(
    st.integers(1, 3), st.booleans(), st.sampled_from(["same", "valid"]), st.data(),
    st.integers(1, 3), st.integers(2, 5), st.integers(1, 5),
)  # fmt: skip
def test_a_layer_and_its_transposed_one_do_as_much_in_every_pass(
    axes: int, transposed: bool, padding: str, data: st.DataObject, groups: int, channels: int, filters: int
) -> None:
    groups = 1 if transposed else groups
    spatial, taps, strides = (
        data.draw(st.tuples(*[st.integers(1, most)] * axes)) for most in (12, 5, 1 if groups > 1 else 3)
    )
    if padding == "valid" and not transposed:
        spatial = tuple(size + tap - 1 for size, tap in zip(spatial, taps, strict=True))
    kind = f"Conv{axes}D{'Transpose' if transposed else ''}"
    config = {
        "filters": filters * groups,
        "kernel_size": taps,
        "strides": strides,
        "padding": padding,
        "groups": groups,
    }
    if transposed:
        del config["groups"]
    shape = (None, *spatial, channels * groups)
    result = output_shape(kind, config, shape)
    assert result is not None and None not in result[1:]
    # each weight of a layer meets each output position; of a transposed layer each position of its input
    positions = prod(spatial if transposed else (size or 0 for size in result[1:-1]))
    expected = 2 * 8 * positions * prod(taps) * channels * filters * groups
    made = records_of(Layer("x", kind, kind, input_shapes=(shape,), config=config), 8)
    assert [(record.pass_, flops_of(gemms_of(record))) for record, _ in made] == [
        ("forward", expected), ("dgrad", expected), ("wgrad", expected),
    ]  # fmt: skip


@given(st.integers(2, 3), st.sampled_from(["same", "valid"]), st.data())
def test_a_dilated_layer_does_as_much_in_every_pass(axes: int, padding: str, data: st.DataObject) -> None:
    """TensorFlow moves dilation into the batch, and fills the last blocks up: what runs is at least what is needed."""
    spatial, taps, rates = (data.draw(st.tuples(*[st.integers(least, most)] * axes)) for least, most in
                            ((10, 16), (1, 4), (1, 3)))  # fmt: skip
    kind, shape = f"Conv{axes}D", (None, *spatial, 3)
    config = {"filters": 4, "kernel_size": taps, "dilation_rate": rates, "padding": padding}
    result = output_shape(kind, config, shape)
    assert result is not None
    made = records_of(Layer("x", kind, kind, input_shapes=(shape,), config=config), 8)
    (flops,) = {flops_of(gemms_of(record)) for record, _ in made}
    assert flops is not None and flops >= 2 * 8 * prod(size or 0 for size in result[1:-1]) * prod(taps) * 3 * 4


def test_layers_of_well_known_nets_by_hand() -> None:
    """LeNet's 5x5 layer on 12x12: 8x8 positions. DCGAN's first transposed layer: one input position of 4x4 taps."""
    for kind, size, config, products in (
        ("Conv2D", 12, {"filters": 64, "kernel_size": 5}, 8 * 8 * 25 * 32 * 64),
        ("Conv2DTranspose", 1, {"filters": 64, "kernel_size": 4}, 16 * 32 * 64),
    ):
        made = records_of(Layer("x", kind, kind, input_shapes=((None, size, size, 32),), config=config), 128)
        assert [flops_of(gemms_of(record)) for record, _ in made] == [2 * 128 * products] * 3
