"""Products that code calls by itself, as ops: the shapes that TensorFlow's own gradients have."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.ops import gemms_of
from tcprobe.keras.products.layers import Operand, OwnOp, own_records
from tcprobe.keras.products.passes import Passes, multiplied
from tcprobe.schema.op import OpRecord, Shape

PLAIN: dict[str, Any] = {"transpose_a": False, "transpose_b": False}
SLIDES: dict[str, Any] = {"strides": 1, "padding": "same", "dilation_rate": 1}


def records(op: OwnOp, a: Shape | None, b: Shape | None, trained: bool = True, **settings: Any) -> list[OpRecord]:
    made = own_records(op, Operand(a, trained), Operand(b, True, True), "float32", settings)
    return [record for record, _ in made]


def flops(record: OpRecord) -> int:
    return sum(gemm.flops or 0 for gemm in gemms_of(record))


def test_a_matmul_with_a_matrix_is_a_dense_layer() -> None:
    dense = multiplied(Passes("float32"), (32, 250), (250, 63))
    assert records("matmul", (32, 250), (250, 63), **PLAIN) == [record for record, _ in dense]


def test_a_matmul_of_a_sequence_with_a_matrix_is_a_dense_layer_without_flattening() -> None:
    dense = multiplied(Passes("float32"), (32, 50, 250), (250, 63))
    assert records("matmul", (32, 50, 250), (250, 63), **PLAIN) == [record for record, _ in dense]


def test_data_needs_no_gradient() -> None:
    assert [r.pass_ for r in records("matmul", (32, 250), (250, 63), trained=False, **PLAIN)] == ["forward", "wgrad"]


@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=3), st.lists(st.integers(1, 5), max_size=2), st.booleans(),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_both_gradients_multiply_as_much_as_the_forward_pass_and_have_the_operands_shapes(
    sizes: list[int], outer: list[int], turn_a: bool, turn_b: bool, both: bool
) -> None:
    m, k, n = sizes
    a = (*outer, *((k, m) if turn_a else (m, k)))
    b = (*(outer if both else ()), *((n, k) if turn_b else (k, n)))
    forward, of_a, of_b = records("matmul", a, b, transpose_a=turn_a, transpose_b=turn_b)
    assert forward.output_shape == (*outer, m, n)
    assert of_a.output_shape == a and (of_b.output_shape or ())[-2:] == b[-2:]
    assert flops(forward) == flops(of_a) == flops(of_b) == 2 * m * k * n * math.prod(outer)


@pytest.mark.parametrize(
    ("a", "b", "settings"),
    [
        ((32, 250), (None, 63), PLAIN), ((32, 250), (251, 63), PLAIN), ((32, 250), None, PLAIN),
        ((250,), (250, 63), PLAIN),
        ((32, 250), (250, 63), {**PLAIN, "transpose_a": ...}), ((4, 32, 250), (5, 250, 63), PLAIN),
        ((32, 250), (250, 63), {**PLAIN, "transpose_b": True}),
    ],
)  # fmt: skip
def test_sizes_that_are_not_known_or_do_not_fit_give_nothing(
    a: Shape | None, b: Shape | None, settings: dict[str, Any]
) -> None:
    assert records("matmul", a, b, **settings) == []


@pytest.mark.parametrize("a", [None, (None, 250), (32, None), (None, None, 250)])
def test_weights_tell_the_features_of_what_they_multiply(a: Shape | None) -> None:
    forward, of_a, of_b = records("matmul", a, (250, 63), **PLAIN)
    assert {g.k for g in gemms_of(forward)} == {g.n for g in gemms_of(of_a)} == {g.m for g in gemms_of(of_b)} == {250}


def test_two_activations_of_which_one_is_open_give_nothing() -> None:
    both = (Operand((4, 32, None), True), Operand((4, 64, 32), True))
    assert own_records("matmul", *both, "float32", PLAIN) == []


@pytest.mark.parametrize("image", [None, (None, None, None, 3), (32, 28, 28, None)])
def test_a_filter_tells_the_channels_of_an_image(image: Shape | None) -> None:
    forward, _, _ = records("conv", image, (5, 5, 3, 63), **SLIDES)
    assert (forward.shape(0) or ())[-1] == 3 and (forward.output_shape or ())[-1] == 63


def test_a_convolution_is_that_of_a_layer() -> None:
    forward, _, wgrad = records("conv", (32, 28, 28, 3), (5, 5, 3, 63), **SLIDES)
    assert (forward.op_type, forward.output_shape, wgrad.output_shape) == ("Conv2D", (32, 28, 28, 63), (5, 5, 3, 63))


@pytest.mark.parametrize(
    ("image", "kernel", "settings"),
    [
        ((32, 28, 28, 3), (5, 5, None, 63), SLIDES),
        ((32, 28, 28, 4), (5, 5, 3, 63), SLIDES), ((32, 28, 28, 3), (5, 3, 63), SLIDES), ((32, 28), (5, 3), SLIDES),
        ((32, 28, 28, 3), (5, 5, 3, 63), {**SLIDES, "padding": ...}), ((1, 8, 8, 0), (1, 1, 0, 3), SLIDES),
    ],
)  # fmt: skip
def test_a_convolution_that_is_not_known_gives_nothing(image: Shape, kernel: Shape, settings: dict[str, Any]) -> None:
    assert records("conv", image, kernel, **settings) == []


@pytest.mark.parametrize(("equation", "count"), [
    ("bi,io->bo", 3), ("bi, io -> bo", 3), ("bi,io", 0), ("bi,io->...o", 0), ("bb,io->bo", 0), ("bij,io->bo", 0),
    ("bi,oi->bo", 0), ("bi,io->bz", 0), ("bi->b", 0), ("bi,io->", 0),
])  # fmt: skip
def test_an_equation_of_two_operands(equation: str, count: int) -> None:
    assert len(records("einsum", (32, 250), (250, 63), equation=equation)) == count
