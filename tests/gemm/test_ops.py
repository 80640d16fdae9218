"""Ops to matrix multiplications: cases worked by hand from the layer -> GEMM table of NVIDIA's guides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.ops import canonical_type, contiguous_sizes, family_of, gemms_of
from tcprobe.gemm.record import flops_of, parse_dtype, parse_json_shapes, parse_object, parse_shape
from tcprobe.schema.op import OpRecord

NHWC = {"data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "SAME"}


def op(kind: str, inputs: list[Any], output: Any = None, pass_: str | None = None, **attributes: Any) -> OpRecord:
    shapes = tuple(None if s is None else tuple(s) for s in inputs)
    return OpRecord(kind, shapes, None if output is None else tuple(output), attributes, "float16", pass_)


def sizes(record: OpRecord) -> list[tuple[Any, ...]]:
    return [(g.m, g.n, g.k, g.batch) for g in gemms_of(record)]


def contiguous(record: OpRecord) -> set[tuple[str, Any]]:
    return {(c.role, c.size) for g in gemms_of(record) for c in g.contiguous}


@pytest.mark.parametrize(
    ("record", "expected", "inner"),
    [
        # Dense(10 -> 30) on a batch of 7; the batch is never contiguous.
        (op("MatMul", [[7, 10], [10, 30]], transpose_a=False, transpose_b=False), (7, 30, 10, 1), {10, 30}),
        (op("MatMul", [[7, 30], [10, 30]], transpose_a=False, transpose_b=True), (7, 10, 30, 1), {10, 30}),
        (op("MatMul", [[7, 10], [7, 30]], transpose_a=True, transpose_b=False), (10, 30, 7, 1), {10, 30}),
        (op("_FusedMatMul", [[7, 10], [10, 30]], transpose_a=False, transpose_b=False), (7, 30, 10, 1), {10, 30}),
        # Dense on a sequence: leading dimensions are rows.
        (op("BatchMatMulV2", [[2, 5, 10], [10, 30]], adj_x=False, adj_y=False), (10, 30, 10, 1), {10, 30}),
        # Attention scores: 2 * 3 multiplications of [5, 8] by [8, 6].
        (op("BatchMatMulV2", [[2, 3, 5, 8], [2, 3, 6, 8]], adj_x=False, adj_y=True), (5, 6, 8, 6), {8, 6}),
        (op("BatchMatMulV2", [[2, 1, 5, 8], [3, 8, 6]], adj_x=False, adj_y=False), (5, 6, 8, 6), {8, 6}),
        # Only one reading fits these shapes.
        (op("MatMul", [[7, 10], [10, 30]]), (7, 30, 10, 1), {10, 30}),
        (op("MatMul", [[7, 10], [7, 30]], [10, 30]), (10, 30, 7, 1), {10, 30}),
    ],
)
def test_matmul(record: OpRecord, expected: tuple[int, ...], inner: set[int]) -> None:
    assert sizes(record) == [expected]
    assert set(contiguous_sizes(gemms_of(record))) == inner


def test_a_square_matmul_without_attributes_has_more_than_one_reading() -> None:
    assert sizes(op("MatMul", [[8, 8], [8, 8]], [8, 8])) == [(None, None, None, None)]


def test_unknown_batch_leaves_the_features_known() -> None:
    record = op("MatMul", [[None, 10], [10, 30]], [None, 30], transpose_a=False, transpose_b=False)
    assert sizes(record) == [(None, 30, 10, 1)]
    assert flops_of(gemms_of(record)) is None


@pytest.mark.parametrize(
    ("equation", "a", "b", "out", "expected", "inner"),
    [
        # EinsumDense / attention projection: d_model 16 -> 4 heads of 12.
        ("abc,cde->abde", [2, 5, 16], [16, 4, 12], [2, 5, 4, 12], (10, 48, 16, 1), {("k", 16), ("n", 48)}),
        # Scores: batch and head are batch, key_dim 12 is contracted.
        ("bthd,bshd->bhts", [2, 5, 4, 12], [2, 6, 4, 12], [2, 4, 5, 6], (5, 6, 12, 8), {("k", 12), ("n", 6)}),
        ("...ij,jk->...ik", [2, 3, 5, 7], [7, 9], [2, 3, 5, 9], (30, 9, 7, 1), {("k", 7), ("n", 9)}),
        ("bk,bk->b", [4, 7], [4, 7], [4], (1, 1, 7, 4), {("k", 7)}),
        # x is summed out of the left operand before anything is multiplied.
        ("xik,kj->ij", [3, 5, 7], [7, 9], [5, 9], (5, 9, 7, 1), {("k", 7), ("n", 9)}),
    ],
)
def test_einsum(equation: str, a: Any, b: Any, out: Any, expected: Any, inner: set[Any]) -> None:
    record = op("Einsum", [a, b], out, equation=equation)
    assert sizes(record) == [expected]
    assert contiguous(record) == inner


@pytest.mark.parametrize("equation", ["ij->ji", "ab,ab->ab", "a,b->ab", "ij,jk,kl->il"])
def test_einsum_that_is_no_two_operand_product(equation: str) -> None:
    shapes = [[4] * len(text) for text in equation.split("->")[0].split(",")]
    assert gemms_of(op("Einsum", shapes, equation=equation)) == []


@pytest.mark.parametrize("attributes", [{}, {"equation": "iij,jk->ik"}, {"equation": "ij,jk"}])
def test_einsum_unknown(attributes: dict[str, str]) -> None:
    assert sizes(op("Einsum", [[3, 3, 4], [4, 5]], **attributes)) == [(None, None, None, None)]


def test_convolution_three_passes() -> None:
    # 5x5 SAME on 2 images of 28x28x63, 31 filters: N*P*Q = 1568, C*R*S = 1575, K*R*S = 775.
    x, w, y = [2, 28, 28, 63], [5, 5, 63, 31], [2, 28, 28, 31]
    assert sizes(op("Conv2D", [x, w], y, **NHWC)) == [(1568, 31, 1575, 1)]
    assert sizes(op("Conv2DBackpropInput", [[4], w, y], x, **NHWC)) == [(1568, 63, 775, 1)]
    assert sizes(op("Conv2DBackpropFilter", [x, [4], y], w, **NHWC)) == [(1575, 31, 1568, 1)]


def test_all_passes_look_at_channels_and_filters() -> None:
    x, w, y = [2, 28, 28, 63], [5, 5, 63, 31], [2, 28, 28, 31]
    for record in (
        op("Conv2D", [x, w], y, **NHWC),
        op("Conv2DBackpropInput", [[4], w, y], x, **NHWC),
        op("Conv2DBackpropFilter", [x, [4], y], w, **NHWC),
    ):
        assert contiguous(record) == {("channels", 63), ("filters", 31)}


def test_channels_first() -> None:
    attributes = {"data_format": "NCHW", "strides": [1, 1, 2, 2], "padding": "VALID"}
    # (28 - 5) // 2 + 1 = 12
    assert sizes(op("Conv2D", [[2, 3, 28, 28], [5, 5, 3, 8]], **attributes)) == [(2 * 144, 8, 75, 1)]


@pytest.mark.parametrize(
    ("padding", "size", "kernel", "stride", "dilation", "out"),
    [("SAME", 28, 5, 2, 1, 14), ("SAME", 27, 5, 2, 1, 14), ("VALID", 28, 3, 1, 2, 24), ("VALID", 2, 3, 1, 1, None)],
)
def test_output_size(padding: str, size: int, kernel: int, stride: int, dilation: int, out: int | None) -> None:
    record = op(
        "Conv2D", [[1, size, size, 8], [kernel, kernel, 8, 16]], data_format="NHWC", padding=padding,
        strides=[1, stride, stride, 1], dilations=[1, dilation, dilation, 1],
    )  # fmt: skip
    assert sizes(record) == [(out and out * out, 16, kernel * kernel * 8, 1)]


def test_strided_input_gradient_splits_into_interleaved_grids() -> None:
    # 5 taps with stride 2: 3 even and 2 odd ones an axis; 28 rows split 14 and 14. Padding 1 before.
    attributes = {"data_format": "NHWC", "strides": [1, 2, 2, 1], "padding": "SAME"}
    record = op("Conv2DBackpropInput", [[4], [5, 5, 8, 16], [2, 14, 14, 16]], [2, 28, 28, 8], **attributes)
    assert sorted(sizes(record)) == [(392, 8, 64, 1), (392, 8, 96, 2), (392, 8, 144, 1)]
    forward = op("Conv2D", [[2, 28, 28, 8], [5, 5, 8, 16]], [2, 14, 14, 16], **attributes)
    assert flops_of(gemms_of(record)) == flops_of(gemms_of(forward)) == 2 * 392 * 200 * 16


def test_strided_1x1_gradient_touches_a_quarter_of_the_input() -> None:
    attributes = {"data_format": "NHWC", "strides": [1, 2, 2, 1], "padding": "VALID"}
    record = op("Conv2DBackpropInput", [[4], [1, 1, 8, 16], [2, 14, 14, 16]], [2, 28, 28, 8], **attributes)
    assert sizes(record) == [(2 * 14 * 14, 8, 16, 1)]


def test_grouped_convolution_counts_one_group() -> None:
    record = op("Conv2D", [[2, 8, 8, 32], [3, 3, 8, 64]], [2, 8, 8, 64], **NHWC)
    assert sizes(record) == [(128, 16, 72, 4)]
    assert contiguous(record) == {("channels", 8), ("filters", 16)}


def test_conv3d() -> None:
    attributes = {"data_format": "NDHWC", "strides": [1, 1, 1, 1, 1], "padding": "SAME"}
    assert sizes(op("Conv3D", [[1, 4, 6, 6, 3], [3, 3, 3, 3, 8]], **attributes)) == [(144, 8, 81, 1)]


def test_layout_without_attributes_follows_from_the_channels() -> None:
    assert sizes(op("Conv2D", [[2, 3, 28, 28], [5, 5, 3, 8]], [2, 8, 24, 24])) == [(2 * 576, 8, 75, 1)]
    assert sizes(op("Conv2D", [[2, 8, 8, 8], [3, 3, 8, 8]], [2, 8, 8, 8])) == [(None, None, None, None)]


def test_ops_that_multiply_nothing() -> None:
    assert gemms_of(op("DepthwiseConv2dNative", [[2, 8, 8, 32], [3, 3, 32, 1]], **NHWC)) == []
    assert gemms_of(op("Relu", [[2, 8]])) == []


def test_rnn() -> None:
    # 20 steps of 32 sequences, 100 inputs, 64 units: LSTM has 4 gates.
    record = op("CudnnRNNV3", [[20, 32, 100], [1, 32, 64]], rnn_mode="lstm")
    assert sizes(record) == [(640, 256, 100, 1), (32, 256, 64, 20)]
    assert sizes(op("CudnnRNNV3", [[20, 32, 100], [2, 32, 64]], rnn_mode="lstm")) == [(None, None, None, None)]


def test_rnn_gradient_multiplies_for_inputs_and_for_weights() -> None:
    # Twice the forward pass: [640, 256] by [256, 100], 20 of [32, 256] by [256, 64], and both for the weights.
    record = op("CudnnRNNBackpropV3", [[20, 32, 100], [1, 32, 64]], rnn_mode="lstm")
    assert sizes(record) == [(640, 100, 256, 1), (32, 64, 256, 20), (100, 256, 640, 1), (64, 256, 640, 1)]
    forward = op("CudnnRNNV3", [[20, 32, 100], [1, 32, 64]], rnn_mode="lstm")
    assert flops_of(gemms_of(record)) == 2 * (flops_of(gemms_of(forward)) or 0)


def test_groups_that_are_told_count_where_the_channels_are_unknown() -> None:
    shapes = [[2, 8, 8, None], [3, 3, None, 64]]
    assert sizes(op("Conv2D", shapes, [2, 8, 8, 64], groups=4, **NHWC)) == [(128, 16, None, 4)]
    assert sizes(op("Conv2D", shapes, [2, 8, 8, 64], **NHWC)) == [(128, None, None, None)]


def test_hlo_dot() -> None:
    # lhs [7, 10] contracted over its rows: the weight gradient.
    record = op("dot", [[7, 10], [7, 30]], [10, 30], lhs_contracting_dimensions=[0], rhs_contracting_dimensions=[0])
    assert sizes(record) == [(10, 30, 7, 1)]
    assert contiguous(record) == {("m", 10), ("n", 30)}
    nested = {"dot_dimension_numbers": {
        "lhs_contracting_dimensions": [2], "rhs_contracting_dimensions": [1],
        "lhs_batch_dimensions": [0], "rhs_batch_dimensions": [0],
    }}  # fmt: skip
    assert sizes(op("dot", [[3, 5, 8], [3, 8, 6]], [3, 5, 6], **nested)) == [(5, 6, 8, 3)]
    assert sizes(op("dot", [[7, 10], [10, 30]])) == [(None, None, None, None)]
    assert sizes(op("dot", [[7], [7]], lhs_contracting_dimensions=[5], rhs_contracting_dimensions=[0])) == [
        (None, None, None, None)
    ]


def test_hlo_convolution() -> None:
    numbers = {
        "input_batch_dimension": 0, "input_feature_dimension": 3, "input_spatial_dimensions": [1, 2],
        "kernel_input_feature_dimension": 2, "kernel_output_feature_dimension": 3, "kernel_spatial_dimensions": [0, 1],
        "output_batch_dimension": 0, "output_feature_dimension": 3, "output_spatial_dimensions": [1, 2],
    }  # fmt: skip
    shapes: list[Any] = [[2, 28, 28, 63], [5, 5, 63, 31]]
    record = op("convolution", shapes, [2, 28, 28, 31], "forward", **numbers)
    assert sizes(record) == [(1568, 31, 1575, 1)]
    assert contiguous(record) == {("channels", 63), ("filters", 31)}
    assert contiguous(op("convolution", shapes, [2, 28, 28, 31], **numbers)) == set()
    holes = op("convolution", shapes, [2, 28, 28, 31], window={"dimensions": [{"base_dilation": 2}]}, **numbers)
    assert sizes(holes) == [(1568, 31, None, 1)]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("_FusedConv2D", "Conv2D"),
        ("_MklNativeFusedMatMul", "MatMul"),
        ("_MklNativeConv2DBackpropFilterWithBias", "Conv2DBackpropFilter"),
        ("_MklNativePadWithFusedConv2D", "Conv2D"),
        ("_FusedBatchMatMulV2", "BatchMatMulV2"),
        ("MatMul", "MatMul"),
    ],
)
def test_canonical_type(name: str, plain: str) -> None:
    assert canonical_type(name) == plain
    assert family_of(name) == family_of(plain)


NESTED = st.recursive(
    st.none() | st.integers(-(2**70), 2**70) | st.text(max_size=8) | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["strides", "dilations", "padding", "data_format", "equation", "adj_x", "rnn_mode", "groups", "window",
     "lhs_contracting_dimensions", "rhs_contracting_dimensions", "kernel_spatial_dimensions", "feature_group_count",
     "output_feature_dimension", "kernel_input_feature_dimension", "dot_dimension_numbers"]
)  # fmt: skip
TYPES = st.sampled_from(
    ["MatMul", "BatchMatMulV2", "Einsum", "Conv2D", "Conv3D", "Conv2DBackpropInput", "Conv2DBackpropFilter",
     "CudnnRNN", "dot", "convolution", "DepthwiseConv2dNative"]
)  # fmt: skip
SHAPE = st.none() | st.lists(st.none() | st.integers(0, 2**40), max_size=6).map(tuple)


@given(TYPES, st.lists(SHAPE, max_size=3).map(tuple), SHAPE, st.dictionaries(KEYS, NESTED, max_size=4))
def test_damaged_records_give_unknown_or_non_negative_sizes(
    kind: str, inputs: Any, output: Any, attributes: Any
) -> None:
    for gemm in gemms_of(OpRecord(kind, inputs, output, attributes)):
        assert all(v is None or v >= 0 for v in (gemm.m, gemm.n, gemm.k, gemm.batch, gemm.flops))


@given(
    st.integers(1, 4), st.integers(1, 20), st.integers(1, 5), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)
)
def test_passes_of_a_same_convolution_whose_size_the_stride_divides_cost_the_same(
    batch: int, steps: int, kernel: int, stride: int, channels: int, filters: int
) -> None:
    size = steps * stride
    attributes = {"data_format": "NHWC", "strides": [1, stride, stride, 1], "padding": "SAME"}
    x, w, y = [batch, size, size, channels], [kernel, kernel, channels, filters], [batch, steps, steps, filters]
    costs = {
        flops_of(gemms_of(op("Conv2D", [x, w], y, **attributes))),
        flops_of(gemms_of(op("Conv2DBackpropInput", [[4], w, y], x, **attributes))),
        flops_of(gemms_of(op("Conv2DBackpropFilter", [x, [4], y], w, **attributes))),
    }
    assert costs == {2 * batch * steps**2 * kernel**2 * channels * filters}


def test_parsers_take_what_the_tables_hold() -> None:
    assert parse_json_shapes("[[2, null], null]") == ((2, None), None)
    assert parse_shape("[2, -1, true, 1e3, 99999999999999999999]") == (2, None, None, None, None)
    assert (parse_shape(None), parse_json_shapes("{"), parse_object("[1]")) == (None, (), {})
    assert parse_dtype('["float16", "float16"]') == "float16"
    assert parse_dtype('["int32", "float16", "float32"]') == "float16+float32"
    assert parse_dtype("[]") is None
