"""Output shapes against Keras' own `compute_output_shape`, for hundreds of drawn settings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tcprobe.keras.shapes import output_shape
from tests.support import examples

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras", minversion="3.0")
L = keras.layers

many = settings(deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
SMALL = st.integers(1, 4)
LENGTH = st.none() | st.integers(1, 24)
BATCH = st.none() | st.integers(1, 8)


def per_axis(values: st.SearchStrategy[Any], axes: int) -> st.SearchStrategy[Any]:
    """Draw one value for all dimensions, or one for each."""
    return values | st.tuples(*[values] * axes)


def theirs(layer: Any, shape: Any) -> Any:
    """Return Keras' answer for the first output; a shape that Keras refuses is not drawn."""
    try:
        found = layer.compute_output_shape(shape)
    except (ValueError, TypeError) as error:
        assume(f"refused: {error}" == "")
    nested = isinstance(found, list | tuple) and bool(found) and isinstance(found[0], list | tuple)
    return tuple(found[0] if nested else found)


def ours(layer: Any, shape: Any) -> Any:
    return output_shape(type(layer).__name__, layer.get_config(), shape)


def make(kind: str, arguments: dict[str, Any]) -> Any:
    try:
        return getattr(L, kind)(**arguments)
    except (ValueError, TypeError) as error:
        assume(f"refused: {error}" == "")


@st.composite
def images(draw: Any, kinds: tuple[str, ...]) -> tuple[str, int, str, Any]:
    """Draw a layer class, its rank, a data format and an image of it; channels are known, as Keras needs them."""
    axes = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(kinds)).format(axes)
    assume(hasattr(L, kind))
    layout = draw(st.sampled_from(["channels_last", "channels_first"]))
    sizes = draw(st.tuples(*[LENGTH] * axes))
    batch, channels = draw(BATCH), 2 * draw(SMALL)
    return kind, axes, layout, (batch, *sizes, channels) if layout == "channels_last" else (batch, channels, *sizes)


@many
@given(images(("Conv{}D", "Conv{}DTranspose", "SeparableConv{}D", "DepthwiseConv{}D")), st.data())
def test_convolutions(image: tuple[str, int, str, Any], data: st.DataObject) -> None:
    kind, axes, layout, shape = image
    arguments: dict[str, Any] = {
        "kernel_size": data.draw(per_axis(st.integers(1, 5), axes)),
        "strides": data.draw(per_axis(SMALL, axes)),
        "padding": data.draw(st.sampled_from(["valid", "same", *(["causal"] if kind == "Conv1D" else [])])),
        "data_format": layout,
    }
    if not kind.startswith("Depthwise"):
        arguments["filters"] = 2 * data.draw(SMALL)
    if "Transpose" in kind:
        arguments["output_padding"] = data.draw(st.none() | per_axis(st.integers(0, 2), axes))
    elif kind.startswith("Conv"):
        arguments["groups"] = data.draw(st.sampled_from([1, 2]))
    else:
        arguments["depth_multiplier"] = data.draw(SMALL)
    if data.draw(st.booleans()):
        arguments |= {"dilation_rate": data.draw(per_axis(SMALL, axes)), "strides": 1, "output_padding": None}
    if "Transpose" not in kind:
        arguments.pop("output_padding", None)
    layer = make(kind, arguments)
    assert ours(layer, shape) == theirs(layer, shape)
    # The same from the arguments as a source file writes them.
    assert output_shape(kind, arguments, shape) == ours(layer, shape)


@many
@given(images(("MaxPooling{}D", "AveragePooling{}D", "MaxPool{}D", "AvgPool{}D")), st.data())
def test_pooling(image: tuple[str, int, str, Any], data: st.DataObject) -> None:
    kind, axes, layout, shape = image
    arguments = {
        "pool_size": data.draw(per_axis(SMALL, axes)),
        "strides": data.draw(st.none() | per_axis(SMALL, axes)),
        "padding": data.draw(st.sampled_from(["valid", "same"])),
        "data_format": layout,
    }
    layer = make(kind, arguments)
    assert output_shape(kind, arguments, shape) == ours(layer, shape) == theirs(layer, shape)


@many
@given(images(("GlobalMaxPooling{}D", "GlobalAveragePooling{}D", "GlobalAvgPool{}D")), st.booleans())
def test_global_pooling(image: tuple[str, int, str, Any], keep: bool) -> None:
    kind, _, layout, shape = image
    layer = make(kind, {"data_format": layout, "keepdims": keep})
    assert ours(layer, shape) == theirs(layer, shape)


