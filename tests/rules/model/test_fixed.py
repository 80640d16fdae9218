"""Sizes that nobody may change: never an error or warning, whatever they cost, and the reason is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.flows.audit.models import with_fixed
from tcprobe.rules.model.settled import settled_sizes
from tests.rules.builders import check, dense, step_of, tc109

HEAD = """
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
keras.mixed_precision.set_global_policy("mixed_float16")
def dense(units): return layers.Dense(units, activation="relu")
x = keras.Input((512,))
"""
END = "m = keras.Model(x, layers.Dense(8)(dense(64)(h)))\n"
CRITIC = "critic = keras.Sequential([{}layers.Dense(64), layers.Dense(8)])\nm = keras.Model(x, critic(h))\n"
ATTENTION = """
class Attention(layers.Layer):
    def call(self, q):
        return tf.matmul(tf.nn.softmax(tf.matmul(q, q, transpose_b=True)), q)
x = keras.Input(({length}, 64))
m = keras.Model(x, Attention()(layers.Dense({features})(x)))
"""
SPEAKS = "t = keras.Input((20,))\nm = keras.Model(t, layers.Dense(1025)(dense(512)(layers.Embedding(256, 512)(t))))\n{}"
"""A model that takes words: an odd last layer may be of words as well."""
COMPILED = "m.compile('adam', {})\n"
TAPED = """
t, d = tf.zeros((64, 20)), tf.zeros((64, 20, 1025))
for _ in range(9):
    with tf.GradientTape() as tape:
        loss = {}
