"""Ops of layers worked by hand, what is not known, and settings that make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.record import flops_of
from tcprobe.gemm.resize import named_sizes
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.products.sequences import uses_cudnn
from tcprobe.keras.settings import UNRESOLVED
from tcprobe.keras.shapes import output_shape
from tcprobe.schema.model import Layer


def layer(kind: str, *shapes: Any, calls: int = 1, **config: Any) -> Layer:
    return Layer(kind.lower(), kind, kind, input_shapes=shapes, config=config, calls=calls, dtype="float16")


def products(known: Layer, batch: int = 8) -> list[tuple[Any, ...]]:
    """Return pass, calls and GEMM of each op."""
    return [(r.pass_, calls, g.m, g.n, g.k, g.batch) for r, calls in records_of(known, batch) for g in gemms_of(r)]


def names(known: Layer) -> set[tuple[str, int]]:
    flipped = known.kind.endswith("Transpose")
    return {pair for record, _ in records_of(known, 8) for pair in named_sizes(record, flipped)}


def test_dense_in_its_three_passes() -> None:
    # NVIDIA's table: B x U x I, B x I x U, I x U x B; the open batch is the audit's.
    found = layer("Dense", (None, 100), units=3087)
    assert products(found, 4090) == [
        ("forward", 1, 4090, 3087, 100, 1), ("dgrad", 1, 4090, 100, 3087, 1), ("wgrad", 1, 100, 3087, 4090, 1),
    ]  # fmt: skip
    assert {r.dtype for r, _ in records_of(found, 1)} == {"float16"}
    assert names(found) == {("inputs", 100), ("units", 3087)}


def test_a_batch_that_the_model_fixes_stays() -> None:
    assert products(layer("Dense", (16, 10), units=4), 99)[0] == ("forward", 1, 16, 4, 10, 1)


def test_a_layer_called_three_times() -> None:
    assert {calls for _, calls in records_of(layer("Dense", (None, 10), units=4, calls=3), 8)} == {3}


@pytest.mark.parametrize(
    ("first", "trainable", "passes"),
    [
        (None, None, ["forward", "dgrad", "wgrad"]),
        (True, True, ["forward", "wgrad"]),
        (False, False, ["forward", "dgrad"]),
        (True, False, ["forward"]),
    ],
)
def test_gradients_that_nothing_needs_are_left_out(first: Any, trainable: Any, passes: list[str]) -> None:
    for kind, config in (("Dense", {"units": 4}), ("Conv2D", {"filters": 4, "kernel_size": 3})):
        known = Layer(kind, kind, kind, config=config, is_first=first, trainable=trainable)
        assert [r.pass_ for r, _ in records_of(known, 8)] == passes


def test_attention_between_frozen_projections_still_needs_its_gradients() -> None:
    known = Layer(
        "mha", "MultiHeadAttention", "MultiHeadAttention", input_shapes=((None, 6, 16), (None, 6, 16)),
        config={"num_heads": 2, "key_dim": 8}, is_first=False, trainable=False,
    )  # fmt: skip
    passes = [r.pass_ for r, _ in records_of(known, 4)]
    assert (passes.count("forward"), passes.count("dgrad"), passes.count("wgrad")) == (6, 8, 0)


@pytest.mark.parametrize(
    ("kind", "config", "known"),
    [
        ("Dense", {"units": 31}, {("units", 31)}),
        ("Conv1D", {"filters": 31, "kernel_size": 3}, {("filters", 31)}),
        ("Conv2D", {"filters": 31, "kernel_size": 3}, {("filters", 31)}),
        ("Conv2D", {"filters": 62, "kernel_size": 3, "groups": 2}, {("filters", 31)}),
        ("Conv2DTranspose", {"filters": 31, "kernel_size": 3}, {("filters", 31)}),
        ("SeparableConv2D", {"filters": 31, "kernel_size": 3}, {("filters", 31)}),
        ("LSTM", {"units": 31}, {("units", 31)}),
        ("GRU", {"units": 31, "reset_after": False}, {("units", 31)}),
        ("MultiHeadAttention", {"num_heads": 3, "key_dim": 5}, {("features", 5), ("features", 15)}),
        ("EinsumDense", {"equation": "abc,cd->abd", "output_shape": (None, 31)}, {("units", 31)}),
    ],
)
def test_sizes_of_its_own_are_known_where_the_input_is_not(kind: str, config: Any, known: set[Any]) -> None:
    found = layer(kind, **config)
    assert names(found) == known
    assert all(flops_of(gemms_of(record)) is None for record, _ in records_of(found, 8))


@pytest.mark.parametrize("value", [UNRESOLVED, "sixty", -3, 2.5, [1, 2, 3, 4, 5, 6]])
@pytest.mark.parametrize(
    ("kind", "name", "shape", "config"),
    [
        ("Dense", "units", (None, 10), {}),
        ("Conv2D", "filters", (None, 9, 9, 10), {"kernel_size": 3}),
        ("Conv2D", "kernel_size", (None, 9, 9, 10), {"filters": 8}),
        ("Conv2D", "strides", (None, 9, 9, 10), {"filters": 8, "kernel_size": 3}),
        ("Conv2D", "dilation_rate", (None, 9, 9, 10), {"filters": 8, "kernel_size": 3}),
        ("Conv2D", "padding", (None, 9, 9, 10), {"filters": 8, "kernel_size": 3}),
        ("Conv2D", "groups", (None, 9, 9, 10), {"filters": 8, "kernel_size": 3}),
        ("LSTM", "units", (None, 5, 10), {}),
    ],
)
def test_a_setting_that_is_not_known_is_never_guessed(
    kind: str, name: str, shape: Any, config: Any, value: Any
) -> None:
    records = records_of(layer(kind, shape, **config, **{name: value}), 8)
    assert records and all(flops_of(gemms_of(record)) is None for record, _ in records)


def test_a_layout_that_is_not_known_gives_nothing() -> None:
    found = layer("Conv2D", (None, 9, 9, 10), filters=8, kernel_size=3, data_format=UNRESOLVED)
    assert records_of(found, 8) == []


@pytest.mark.parametrize(
    "kind", ["DepthwiseConv2D", "Embedding", "BatchNormalization", "MaxPool2D", "Lambda", "MyBlock"]
)
def test_layers_that_multiply_no_matrices(kind: str) -> None:
    assert records_of(layer(kind, (None, 9, 9, 10), kernel_size=3, input_dim=50257, output_dim=64), 8) == []


def test_tied_embedding_multiplies_where_it_turns_features_into_tokens() -> None:
    tied = layer("ReversibleEmbedding", (None, 9, 64), input_dim=50257, output_dim=64)
    assert products(tied)[0] == ("forward", 1, 72, 50257, 64, 1)
    assert records_of(layer("ReversibleEmbedding", (None, 9), input_dim=50257, output_dim=64), 8) == []


def test_aliases_are_the_same_layers() -> None:
    assert products(layer("Convolution2DTranspose", (None, 4, 4, 8), filters=6, kernel_size=3)) == products(
        layer("Conv2DTranspose", (None, 4, 4, 8), filters=6, kernel_size=3)
    )
    assert records_of(layer("GroupQueryAttention", head_dim=8, num_query_heads=4, num_key_value_heads=2), 8)


def test_lstm_in_cudnn() -> None:
    # 20 steps of 32: the input product of all steps, one product of the state for each; backward twice that.
    known = layer("LSTM", (None, 20, 100), units=64)
    forward, backward = records_of(known, 32)
    assert [(g.m, g.n, g.k, g.batch) for g in gemms_of(forward[0])] == [(640, 256, 100, 1), (32, 256, 64, 20)]
    assert forward[0].op_type == "CudnnRNNV3" and backward[0].op_type == "CudnnRNNBackpropV3"
    assert flops_of(gemms_of(backward[0])) == 2 * (flops_of(gemms_of(forward[0])) or 0)
    assert names(known) == {("inputs", 100), ("units", 64)}


def test_lstm_in_a_loop() -> None:
    known = layer("LSTM", (None, 20, 100), units=64, recurrent_activation="hard_sigmoid")
    assert products(known, 32)[:2] == [("forward", 20, 32, 256, 100, 1), ("dgrad", 20, 32, 100, 256, 1)]
    assert names(known) == {("inputs", 100), ("units", 64)}


def test_a_loop_of_unknown_length_has_no_cost() -> None:
    known = layer("SimpleRNN", (None, None, 100), units=64)
    assert products(known, 32)[0] == ("forward", 1, None, 64, 100, 1)


def test_time_distributed_runs_each_step_apart() -> None:
    inner = {"class_name": "Dense", "config": {"units": 6}}
    assert products(layer("TimeDistributed", (None, 5, 10), layer=inner))[0] == ("forward", 5, 8, 6, 10, 1)
    assert products(layer("TimeDistributed", (None, None, 10), layer=inner))[0] == ("forward", 1, None, 6, 10, 1)


def test_bidirectional_runs_both_directions() -> None:
    inner = {"class_name": "GRU", "config": {"units": 6}}
    known = layer("Bidirectional", (None, 5, 10), layer=inner)
    assert [(r.op_type, calls) for r, calls in records_of(known, 8)] == [("CudnnRNNV3", 2), ("CudnnRNNBackpropV3", 2)]
    other = {"class_name": "SimpleRNN", "config": {"units": 7}}
    both = records_of(layer("Bidirectional", (None, 5, 10), layer=inner, backward_layer=other), 8)
    assert {r.op_type for r, _ in both} == {"CudnnRNNV3", "CudnnRNNBackpropV3", "MatMul"}


@pytest.mark.parametrize(
    ("kind", "config", "answer"),
    [
        ("LSTM", {}, True),
        ("GRU", {}, True),
        ("SimpleRNN", {}, False),
        ("LSTM", {"activation": "relu"}, False),
        ("LSTM", {"recurrent_activation": "hard_sigmoid"}, False),
        ("LSTM", {"recurrent_dropout": 0.1}, False),
        ("LSTM", {"unroll": True}, False),
        ("LSTM", {"use_bias": False}, False),
        ("LSTM", {"use_cudnn": False}, False),
        ("LSTM", {"dropout": 0.5, "return_sequences": True}, True),
        ("GRU", {"reset_after": False}, False),
        ("LSTM", {"reset_after": False}, True),
        ("LSTM", {"recurrent_dropout": UNRESOLVED}, None),
        ("LSTM", {"recurrent_dropout": UNRESOLVED, "unroll": True}, False),
    ],
)
def test_what_cudnn_takes(kind: str, config: Any, answer: bool | None) -> None:
    assert uses_cudnn(kind, config) is answer


KINDS = st.sampled_from(
    ["Dense", "EinsumDense", "MultiHeadAttention", "GroupedQueryAttention", "Attention", "AdditiveAttention", "Dot",
     "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "SeparableConv2D", "ConvLSTM2D", "LSTM",
     "GRU", "SimpleRNN", "RNN", "Bidirectional", "TimeDistributed", "ReversibleEmbedding", "SpectralNormalization",
     "MaxPooling2D", "GlobalAveragePooling1D", "UpSampling2D", "ZeroPadding2D", "Cropping1D", "Reshape", "Flatten",
     "Permute", "Concatenate", "Add", "Resizing", "RepeatVector", "Conv4D", "D", ""]
)  # fmt: skip
SETTINGS = st.sampled_from(
    ["units", "filters", "kernel_size", "strides", "padding", "dilation_rate", "groups", "data_format", "equation",
     "output_shape", "num_heads", "key_dim", "value_dim", "head_dim", "num_query_heads", "num_key_value_heads",
     "attention_axes", "dropout", "layer", "cell", "axes", "axis", "target_shape", "dims", "n", "cropping", "size",
     "pool_size", "output_padding", "merge_mode", "return_sequences", "implementation", "use_cudnn", "input_dim",
     "output_dim", "activation", "unroll", "reverse", "keepdims", "score_mode", "depth_multiplier", "use_gate"]
)  # fmt: skip
SIMPLE = (
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(0, 2) | st.just(UNRESOLVED)
    | st.sampled_from(["same", "valid", "causal", "channels_first", "relu", "ab,bc->ac", "...x,xy->...y", "ab,bc",
                       "aab,bc->ac", "->", "abc,cde->abde"])
)  # fmt: skip
NESTED = st.fixed_dictionaries({"class_name": KINDS, "config": st.dictionaries(SETTINGS, SIMPLE, max_size=3)})
VALUES = SIMPLE | st.lists(SIMPLE | st.tuples(SIMPLE, SIMPLE), max_size=4).map(tuple) | NESTED | st.lists(NESTED)
SHAPES = st.none() | st.lists(st.none() | st.integers(0, 12), max_size=6).map(tuple)


@given(KINDS, st.dictionaries(SETTINGS, VALUES, max_size=6), st.lists(SHAPES, max_size=3).map(tuple))
def test_settings_that_make_no_sense_raise_nothing(kind: str, config: dict[str, Any], shapes: Any) -> None:
    for record, calls in records_of(Layer("x", kind, kind, input_shapes=shapes, config=config), 8):
        assert calls >= 0
        assert all(s is None or s >= 0 for gemm in gemms_of(record) for s in (gemm.m, gemm.n, gemm.k, gemm.batch))
    for given_shape in (shapes, shapes[0] if shapes else None):
        found = output_shape(kind, config, given_shape)
        assert found is None or all(s is None or s >= 0 for s in found)