@many
@given(images(("UpSampling{}D", "ZeroPadding{}D", "Cropping{}D")), st.data())
def test_sizes_of_images(image: tuple[str, int, str, Any], data: st.DataObject) -> None:
    kind, axes, layout, shape = image
    assume(axes > 1 or layout == "channels_last")
    name = {"U": "size", "Z": "padding", "C": "cropping"}[kind[0]]
    pairs = st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * axes)
    if kind.startswith("U"):
        value = data.draw(per_axis(SMALL, axes)) if axes > 1 else data.draw(SMALL)
    elif axes == 1:
        value = data.draw(st.integers(0, 3) | st.tuples(st.integers(0, 3), st.integers(0, 3)))
    else:
        value = data.draw(per_axis(st.integers(0, 3), axes) | pairs)
    arguments = {} if data.draw(st.booleans()) else {name: value}
    if axes > 1:
        arguments["data_format"] = layout
    layer = make(kind, arguments)
    assume(None not in shape or not kind.startswith("Crop"))
    assert output_shape(kind, arguments, shape) == ours(layer, shape) == theirs(layer, shape)


@many
@given(st.lists(LENGTH, min_size=2, max_size=4), st.data())
def test_reshaping(sizes: list[int | None], data: st.DataObject) -> None:
    shape = tuple(sizes)
    order = tuple(data.draw(st.permutations(range(1, len(shape)))))
    target = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    if data.draw(st.booleans()):
        target[data.draw(st.integers(0, len(target) - 1))] = -1  # one size at most may be left open
    layers = [L.Flatten(), L.Permute(order), L.Reshape(tuple(target)), L.Embedding(50, 7)]
    for layer in [*layers, *([] if shape[-1] is None else [L.Dense(9)])]:
        assert ours(layer, shape) == theirs(layer, shape)


def test_reshape_to_what_is_left() -> None:
    assert output_shape("Reshape", {"target_shape": (7, 7, -1)}, (None, 3087)) == (None, 7, 7, 63)
    assert output_shape("Reshape", {"target_shape": [-1]}, (4, 7, None)) == (4, None)


SAME = [
    L.Activation("relu"), L.ReLU(), L.LeakyReLU(), L.PReLU(), L.ELU(), L.Softmax(), L.BatchNormalization(),
    L.LayerNormalization(), L.GroupNormalization(2), L.RMSNormalization(), L.UnitNormalization(), L.Dropout(0.1),
    L.SpatialDropout2D(0.1), L.GaussianDropout(0.1), L.GaussianNoise(0.1), L.AlphaDropout(0.1), L.Identity(),
    L.ActivityRegularization(), L.Masking(), L.Rescaling(0.1), L.RandomFlip(), L.RandomRotation(0.1),
    L.RandomZoom(0.1), L.RandomContrast(0.1), L.RandomBrightness(0.1), L.RandomTranslation(0.1, 0.1),
    L.Resizing(9, 11), L.CenterCrop(5, 4), L.RandomCrop(5, 4), L.SpectralNormalization(L.Conv2D(6, 3)),
]  # fmt: skip


