"""Layers of a functional model that no `Model` takes: they never run, and count for nothing."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.models import UNUSED
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.schema.model import Model

HEAD = """import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from other import wrap
i = keras.Input((64,), name="i")
x = layers.Dense(32, name="shared")(i)
wrong = layers.Dense(10, activation="softmax", name="wrong")(x)
right = layers.Dense(12, name="right")(x)
"""


def read(text: str) -> Model:
    (model,) = read_model(parse_source(HEAD + text, "/model.py"))
    return model


def names(text: str) -> list[str]:
    return [layer.name for layer in read(text).layers]


def test_a_layer_that_no_model_takes_does_not_count() -> None:
    model = read("m = keras.Model(i, right)\n")
    assert [layer.name for layer in model.layers] == ["shared", "right"]
    assert {product.layer for product in model.products} == {"shared", "right"}
    assert [(u.what, u.reason) for u in model.unseen] == [("Dense at model.py:7", UNUSED)]


def test_all_that_leads_to_no_output_is_left_out() -> None:
    assert names("far = layers.Dense(9, name='far')(wrong)\nm = keras.Model(i, right)\n") == ["shared", "right"]


@pytest.mark.parametrize(
    "text",
    [
        "",  # there is no model
        "a = keras.Model(i, right)\nb = keras.Model(i, wrong)\n",
        "m = keras.Model(i, [right, wrong])\n",
        "m = keras.Model(i, {'a': right, 'b': wrong})\n",
        "m = keras.Model(i, right)\nm.add_loss(tf.reduce_mean(wrong))\n",
        "m = keras.Model(i, right)\nn = wrap(i, wrong)\n",
        "m = keras.Model(i, right)\nn = keras.experimental.WideModel(i, wrong)\n",
        "m = keras.Model(i, wrap(right))\n",
        "m = keras.Model(i, outs())\n",
        "class Own(keras.Model):\n    pass\nm = keras.Model(i, right)\nn = Own(i, wrong)\n",
        "def head():\n    return wrong\nm = keras.Model(i, right)\n",
    ],
)
def test_a_layer_that_may_be_used_counts(text: str) -> None:
    assert names(text) == ["shared", "wrong", "right"]


def test_layers_on_inputs_of_no_model_count() -> None:
    other = "j = keras.Input((8,))\nmade = layers.Dense(7, name='apart')(j)\n"
    assert names(f"{other}m = keras.Model(i, right)\n") == ["shared", "right", "apart"]


def test_a_layer_that_feeds_a_model_within_a_model_counts() -> None:
    inner = "j = keras.Input((10,))\ninner = keras.Model(j, layers.Dense(6, name='inner')(j))\n"
    assert names(f"{inner}m = keras.Model(i, inner(wrong))\n") == ["shared", "wrong", "inner"]
    assert names(f"{inner}m = keras.Model(i, right)\nwrap(inner(wrong))\n") == ["shared", "wrong", "right", "inner"]
