"""Names of a layer's sizes in the user's words."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.gemm.resize import named_sizes
from tcprobe.schema.op import OpRecord


def record(kind: str, inputs: list[Any], output: Any, pass_: str, **attributes: Any) -> OpRecord:
    return OpRecord(kind, tuple(map(tuple, inputs)), output, attributes, "float16", pass_)


@pytest.mark.parametrize(
    ("pass_", "a", "b", "flags"),
    [
        ("forward", [7, 100], [100, 3087], (False, False)),
        ("dgrad", [7, 3087], [100, 3087], (False, True)),
        ("wgrad", [7, 100], [7, 3087], (True, False)),
    ],
)
def test_dense_has_the_same_names_in_every_pass(pass_: str, a: Any, b: Any, flags: tuple[bool, bool]) -> None:
    op = record("MatMul", [a, b], None, pass_, transpose_a=flags[0], transpose_b=flags[1])
    assert set(named_sizes(op)) == {("inputs", 100), ("units", 3087)}


def test_dense_of_unknown_pass_is_not_named() -> None:
    assert named_sizes(record("MatMul", [[7, 5], [5, 9]], None, "other", transpose_a=False, transpose_b=False)) == []


def test_the_gradient_of_a_gradient_is_named_by_the_multiplication_that_it_is() -> None:
    flags = {"transpose_a": False, "transpose_b": False}
    assert named_sizes(record("MatMul", [[7, 5], [5, 9]], None, "other", form="forward", **flags)) == [
        ("inputs", 5),
        ("units", 9),
    ]


def test_transposed_convolution_swaps_channels_and_filters() -> None:
    # Conv2DTranspose(24) on 63 channels: the kernel is [5, 5, 24, 63].
    op = record(
        "Conv2DBackpropInput", [[4], [5, 5, 24, 63], [2, 7, 7, 63]], (2, 14, 14, 24), "forward",
        data_format="NHWC", strides=[1, 2, 2, 1], padding="SAME",
    )  # fmt: skip
    assert set(named_sizes(op, transposed=True)) == {("filters", 24), ("channels", 63)}


def test_products_of_activations_have_features() -> None:
    op = record("BatchMatMulV2", [[2, 3, 5, 12], [2, 3, 6, 12]], None, "forward", adj_x=False, adj_y=True)
    assert set(named_sizes(op)) == {("features", 12), ("features", 6)}


def test_weight_gradient_of_a_sequence_is_named_as_a_dense_layer() -> None:
    op = record("BatchMatMulV2", [[2, 5, 10], [2, 5, 15]], None, "wgrad", adj_x=True, adj_y=False)
    assert named_sizes(op) == [("inputs", 10), ("units", 15)]


@pytest.mark.parametrize("kind", ["CudnnRNNV3", "CudnnRNNBackpropV3"])
def test_recurrent_layer_has_inputs_and_units(kind: str) -> None:
    # Its matrices are gates x units wide: those are aligned where the units are.
    op = record(kind, [[20, 32, 100], [1, 32, 60]], None, "forward", rnn_mode="lstm")
    assert named_sizes(op) == [("inputs", 100), ("units", 60)]


def test_recurrent_layer_of_more_than_one_direction_is_not_named() -> None:
    assert named_sizes(record("CudnnRNNV3", [[20, 32, 100], [2, 32, 60]], None, "forward", rnn_mode="lstm")) == []


def test_gates_of_a_loop_share_a_dimension() -> None:
    flags = {"transpose_a": False, "transpose_b": False, "gates": 4}
    of_input = record("MatMul", [[8, 10], [10, 28]], None, "forward", **flags, recurrent=False)
    of_state = record("MatMul", [[8, 7], [7, 28]], None, "forward", **flags, recurrent=True)
    assert named_sizes(of_input) == [("inputs", 10), ("units", 7)]
    assert named_sizes(of_state) == [("units", 7)]