@pytest.mark.parametrize("layer", SAME, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("shape", [(None, 12, 10, 6), (4, 7, 8, 2)])
def test_layers_on_images(layer: Any, shape: Any) -> None:
    assert ours(layer, shape) == theirs(layer, shape)


@many
@given(st.sampled_from(["Add", "Multiply", "Average", "Maximum", "Minimum"]), st.data())
def test_elementwise_merges(kind: str, data: st.DataObject) -> None:
    rank, batch = data.draw(st.integers(1, 3)), data.draw(BATCH)
    size = st.sampled_from([1, 5]) | st.none()
    shapes = [(batch, *data.draw(st.tuples(*[size] * rank))) for _ in range(data.draw(st.integers(2, 3)))]
    layer = getattr(L, kind)()
    assert ours(layer, shapes) == theirs(layer, shapes)


@many
@given(st.integers(2, 4), st.data())
def test_concatenation(rank: int, data: st.DataObject) -> None:
    axis = data.draw(st.integers(1, rank - 1))
    base = [data.draw(BATCH), *(data.draw(st.integers(1, 9)) for _ in range(rank - 1))]
    shapes = [
        tuple(data.draw(LENGTH) if i == axis else size for i, size in enumerate(base))
        for _ in range(data.draw(st.integers(2, 4)))
    ]
    layer = L.Concatenate(axis=axis if data.draw(st.booleans()) else axis - rank)
    assert ours(layer, shapes) == theirs(layer, shapes)


@pytest.mark.parametrize("axes", [1, (2, 2), (-1, 1)])
def test_dot(axes: Any) -> None:
    shapes = {1: [(None, 10), (None, 10)], (2, 2): [(4, 6, 10), (4, 7, 10)], (-1, 1): [(4, 6, 10), (4, 10, 7)]}[axes]
    layer = L.Dot(axes)
    assert ours(layer, shapes) == theirs(layer, shapes)


EINSUMS = [
    ("ab,bc->ac", 64, (None, 32)),
    ("abc,cd->abd", (None, 64), (None, None, 32)),
    ("abc,cde->abde", (None, 3, 5), (4, 6, 10)),
    ("...x,xy->...y", 64, (None, 9, 32)),
    ("abc...,bd->ad...", (9,), (4, 6, 10, 3)),
    ("abc,bcd->abd", (6, 7), (None, 6, 10)),
    ("abc,bd->adc", (8, 10), (None, 6, 10)),
]


@pytest.mark.parametrize(("equation", "output", "shape"), EINSUMS)
def test_einsum_dense(equation: str, output: Any, shape: Any) -> None:
    layer = L.EinsumDense(equation, output_shape=output)
    found, expected = ours(layer, shape), tuple(layer.compute_output_shape(shape))
    # Keras forgets a known sequence length where output_shape leaves it open; its own call does not.
    assert len(found) == len(expected) and all(b in (None, a) for a, b in zip(found, expected, strict=True))
    if None not in shape:
        assert found == tuple(layer(keras.ops.zeros(shape)).shape)


@settings(many, max_examples=examples(25))  # each makes up to six layers
@given(st.sampled_from(["LSTM", "GRU", "SimpleRNN"]), st.booleans(), st.booleans(), BATCH, LENGTH)
def test_recurrent(kind: str, sequences: bool, state: bool, batch: int | None, steps: int | None) -> None:
    inner = getattr(L, kind)(9, return_sequences=sequences, return_state=state)
    shape = (batch, steps, 5)
    assert ours(inner, shape) == theirs(inner, shape)
    if not state:
        for mode in ("concat", "sum", "mul", "ave", None):
            layer = L.Bidirectional(getattr(L, kind)(9, return_sequences=sequences), merge_mode=mode)
            assert ours(layer, shape) == theirs(layer, shape)


def test_recurrent_cells() -> None:
    layer = L.RNN([L.LSTMCell(7), L.GRUCell(6)], return_sequences=True)
    assert ours(layer, (None, 4, 5)) == theirs(layer, (None, 4, 5)) == (None, 4, 6)
    single = L.RNN(L.SimpleRNNCell(6))
    assert ours(single, (None, 4, 5)) == theirs(single, (None, 4, 5))


@pytest.mark.parametrize("sequences", [True, False])
def test_convolutional_lstm(sequences: bool) -> None:
    layer = L.ConvLSTM2D(7, 3, strides=2, padding="same", return_sequences=sequences)
    assert ours(layer, (None, 4, 9, 9, 5)) == theirs(layer, (None, 4, 9, 9, 5))


@pytest.mark.parametrize("inner", [L.Dense(7), L.Conv2D(7, 3), L.MaxPooling2D(), L.Flatten(), L.LSTM(7)])
def test_time_distributed(inner: Any) -> None:
    shape = (None, 4, 9, 5) if type(inner) is L.LSTM else (None, 4, 9, 9, 5)
    layer = L.TimeDistributed(inner)
    assert ours(layer, shape) == theirs(layer, shape)


@pytest.mark.parametrize("output", [None, 12, (3, 4)])
def test_multi_head_attention(output: Any) -> None:
    layer = L.MultiHeadAttention(3, 5, output_shape=output)
    shapes = [(None, 6, 10), (None, 9, 12)]
    assert ours(layer, shapes) == tuple(layer.compute_output_shape(*shapes))


def test_other_attention() -> None:
    grouped = L.GroupQueryAttention(5, 6, 2)
    shapes = [(None, 6, 10), (None, 9, 10)]
    assert ours(grouped, shapes) == tuple(grouped.compute_output_shape(*shapes))
    for layer in (L.Attention(), L.AdditiveAttention()):
        assert ours(layer, [(4, 6, 10), (4, 9, 10)]) == theirs(layer, [(4, 6, 10), (4, 9, 10)])


def test_repeat_and_reversible_embedding() -> None:
    repeat, tied = L.RepeatVector(3), L.ReversibleEmbedding(33, 10)
    assert ours(repeat, (None, 5)) == theirs(repeat, (None, 5))
    assert ours(tied, (None, 6)) == theirs(tied, (None, 6))
    assert ours(tied, (None, 6, 10)) == tuple(tied.compute_output_shape((None, 6, 10), reverse=True))