"""
CASES = {
    # the size by which the next model declares its input
    "next input": ("h = dense(1022)(x)\n" + CRITIC.format("keras.Input((1022,)), "), 1022, "next_input_sets"),
    "its first layer": (
        "h = dense(1022)(x)\nc = keras.Sequential([layers.Dense(8, input_dim=1022)])\nm = keras.Model(x, c(h))\n",
        *(1022, "next_input_sets"),
    ),
    "by one name": ("n = 1022\nh = dense(1024)(layers.Dense(n)(x))\n" + END, 1022, None),
    "one name of both": (
        "n = 1022\nh = layers.Dense(n)(x)\n" + CRITIC.format("keras.Input((n,)), "),
        *(1022, None),
    ),
    "a model that takes any": ("h = dense(1022)(x)\n" + CRITIC.format(""), 1022, None),
    # what data are added to, but not what they are joined with
    "sum with data": (
        "d = keras.Input((1022,))\nh = layers.Add()([dense(1022)(x), d])\n" + END,
        1022,
        "joined_data_sets",
    ),
    "sum of layers": ("h = layers.Add()([dense(1022)(x), dense(1022)(x)])\n" + END, 1022, None),
    "join with data": ("d = keras.Input((512,))\nh = layers.Concatenate()([dense(1022)(x), d])\n" + END, 1022, None),
    "operator": (
        "class M(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = layers.Dense(1022)\n        self.b = layers.Dense(8)\n"
        "    def call(self, y):\n        return self.b(self.a(y) + y)\n"
        "m = M()\nm(tf.zeros((64, 1022)))\n",
        *(1022, "joined_data_sets"),
    ),
    # what is compared with labels, but not a vocabulary
    "labels": ("m = keras.Model(x, layers.Dense(998)(x))\n", 998, "labels_set"),
    "behind an activation": ("m = keras.Model(x, layers.ReLU()(layers.Dense(998)(x)))\n", 998, "labels_set"),
    "vocabulary": ("m = keras.Model(x, layers.Dense(30522)(x))\n", 30522, None),
    "many numbers": ("m = keras.Model(x, dense(30522)(x))\n", 30522, "labels_set"),
    # what a loss compares number by number with data, and not what it takes a label's number of
    "loss of numbers": (SPEAKS.format(COMPILED.format("'mae'")), 1025, "joined_data_sets"),
    "loss of numbers, an object": (
        SPEAKS.format(COMPILED.format("keras.losses.MeanSquaredError(reduction='sum')")),
        *(1025, "joined_data_sets"),
    ),
    "losses of numbers": (SPEAKS.format(COMPILED.format("['mse', keras.losses.Huber()]")), 1025, "joined_data_sets"),
    "loss of labels": (SPEAKS.format(COMPILED.format("keras.losses.SparseCategoricalCrossentropy()")), 1025, None),
    "one loss of labels": (SPEAKS.format(COMPILED.format("{'a': 'mse', 'b': own}")), 1025, None),
    "loss called": (SPEAKS.format(TAPED.format("keras.losses.MeanSquaredError()(d, m(t))")), 1025, "joined_data_sets"),
    "loss function": (SPEAKS.format(TAPED.format("keras.losses.mse(d, m(t))")), 1025, "joined_data_sets"),
    "error": (SPEAKS.format(TAPED.format("tf.reduce_mean((m(t) - d) ** 2)")), 1025, "joined_data_sets"),
    "difference of outputs": (SPEAKS.format(TAPED.format("tf.reduce_mean((m(t) - m(2 * t)) ** 2)")), 1025, None),
    "margin": (SPEAKS.format(TAPED.format("tf.reduce_mean(m(t) - 0.5)")), 1025, None),
    # what a size is called, where nothing else tells that it is how many labels there are
    "named after labels": ("num_classes = 998\nh = layers.Dense(num_classes)(x)\n" + END, 998, "labels_set"),
    "boxes of labels": (
        "class A: n_classes = 330\nh = layers.Conv2D(3 * (A.n_classes + 4), 1)(layers.Reshape((32, 16, 1))(x))\n"
        "m = keras.Model(x, tf.image.resize(h, (64, 32)))\n",
        *(1002, "labels_set"),
    ),
    "as many as labels": (
        "class_names = ['a'] * 998\nh = layers.TimeDistributed(layers.Dense(units=len(class_names)))"
        "(layers.Reshape((4, 128))(x))\n" + END,
        *(998, "labels_set"),
    ),
    "a class's own size": (
        "classifier_units = 1022\nh = dense(8)(layers.Dense(classifier_units)(x))\n" + END,
        1022,
        None,
    ),
    # a shape that does not change with it
    "reshape": (
        "h = layers.Reshape((27, 27, 1))(dense(729)(x))\nm = keras.Model(x, layers.Conv2D(8, 3)(h))\n",
        *(729, "reshape_sets"),
    ),
    # weights that come from a file, unless the program itself wrote it
    "weights": ("h = dense(1022)(x)\n" + END + "m.load_weights('w.h5')\nm.fit(d, d)\n", 1022, "saved_file_sets"),
    "own weights": ("h = dense(1022)(x)\n" + END + "m.fit(d, d)\nm.load_weights('best.h5')\n", 1022, None),
    "resumed": (
        "h = dense(1022)(x)\n" + END + "import sys\nif len(sys.argv) > 1:\n    m.load_weights(sys.argv[1])\n",
        *(1022, None),
    ),
    "written here": ("h = dense(1022)(x)\n" + END + "m.load_weights(p)\nm.fit(d)\nm.save_weights(p)\n", 1022, None),
    "saved model": (
        "h = dense(1022)(x)\nc = keras.models.load_model('c.keras')\nm = keras.Model(x, c(h))\n",
        *(1022, "saved_file_sets"),
    ),
    # rows of what is multiplied without weights
    "positions": (ATTENTION.format(length=498, features=64), 498, "length_sets"),
    "features": (ATTENTION.format(length=512, features=62), 62, None),
}


def of_size(text: str, size: int) -> list[tuple[str, str | None]]:
    (model,) = read_model(parse_source(HEAD + text, "/model.py"))
    bad = [b for b in settled_sizes(step_of(replace(model, batch=4096))) if b.dimension.size == size]
    return sorted({(b.code, None if b.fixed is None else b.fixed.kind) for b in bad if b.dimension.name != "inputs"})


@pytest.mark.parametrize("case", CASES)
def test_who_sets_a_size(case: str) -> None:
    text, size, why = CASES[case]
    found = of_size(text, size)
    assert found, "it is found whoever sets it"
    if why is not None:
        assert found == [("TC104", why)]
    else:
        assert all(code != "TC104" and kind is None for code, kind in found)


@pytest.mark.parametrize(("declared", "sizes"), [("", [784]), ("keras.Input((784,)), ", [])])
def test_no_smaller_size_is_advised_where_the_next_model_sets_it(declared: str, sizes: list[int]) -> None:
    """784 units run slower than 768 by more than their share, and stay 784."""
    text = (
        HEAD.replace("mixed_float16", "float32") + "h = layers.Dense(784)(dense(4096)(x))\n" + CRITIC.format(declared)
    )
    (model,) = read_model(parse_source(text, "/model.py"), 8192)
    assert [f.size for f in check(tc109, model)] == sizes


def test_a_traced_model_is_told_by_its_source() -> None:
    text = HEAD + CASES["next input"][0]
    read = read_model(parse_source(text, "/model.py"))
    traced = replace(read[0], mode="traced", layers=tuple(replace(la, fixed_by=None) for la in read[0].layers))
    assert [la.fixed_by for la in with_fixed(traced, read).layers] == [la.fixed_by for la in read[0].layers]
    assert "input" in [la.fixed_by for la in read[0].layers]


def test_what_a_package_makes_is_the_packages() -> None:
    model = dense(512, 1022, 64)
    layers = (replace(model.layers[0], fixed_by="package"), model.layers[1])
    bad = settled_sizes(step_of(replace(model, layers=layers)))
    assert [(b.code, b.fixed and b.fixed.kind) for b in bad] == [("TC104", "package_sets")]
