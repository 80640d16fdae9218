"""The derived ops of a layer against those of a real training step of Keras on TensorFlow."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.gemm.ops import gemms_of
from tcprobe.keras.products.layers import records_of
from tcprobe.schema.model import Layer
from tcprobe.schema.op import OpRecord, Shape
from tests.support import mostly_long

pytestmark = pytest.mark.tensorflow
tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras", minversion="3.0")

FAMILIES = ("MatMul", "Einsum", "Conv")
ATTRIBUTES = (
    "transpose_a",
    "transpose_b",
    "adj_x",
    "adj_y",
    "equation",
    "strides",
    "dilations",
    "padding",
    "data_format",
)


def own(layer: Any, shapes: list[Shape], **more: Any) -> Layer:
    """Return what an audit knows of a Keras layer."""
    kind = type(layer).__name__
    return Layer(kind.lower(), kind, kind, input_shapes=tuple(shapes), config=layer.get_config(), **more)


def traced(layer: Any, shapes: list[Shape], call: Any = None, data: bool = True) -> list[OpRecord]:
    """Return the ops that multiply in one training step, gradients with regard to inputs and weights included."""
    call = call or (lambda inner, *inputs: inner(*inputs))
    specs = [tf.TensorSpec(s) for s in shapes]
    # Builds the layer without running it: TensorFlow on a CPU does not run dilated transposed convolutions.
    tf.function(lambda *inputs: call(layer, *inputs)).get_concrete_function(*specs)

    @tf.function
    def step(*inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            if data:
                tape.watch(inputs)
            loss = tf.reduce_sum(call(layer, *inputs) ** 2)
        return tape.gradient(loss, [*(inputs if data else ()), *layer.trainable_variables])

    graph = step.get_concrete_function(*specs).graph
    return [_record(op) for op in _ops(graph) if any(name in op.type for name in FAMILIES)]


def _ops(graph: Any) -> list[Any]:
    """Return every op that an output needs, those of called functions included (Keras compiles some convolutions)."""
    found, waiting = [], [output.op for output in graph.outputs]
    seen = set()
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        found.append(op)
        waiting += [tensor.op for tensor in op.inputs]
        if op.type in ("PartitionedCall", "StatefulPartitionedCall"):
            found += _ops(graph._get_function(op.get_attr("f").name).graph)
    return found


def _record(op: Any) -> OpRecord:
    attributes = {name: op.get_attr(name) for name in ATTRIBUTES if name in op.node_def.attr}
    texts = {name: v.decode() if isinstance(v, bytes) else v for name, v in attributes.items()}
    return OpRecord(op.type, tuple(tuple(i.shape) for i in op.inputs), tuple(op.outputs[0].shape), texts)


def sizes(records: list[OpRecord]) -> Counter[tuple[Any, ...]]:
    """Return how many GEMMs of each size there are, with their contiguous dimensions."""
    return Counter((g.m, g.n, g.k, g.batch, frozenset(g.contiguous)) for r in records for g in gemms_of(r))


def derived(layer: Layer) -> list[OpRecord]:
    return [r for r, calls in records_of(layer, 4) for _ in range(int(calls))]


def check(layer: Any, shapes: list[Shape], call: Any = None) -> None:
    assert sizes(derived(own(layer, shapes))) == sizes(traced(layer, shapes, call))


L = keras.layers
SEQUENCE, IMAGE, VOLUME = (4, 6, 10), (4, 20, 17, 6), (4, 9, 8, 10, 6)


@pytest.mark.parametrize("shape", [(4, 10), (4, 6, 10), (4, 3, 2, 10)])
def test_dense(shape: Shape) -> None:
    check(L.Dense(24), [shape])


@pytest.mark.parametrize(
    ("equation", "output", "shape"),
    [
        ("ab,bc->ac", 24, (4, 10)),
        ("ab,cb->ac", 24, (4, 10)),
        ("abc,cd->abd", (None, 24), SEQUENCE),
        ("abc,dc->abd", (None, 24), SEQUENCE),
        ("btd,dnh->btnh", (None, 3, 5), SEQUENCE),
        ("abc,dce->abde", (None, 3, 5), SEQUENCE),
        ("abc,dec->abde", (None, 3, 5), SEQUENCE),
        ("abcd,cde->abe", (None, 7), (4, 6, 3, 5)),
        ("abcd,ced->abe", (None, 7), (4, 6, 3, 5)),
        ("abcd,ecd->abe", (None, 7), (4, 6, 3, 5)),
        ("abc,bcd->abd", (6, 7), SEQUENCE),  # a kernel for each position: no form of Keras' own
        ("abc,bd->adc", (8, 10), SEQUENCE),  # mixes positions
        ("abcde,efg->abcdfg", (None, None, None, 3, 2), (4, 2, 3, 5, 6)),
    ],
)
def test_einsum_dense(equation: str, output: Any, shape: Shape) -> None:
    check(L.EinsumDense(equation, output_shape=output), [shape])


def test_einsum_dense_with_dots_has_the_same_arithmetic() -> None:
    # TensorFlow multiplies the weight gradient of each row apart and sums them up; the derived op contracts the rows.
    layer = L.EinsumDense("...x,xy->...y", output_shape=7)
    ours = sizes(derived(own(layer, [SEQUENCE])))
    theirs = sizes(traced(layer, [SEQUENCE]))
    assert {key[:4] for key in ours} == {(24, 7, 10, 1), (24, 10, 7, 1), (7, 10, 24, 1)}
    assert theirs <= ours


SETTINGS: list[dict[str, Any]] = [
    {},
    {"value_dim": 7},
    {"dropout": 0.1},
    {"output_shape": 12},
    {"use_gate": True},
    {"value_dim": 7, "dropout": 0.5},
]
SELF, CROSS = [SEQUENCE, SEQUENCE], [SEQUENCE, (4, 9, 12)]


@pytest.mark.parametrize(
    ("settings", "shapes"),
    mostly_long(
        product(SETTINGS, [SELF, CROSS, [*CROSS, (4, 9, 8)]]),  # all settings of one kind, all kinds with one setting
        lambda case: case[1] is CROSS or not case[0],
    ),
)
def test_multi_head_attention(settings: Any, shapes: list[Shape]) -> None:
    check(L.MultiHeadAttention(3, 5, **settings), shapes, lambda layer, *inputs: layer(*inputs, training=True))


@pytest.mark.parametrize("axes", [None, (1,), (2,), (1, 2)])
def test_multi_head_attention_of_images(axes: Any) -> None:
    check(L.MultiHeadAttention(3, 5, attention_axes=axes), [(4, 5, 7, 10), (4, 5, 7, 10)])


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.1}, {"use_gate": True}])
def test_grouped_query_attention(settings: Any) -> None:
    layer = L.GroupQueryAttention(5, 6, 2, **settings)
    check(layer, [SEQUENCE, (4, 9, 10)], lambda inner, *inputs: inner(*inputs, training=True))


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", ["Attention", "AdditiveAttention"])
def test_attention(kind: str, count: int) -> None:
    shapes: list[Shape] = [SEQUENCE, (4, 9, 10), (4, 9, 10)]
    check(getattr(L, kind)(), shapes[:count], lambda layer, *inputs: layer(list(inputs)))


def test_attention_that_concatenates() -> None:
    layer = L.Attention(score_mode="concat")
    check(layer, [SEQUENCE, (4, 9, 10)], lambda inner, *inputs: inner(list(inputs)))


@pytest.mark.parametrize("axes", [1, (2, 2), (-1, 1)])
def test_dot(axes: Any) -> None:
    shapes: list[Shape] = {1: [(4, 10), (4, 10)], (2, 2): [SEQUENCE, (4, 7, 10)], (-1, 1): [SEQUENCE, (4, 10, 7)]}[axes]
    check(L.Dot(axes), shapes, lambda layer, *inputs: layer(list(inputs)))


def _all_of(kind: str, kinds: dict[str, Shape], settings: list[dict[str, Any]]) -> list[Any]:
    """Return all settings with both paddings of each kind; of all kinds but one, only each with another setting."""
    every = product(kinds, settings, ("valid", "same"))
    return mostly_long(every, lambda case: case[0] == kind or (case[1] == settings[1] and case[2] == "same"))


CONVOLUTIONS: dict[str, Shape] = {"Conv1D": (4, 20, 6), "Conv2D": IMAGE, "Conv3D": VOLUME}
STRIDES: list[dict[str, Any]] = [{}, {"strides": 2}, {"dilation_rate": 2}, {"strides": 3, "kernel_size": 2}]


@pytest.mark.parametrize(("kind", "more", "padding"), _all_of("Conv2D", CONVOLUTIONS, STRIDES))
def test_convolution(kind: str, more: Any, padding: str) -> None:
    check(getattr(L, kind)(8, **{"kernel_size": 3, "padding": padding, **more}), [CONVOLUTIONS[kind]])


@pytest.mark.parametrize("more", [{}, {"strides": 2}, {"dilation_rate": 2}])
def test_causal_convolution(more: Any) -> None:
    check(L.Conv1D(8, 3, padding="causal", **more), [(4, 19, 6)])


@pytest.mark.parametrize("rate", [(1, 2), (3, 1), (2, 3)])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_dilation_along_some_dimensions(rate: tuple[int, int], padding: str) -> None:
    check(L.Conv2D(8, (3, 5), dilation_rate=rate, padding=padding), [IMAGE])


@pytest.mark.parametrize("more", [{}, {"strides": 2, "padding": "same"}, {"dilation_rate": 2}])
@pytest.mark.parametrize(("kind", "shape"), [("Conv1D", (4, 20, 6)), ("Conv2D", IMAGE)])
def test_grouped_convolution(kind: str, shape: Shape, more: Any) -> None:
    check(getattr(L, kind)(8, 3, groups=2, **more), [shape])


def test_channels_first() -> None:
    layer = L.Conv2D(8, (3, 5), strides=2, data_format="channels_first")
    ours, found = own(layer, [(4, 6, 20, 17)]), L.Conv2D(8, (3, 5), strides=2)
    # TensorFlow on a CPU cannot convolve channels first; the arithmetic is that of the same image channels last.
    assert sizes(derived(ours)) == sizes(traced(found, [IMAGE]))
    assert [r.attributes["data_format"] for r in derived(ours)] == ["NCHW"] * 3


TRANSPOSED: dict[str, Shape] = {
    "Conv1DTranspose": (4, 20, 6),
    "Conv2DTranspose": (4, 7, 5, 6),
    "Conv3DTranspose": (4, 3, 4, 5, 6),
}
OUTPUTS: list[dict[str, Any]] = [{}, {"strides": 2}, {"strides": 3, "output_padding": 1}, {"dilation_rate": 2}]


@pytest.mark.parametrize(("kind", "more", "padding"), _all_of("Conv2DTranspose", TRANSPOSED, OUTPUTS))
def test_transposed_convolution(kind: str, more: Any, padding: str) -> None:
    check(getattr(L, kind)(8, 3, padding=padding, **more), [TRANSPOSED[kind]])


SEPARABLE: dict[str, Shape] = {"SeparableConv1D": (4, 20, 6), "SeparableConv2D": (4, 20, 20, 6)}
DEPTHS: list[dict[str, Any]] = [{}, {"strides": 2}, {"depth_multiplier": 3}, {"dilation_rate": 2}]


@pytest.mark.parametrize(("kind", "more", "padding"), _all_of("SeparableConv2D", SEPARABLE, DEPTHS))
def test_separable_convolution(kind: str, more: Any, padding: str) -> None:
    check(getattr(L, kind)(8, 3, padding=padding, **more), [SEPARABLE[kind]])


@pytest.mark.parametrize(("kind", "shape"), [("DepthwiseConv1D", (4, 20, 6)), ("DepthwiseConv2D", IMAGE)])
def test_depthwise_convolution_multiplies_no_matrices(kind: str, shape: Shape) -> None:
    layer = getattr(L, kind)(3)
    assert sizes(traced(layer, [shape])) == Counter()
    assert records_of(own(layer, [shape]), 4) == []


def test_time_distributed() -> None:
    check(L.TimeDistributed(L.Dense(7)), [SEQUENCE])
    check(L.TimeDistributed(L.Conv2D(7, 3)), [(4, 3, 8, 8, 5)])


LOOPS = [
    ("LSTM", {}),
    ("LSTM", {"implementation": 1}),
    ("LSTM", {"recurrent_dropout": 0.1}),
    ("GRU", {}),
    ("GRU", {"reset_after": False}),
    ("GRU", {"implementation": 1}),
    ("SimpleRNN", {}),
]


@pytest.mark.parametrize(("kind", "settings"), LOOPS)
def test_loop_of_time_steps(kind: str, settings: Any) -> None:
    layer, shapes = getattr(L, kind)(7, unroll=True, **settings), [(4, 3, 5)]
    ours = own(layer, shapes)
    ours = replace(ours, config={**ours.config, **settings})  # Keras keeps `implementation` to itself
    assert sizes(derived(ours)) == sizes(traced(layer, shapes, lambda inner, x: inner(x, training=True)))


def test_bidirectional_loop() -> None:
    check(L.Bidirectional(L.LSTM(7, unroll=True)), [(4, 3, 5)])


def test_loop_over_cells() -> None:
    cells = [L.LSTMCell(7), L.GRUCell(6), L.SimpleRNNCell(5)]
    check(L.RNN(cells, unroll=True), [(4, 3, 5)])
    check(L.RNN(L.GRUCell(6), unroll=True), [(4, 3, 5)])


def test_convolutional_lstm_steps() -> None:
    # TensorFlow computes the gradient of the first state as well, which nothing takes; Keras splits the four gates.
    layer, shape = L.ConvLSTM2D(7, 3, strides=2), (4, 3, 9, 9, 5)
    inputs, state = [r for r in derived(own(layer, [shape])) if r.pass_ == "forward"][:: 4 * 3]
    assert (inputs.shape(0), inputs.output_shape) == ((4, 9, 9, 5), (4, 4, 4, 7))
    assert (state.shape(0), state.shape(1), state.output_shape) == ((4, 4, 4, 7), (3, 3, 7, 7), (4, 4, 4, 7))
    cell = layer.cell
    layer(tf.zeros(shape))
    step = [(4, 9, 9, 5), (4, 4, 4, 7), (4, 4, 4, 7)]
    found = traced(cell, step, lambda inner, x, h, c: inner(x, [h, c])[0])
    assert sizes(derived(own(layer, [shape]))) == Counter({size: 3 * n for size, n in sizes(found).items()})


def test_tied_projection_onto_the_vocabulary() -> None:
    layer = L.ReversibleEmbedding(33, 10)
    layer.build()
    check(layer, [SEQUENCE], lambda inner, x: inner(x, reverse=True))


NEEDED: list[tuple[Any, list[Shape]]] = [
    (lambda: L.Dense(24), [SEQUENCE]),
    (lambda: L.EinsumDense("abc,cde->abde", output_shape=(None, 3, 5)), [SEQUENCE]),
    (lambda: L.EinsumDense("abc,bcd->abd", output_shape=(6, 7)), [SEQUENCE]),
    (lambda: L.MultiHeadAttention(3, 5), [SEQUENCE, (4, 9, 10)]),
    (lambda: L.GroupQueryAttention(5, 6, 2), [SEQUENCE, (4, 9, 10)]),
    (lambda: L.Conv1D(8, 3, dilation_rate=2), [(4, 20, 6)]),
    (lambda: L.Conv2D(8, 3), [IMAGE]),
    (lambda: L.Conv3D(8, 3), [VOLUME]),
    (lambda: L.Conv2DTranspose(8, 3, strides=2), [IMAGE]),
    (lambda: L.SeparableConv2D(8, 3), [IMAGE]),
    (lambda: L.GRU(7, unroll=True, reset_after=False), [(4, 3, 5)]),
    (lambda: L.TimeDistributed(L.Dense(7)), [SEQUENCE]),
]


@pytest.mark.parametrize(("make", "shapes"), NEEDED)
def test_a_first_layer_computes_no_gradient_of_data(make: Any, shapes: list[Shape]) -> None:
    layer = make()
    assert sizes(derived(own(layer, shapes, is_first=True))) == sizes(traced(layer, shapes, data=False))


@pytest.mark.parametrize(("make", "shapes"), NEEDED)
def test_a_frozen_layer_computes_no_gradient_of_weights(make: Any, shapes: list[Shape]) -> None:
    layer = make()
    layer.trainable = False
    assert sizes(derived(own(layer, shapes, trainable=False))) == sizes(traced(layer, shapes))
