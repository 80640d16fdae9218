"""Products that the user's code calls by itself, read from source: judged where their sizes are known."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.model import foreign_to_tensorflow
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.schema.model import Model

HEAD = "import tensorflow as tf\nimport keras\nfrom keras import layers, ops\n"
LAYER = """
class Own(layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(250, 63))
        self.k = self.add_weight(shape=(3, 3, 250, 63))
    def call(self, x):
        return {call}
x = keras.Input({shape})
model = keras.Model(x, Own()({given}))
"""


def read(text: str, batch: int | None = None) -> Model:
    (model,) = read_model(parse_source(HEAD + text, "/model.py"), batch)
    return model


def layer(call: str, shape: str = "(250,)", given: str = "x") -> Model:
    return read(LAYER.format(call=call, shape=shape, given=given), 32)


@pytest.mark.parametrize(
    "call",
    [
        "tf.matmul(x, self.w)", "tf.linalg.matmul(x, self.w)", "tf.matmul(a=x, b=self.w)", "x @ self.w",
        "ops.matmul(x, self.w)", "ops.matmul(x1=x, x2=self.w)", "tf.compat.v1.matmul(x, self.w)",
        "tf.nn.relu(tf.matmul(x, self.w) + 1.0)",
    ],
)  # fmt: skip
def test_a_product_is_judged_at_its_line(call: str) -> None:
    model = layer(call)
    assert model.not_judged == ()
    assert [(p.record.pass_, p.record.input_shapes, p.layer, p.op) for p in model.products] == [
        ("forward", ((32, 250), (250, 63)), None, "matmul"),
        ("wgrad", ((32, 250), (32, 63)), None, "matmul"),
    ]
    assert {p.place.line for p in model.products if p.place} == {10}


def test_behind_a_layer_its_input_has_a_gradient_too() -> None:
    products = layer("tf.matmul(x, self.w)", "(10,)", "layers.Dense(250)(x)").products
    assert [p.record.pass_ for p in products if p.layer is None] == ["forward", "dgrad", "wgrad"]


@pytest.mark.parametrize(
    ("call", "op"),
    [
        ("tf.nn.conv2d(x, self.k, 1, 'SAME')", "conv2d"),
        ("tf.nn.conv2d(x, self.k, strides=[1, 1, 1, 1], padding='SAME')", "conv2d"),
        ("tf.nn.conv2d(input=x, filters=self.k, strides=(1, 1), padding='SAME')", "conv2d"),
        ("ops.conv(x, self.k, padding='same')", "conv"),
    ],
)
def test_a_convolution_is_judged(call: str, op: str) -> None:
    forward, wgrad = layer(call, "(8, 8, 250)").products
    assert (forward.op, forward.record.output_shape) == (op, (32, 8, 8, 63))
    assert (wgrad.record.pass_, wgrad.record.output_shape) == ("wgrad", (3, 3, 250, 63))


@pytest.mark.parametrize(
    ("call", "library", "name"),
    [
        ("tf.matmul(x, unknown)", "TensorFlow", "matmul"),
        ("tf.matmul(x, self.w, transpose_b=flag)", "TensorFlow", "matmul"),
        ("tf.tensordot(x, self.w, 1)", "TensorFlow", "tensordot"),
        ("tf.einsum('...i,io->...o', x, self.w)", "TensorFlow", "einsum"),
        ("x @ unknown", "TensorFlow", "@"),
        ("keras.backend.dot(x, self.w)", "Keras", "dot"),
        ("tf.nn.conv2d(x, self.k, 1, 'SAME', data_format='NCHW')", "TensorFlow", "conv2d"),
    ],
)
def test_a_product_of_unknown_sizes_is_named(call: str, library: str, name: str) -> None:
    model = layer(call)
    assert model.products == ()
    assert [(n.library, n.kind, n.name, n.count) for n in model.not_judged] == [(library, "product", name, 1)]


def test_each_object_multiplies_for_itself_and_a_loop_as_often_as_it_runs() -> None:
    text = LAYER.format(call="tf.matmul(x, self.w)", shape="(250,)", given="x") + "Own()(x)\n"
    assert len({p.op for p in read(text).products}) == 2
    loop = layer("[tf.matmul(x, self.w) for _ in range(3)]")
    assert {p.calls for p in loop.products} == {3.0}


def test_arrays_of_numpy_are_no_products() -> None:
    assert read_model(parse_source("import numpy as np\ny = np.ones((8, 8)) @ np.ones((8, 8))\n", "/m.py")) == []


def test_the_policy_sets_the_dtype_inside_a_layer_only() -> None:
    half = "keras.mixed_precision.set_global_policy('mixed_float16')\n"
    inside = read(half + LAYER.format(call="tf.matmul(x, self.w)", shape="(250,)", given="x"))
    assert {p.record.dtype for p in inside.products} == {"float16"}
    outside = "x = keras.Input((250,))\ny = tf.matmul(x, x, transpose_a=True)\n"
    assert {p.record.dtype for p in read(half + outside).products} == {None}
    assert {p.record.dtype for p in read(outside).products} == {"float32"}


def test_other_frameworks_are_counted_by_name_with_the_first_place() -> None:
    layers = "    a = nn.Linear(1, 2)\n    b = nn.Linear(2, 3)\n    r = nn.ReLU()\n"
    text = f"from torch import nn\nclass Net(nn.Module):\n{layers}"
    (model,) = read_model(parse_source(text, "/m.py"))
    found = [(n.library, n.kind, n.name, n.count, n.place.line) for n in model.not_judged]
    assert found == [("PyTorch", "model", "Module", 1, 2), ("PyTorch", "layer", "Linear", 2, 3)]


def test_traced_mode_lacks_only_what_tensorflow_does_not_run() -> None:
    text = HEAD + "import torch\nimport sonnet\nsonnet.Linear(3)\ntf.matmul(a, b)\ntorch.nn.Linear(2, 3)\n"
    assert [n.library for n in foreign_to_tensorflow(parse_source(text, "/m.py"))] == ["PyTorch"]


def test_a_name_is_taken_from_its_import_not_from_its_text() -> None:
    assert read_model(parse_source("class nn:\n    Linear = dict\nnn.Linear()\n", "/m.py")) == []


def test_a_layer_of_another_package_is_named_where_keras_is_used() -> None:
    model = read("from somewhere import Attention\nx = Attention(64)(keras.Input((8,)))\n")
    assert [(n.library, n.name) for n in model.not_judged] == [("somewhere", "Attention")]


def test_texts_of_keras_are_as_long_as_they_are_padded() -> None:
    text = "(a, b), _ = keras.datasets.imdb.load_data()\na = keras.preprocessing.sequence.pad_sequences(a, maxlen=50)\n"
    model = read(f"{text}m = keras.Sequential([layers.Embedding(99, 24), layers.Dense(8)])\nm.fit(a, b)\n", 32)
    assert {p.record.input_shapes[0] for p in model.products if p.record.pass_ == "forward"} == {(32 * 50, 24)}


POLICY = "keras.mixed_precision.set_global_policy('mixed_float16')\n"


@pytest.mark.parametrize(
    ("tail", "dtype"),
    [
        ("layers.Dense(64)(x)", "float16"),
        ("layers.Dense(64, dtype='float32')(x)", None),
        ("keras.Input((8, 64))", None),
    ],
)
def test_between_the_layers_of_a_model_a_product_computes_in_what_they_put_out(tail: str, dtype: str | None) -> None:
    text = f"x = keras.Input((8, 64))\na, b = layers.Dense(64)(x), {tail}\n"
    model = read(f"{POLICY}{text}m = keras.Model(x, layers.Dense(8)(tf.matmul(a, b, transpose_b=True)))\n", 32)
    assert {p.record.dtype for p in model.products if p.record.op_type == "BatchMatMulV2"} == {dtype}
