"""An op with one size changed: everywhere it appears, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.gemm.resize import named_sizes, resized
from tcprobe.keras.products.layers import records_of
from tcprobe.schema.model import Layer
from tcprobe.schema.op import OpRecord


def op(kind: str, inputs: list[Any], output: Any, pass_: str | None = None, **attributes: Any) -> OpRecord:
    shapes = tuple(None if s is None else tuple(s) for s in inputs)
    return OpRecord(kind, shapes, None if output is None else tuple(output), attributes, "float16", pass_)


def shapes(record: OpRecord) -> list[Any]:
    return [*record.input_shapes, record.output_shape]


PLAIN, BACK, WEIGHT = ({"transpose_a": a, "transpose_b": b} for a, b in ((False, False), (False, True), (True, False)))
NHWC = {"data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "SAME"}


@pytest.mark.parametrize(
    ("record", "change", "expected"),
    [
        # Dense(100 -> 100): units and inputs of one size are told apart, and the batch of 100 from both.
        (op("MatMul", [[100, 100], [100, 100]], [100, 100], "forward", **PLAIN), ("units", 100, 104),
         [(100, 100), (100, 104), (100, 104)]),
        (op("MatMul", [[100, 100], [100, 100]], [100, 100], "forward", **PLAIN), ("inputs", 100, 104),
         [(100, 104), (104, 100), (100, 100)]),
        (op("MatMul", [[7, 3087], [100, 3087]], [7, 100], "dgrad", **BACK), ("units", 3087, 3088),
         [(7, 3088), (100, 3088), (7, 100)]),
        (op("MatMul", [[7, 100], [7, 3087]], [100, 3087], "wgrad", **WEIGHT), ("units", 3087, 3088),
         [(7, 100), (7, 3088), (100, 3088)]),
        (op("_FusedMatMul", [[7, 100], [100, 30], [30]], [7, 30], "forward", **PLAIN), ("units", 30, 32),
         [(7, 100), (100, 32), (32,), (7, 32)]),
        # A sequence, and the weight gradient of each sample.
        (op("BatchMatMulV2", [[4, 6, 10], [10, 15]], [4, 6, 15], "forward", adj_x=False, adj_y=False),
         ("units", 15, 16), [(4, 6, 10), (10, 16), (4, 6, 16)]),
        (op("BatchMatMulV2", [[4, 6, 10], [4, 6, 15]], [4, 10, 15], "wgrad", adj_x=True, adj_y=False),
         ("inputs", 10, 16), [(4, 6, 16), (4, 6, 15), (4, 16, 15)]),
        # Scores of attention: key_dim 12 is contracted, the 6 keys are columns.
        (op("BatchMatMulV2", [[2, 3, 5, 12], [2, 3, 6, 12]], [2, 3, 5, 6], "forward", adj_x=False, adj_y=True),
         ("features", 12, 16), [(2, 3, 5, 16), (2, 3, 6, 16), (2, 3, 5, 6)]),
        (op("Einsum", [[2, 5, 4, 12], [2, 6, 4, 12]], [2, 4, 5, 6], "forward", equation="BTNH,BSNH->BNTS"),
         ("features", 12, 16), [(2, 5, 4, 16), (2, 6, 4, 16), (2, 4, 5, 6)]),
        # Four heads of 12 lie together: 48 becomes 64 by heads of 16.
        (op("Einsum", [[2, 5, 16], [16, 4, 12]], [2, 5, 4, 12], "forward", equation="...c,cde->...de"),
         ("features", 48, 64), [(2, 5, 16), (16, 4, 16), (2, 5, 4, 16)]),
        # 63 channels into 31 filters.
        (op("Conv2D", [[2, 8, 8, 63], [5, 5, 63, 31]], [2, 8, 8, 31], "forward", **NHWC), ("channels", 63, 64),
         [(2, 8, 8, 64), (5, 5, 64, 31), (2, 8, 8, 31)]),
        (op("_FusedConv2D", [[2, 8, 8, 63], [5, 5, 63, 31], [31]], [2, 8, 8, 31], "forward", **NHWC),
         ("filters", 31, 32), [(2, 8, 8, 63), (5, 5, 63, 32), (32,), (2, 8, 8, 32)]),
        (op("Conv2DBackpropInput", [[4], [5, 5, 63, 31], [2, 8, 8, 31]], [2, 8, 8, 63], "dgrad", **NHWC),
         ("filters", 31, 32), [(4,), (5, 5, 63, 32), (2, 8, 8, 32), (2, 8, 8, 63)]),
        (op("Conv2DBackpropFilter", [[2, 8, 8, 63], [4], [2, 8, 8, 31]], [5, 5, 63, 31], "wgrad", **NHWC),
         ("channels", 63, 64), [(2, 8, 8, 64), (4,), (2, 8, 8, 31), (5, 5, 64, 31)]),
        # Four groups of 7 channels and 15 filters: 32 and 64 in all.
        (op("Conv2D", [[2, 8, 8, 28], [3, 3, 7, 60]], [2, 8, 8, 60], "forward", **NHWC), ("channels", 7, 8),
         [(2, 8, 8, 32), (3, 3, 8, 60), (2, 8, 8, 60)]),
        (op("Conv2D", [[2, 8, 8, 28], [3, 3, 7, 60]], [2, 8, 8, 60], "forward", **NHWC), ("filters", 15, 16),
         [(2, 8, 8, 28), (3, 3, 7, 64), (2, 8, 8, 64)]),
        (op("Conv2D", [[2, 63, 8, 8], [5, 5, 63, 31]], [2, 31, 8, 8], "forward", data_format="NCHW",
            strides=[1, 1, 1, 1], padding="SAME"), ("filters", 31, 32), [(2, 63, 8, 8), (5, 5, 63, 32), (2, 32, 8, 8)]),
        # cuDNN: inputs 100 of 20 steps, 60 units; the vector of weights has another length.
        (op("CudnnRNNV3", [[20, 32, 60], [1, 32, 60], [1, 32, 60], [29760], [32]], [20, 32, 60], "forward",
            rnn_mode="lstm"), ("units", 60, 64), [(20, 32, 60), (1, 32, 64), (1, 32, 64), None, (32,), (20, 32, 64)]),
        (op("CudnnRNNBackpropV3", [[20, 32, 100], [1, 32, 60]], [20, 32, 100], "wgrad", rnn_mode="lstm"),
         ("inputs", 100, 104), [(20, 32, 104), (1, 32, 60), (20, 32, 104)]),
    ],
)  # fmt: skip
def test_resized(record: OpRecord, change: tuple[str, int, int], expected: list[Any]) -> None:
    new = resized(record, *change)
    assert shapes(new) == expected
    assert (change[0], change[2]) in named_sizes(new)


def test_transposed_convolution_has_its_filters_where_the_op_has_channels() -> None:
    # Conv2DTranspose(31) on 63 channels: the kernel is [5, 5, 31, 63].
    record = op("Conv2DBackpropInput", [[4], [5, 5, 31, 63], [2, 8, 8, 63]], [2, 8, 8, 31], "forward", **NHWC)
    assert shapes(resized(record, "filters", 31, 32, transposed=True)) == [
        (4,), (5, 5, 32, 63), (2, 8, 8, 63), (2, 8, 8, 32),
    ]  # fmt: skip
    assert shapes(resized(record, "channels", 63, 64, transposed=True))[1:] == [
        (5, 5, 31, 64), (2, 8, 8, 64), (2, 8, 8, 31),
    ]  # fmt: skip


def test_loop_of_a_recurrent_layer_changes_all_gates() -> None:
    layer = Layer("lstm", "LSTM", "LSTM", input_shapes=((4, 3, 5),), config={"units": 7, "activation": "relu"})
    forward, dgrad, wgrad, *state = (record for record, _ in records_of(layer, 4))
    assert shapes(resized(forward, "units", 7, 8)) == [(4, 5), (5, 32), (4, 32)]
    assert shapes(resized(dgrad, "units", 7, 8)) == [(4, 32), (5, 32), (4, 5)]
    assert shapes(resized(wgrad, "inputs", 5, 8)) == [(4, 8), (4, 28), (8, 28)]
    assert shapes(resized(state[0], "units", 7, 8)) == [(4, 8), (8, 32), (4, 32)]
    assert shapes(resized(state[2], "units", 7, 8)) == [(4, 8), (4, 32), (8, 32)]


@pytest.mark.parametrize(
    ("record", "change"),
    [
        (op("MatMul", [[7, 100], [100, 30]], [7, 30], "forward", **PLAIN), ("units", 100, 104)),
        (op("MatMul", [[7, 100], [100, 30]], [7, 30], "forward", **PLAIN), ("filters", 30, 32)),
        (op("MatMul", [[7, 100], [100, 30]], [7, 30], "forward", **PLAIN), ("units", 30, 0)),
        (op("MatMul", [None, None], None, "forward"), ("units", 30, 32)),
        (op("DepthwiseConv2dNative", [[2, 8, 8, 6], [3, 3, 6, 1]], [2, 8, 8, 6], "forward", **NHWC),
         ("channels", 6, 8)),
        # 52 is no multiple of four heads.
        (op("Einsum", [[2, 5, 16], [16, 4, 12]], [2, 5, 4, 12], "forward", equation="abc,cde->abde"),
         ("features", 48, 50)),
        (op("dot", [[7, 10], [10, 30]], [7, 30], lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]),
         ("features", 30, 32)),
        (op("linear", [[7, 10], [30, 10]], [7, 30], "forward"), ("units", 30, 32)),
    ],
)  # fmt: skip
def test_what_is_not_there_cannot_be_changed(record: OpRecord, change: tuple[str, int, int]) -> None:
    with pytest.raises(ValueError, match=record.op_type):
        resized(record, *change)


SIZE = st.integers(1, 40)
LAYERS: list[tuple[str, dict[str, Any], int]] = [
    ("Dense", {}, 1),
    ("EinsumDense", {"equation": "abc,cde->abde"}, 2),
    ("MultiHeadAttention", {}, 2),
    ("Conv1D", {"kernel_size": 3, "strides": 2}, 2),
    ("Conv2D", {"kernel_size": 3, "padding": "same", "groups": 2}, 3),
    ("Conv3D", {"kernel_size": 2}, 4),
    ("Conv2DTranspose", {"kernel_size": 3, "strides": 2}, 3),
    ("LSTM", {}, 2),
    ("GRU", {"unroll": True}, 2),
]


@given(st.sampled_from(LAYERS), SIZE, SIZE, SIZE, st.data())
def test_resized_ops_have_the_size_and_the_flops_follow(
    layer: tuple[str, dict[str, Any], int], inputs: int, units: int, new: int, data: st.DataObject
) -> None:
    kind, settings, axes = layer
    double = settings.get("groups", 1)
    config = {
        "units": units, "filters": units * double, "output_shape": (None, 3, units), "num_heads": 2, "key_dim": units,
        **settings,
    }  # fmt: skip
    if kind == "MultiHeadAttention":
        del config["output_shape"]
    shape = (4, *(9,) * (axes - 1), inputs * double)
    known = Layer(kind, kind, kind, input_shapes=(shape, shape), config=config)
    record = data.draw(st.sampled_from([r for r, _ in records_of(known, 4)]))
    flipped = kind.endswith("Transpose")
    name, old = data.draw(st.sampled_from(named_sizes(record, flipped)))
    new *= 6 if family_of(record.op_type) == "einsum" else 1
    changed = resized(record, name, old, new, flipped)
    assert (name, new) in named_sizes(changed, flipped)
    assert (changed.op_type, changed.attributes, changed.pass_) == (record.op_type, record.attributes, record.pass_)
    before, after = flops_of(gemms_of(record)), flops_of(gemms_of(changed))
    assert before and after
    assert (after > before) == (new > old) or new == old
    if sum(size == old for _, size in named_sizes(record, flipped)) == 1 and family_of(record.op_type) != "rnn":
        assert after * old in (before * new, before * new * new // old)
    if new == old:
        assert changed == record or family_of(record.op_type) == "rnn"
