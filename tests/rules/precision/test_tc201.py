"""TC201: outputs in 16 bits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tcprobe.audit.source.read import parse_source
from tcprobe.report.audit.words import message
from tcprobe.schema.model import Layer, Place
from tests.rules.precision.builders import FILE, FLOAT16, found, read, said, subject
from tests.rules.precision.test_tc208 import mended


def last(kind: str = "Dense", dtype: str = "float16", activation: str | None = None, **changes: Any) -> Layer:
    """Return the last layer of a model."""
    config = {"activation": activation} if activation else {}
    settings: dict[str, Any] = {"place": Place(FILE, 5), "config": config, "is_last": True, **changes}
    return Layer(changes.pop("name", "head"), kind, kind, dtype=dtype, **settings)


@pytest.mark.parametrize(
    ("layer", "keras", "severity"),
    [
        (last(activation="softmax"), None, "warning"),
        (last(activation="sigmoid"), "3.15.1", "warning"),
        (last("Activation", activation="softmax"), None, "warning"),
        (last("Softmax"), None, "warning"),
        (last(dtype="bfloat16", activation="softmax"), None, "note"),
        (last(), None, "note"),
        (last(activation="linear"), "3.15.1", "note"),
        (last(activation="linear"), "2.15.0", "warning"),
        (last("Reshape"), "2.15.0", "warning"),
        (last("RMSNormalization"), None, "note"),
        (last("ConvLSTM2D"), None, "note"),
        (last("MaxPool2D"), None, "note"),
    ],
)
def test_severity_by_activation_dtype_and_keras(layer: Layer, keras: str | None, severity: str) -> None:
    assert said("TC201", subject(FLOAT16, layers=(layer,), keras=keras)) == [f"5 {severity}"]


@pytest.mark.parametrize(
    "layer",
    [
        last(dtype="float32", activation="softmax"),
        last("Activation", dtype="float32", activation="linear"),
        last(activation="softmax", is_last=False),
        last(activation="softmax", is_last=None),
        last("Lambda"),
        last("Argmax"),
        last("StringLookup"),
        last("Rescaling"),
        last(dtype="float64"),
    ],
)
def test_float32_outputs_inner_layers_and_unknown_ones_are_silent(layer: Layer) -> None:
    assert said("TC201", subject(FLOAT16, layers=(layer,), keras="2.15.0")) == []


ATTENTION = """
class Attend(layers.Layer):
    def __init__(self):
        super().__init__()
        self.key = layers.Dense(64)
        self.weights_of = layers.Dense(32, activation="softmax")

    def call(self, x):
        weights = self.weights_of(self.key(x))
        return tf.matmul(weights, x), weights

class Head(keras.Model):
    def __init__(self):
        super().__init__()
        self.attend = Attend()

    def call(self, x):
        return self.attend(x)

class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = Head()
        self.out = layers.Dense(8, dtype="float32")

    def call(self, x):
        y, weights = self.head(x)
        return self.out(y), weights

net = Net()
net(keras.Input((32, 64)))
"""
VISUALIZED = """
x = keras.Input((32, 64))
weights = layers.Dense(1, activation="softmax")(x)
y = layers.Dense(8, activation="softmax")(layers.Flatten()(layers.Dot(1)([weights, x])))
model = keras.Model(x, y)
shown = keras.Model(x, weights)
"""


@pytest.mark.parametrize(("text", "lines"), [(ATTENTION, []), (VISUALIZED, ["8 warning"])])
def test_weights_of_an_attention_lie_inside_though_a_model_gives_them_too(text: str, lines: list[str]) -> None:
    assert said("TC201", read(FLOAT16 + text)) == lines


def test_what_a_generator_makes_is_an_output_though_another_model_takes_it() -> None:
    made = Layer("g/out", "Dense", "Dense", Place(FILE, 5), "float16", config={"activation": "sigmoid"}, is_last=True)
    taker = Layer("d/in", "Dense", "Dense", Place(FILE, 6), "float16", inputs_from=("g/out",))
    own = Layer("g/next", "Dense", "Dense", Place(FILE, 7), "float16", inputs_from=("g/out",))
    assert said("TC201", subject(FLOAT16, layers=(made, taker))) == ["5 warning"]
    assert said("TC201", subject(FLOAT16, layers=(made, own))) == []


def test_the_message_says_how_to_split() -> None:
    (finding,) = found("TC201", subject(FLOAT16, layers=(last(activation="softmax"),)))
    assert message(finding) == (
        "Dense 'head' ends the model with a softmax in float16: split off Activation('softmax', dtype='float32')"
    )


def test_the_place_is_that_of_the_activation() -> None:
    layer = last(activation="softmax", arguments={"activation": Place(FILE, 6, 9, 6, 20)})
    (finding,) = found("TC201", subject(FLOAT16, layers=(layer,)))
    assert finding.place == Place(FILE, 6, 9, 6, 20)


def test_logits_that_the_loop_casts_are_silent() -> None:
    text = FLOAT16 + "def loss(x, y):\n    return loss_fn(y, tf.cast(model(x), tf.float32))\n"
    assert said("TC201", subject(text, layers=(last(),))) == []
    assert said("TC201", subject(text, layers=(last(activation="softmax"),))) == ["5 warning"]


@pytest.mark.parametrize(
    ("written", "after"),
    [
        ('layers.Activation("softmax")', 'layers.Activation("softmax", dtype="float32")'),
        ("layers.Softmax()", 'layers.Softmax(dtype="float32")'),
        ("layers.ReLU()", 'layers.ReLU(dtype="float32")'),
        ('layers.Activation(\n    "softmax",\n)', 'layers.Activation(\n    "softmax",\ndtype="float32")'),
    ],
)
def test_a_last_activation_gets_its_dtype(written: str, after: str) -> None:
    text = f"{FLOAT16}x = {written}(x)\n"
    call = parse_source(text, FILE).call_at(5, re.findall(r"[A-Z]\w+", written)[0])
    assert call is not None
    kind = call.name.rpartition(".")[2]
    activation = None if kind == "ReLU" else "softmax"
    (finding,) = found("TC201", subject(text, layers=(last(kind, activation=activation, place=call.place),)))
    assert finding.fix is not None
    assert finding.fix.safe
    assert mended(text, finding.fix) == f"{FLOAT16}x = {after}(x)\n"


def test_no_edit_where_a_dtype_is_given_or_arguments_are_hidden() -> None:
    for written in ('layers.Activation("softmax", dtype="float16")', 'layers.Activation("softmax", **options)'):
        text = f"{FLOAT16}x = {written}(x)\n"
        call = parse_source(text, FILE).call_at(5, "Activation")
        assert call is not None
        layer = last("Activation", activation="softmax", place=call.place)
        (finding,) = found("TC201", subject(text, layers=(layer,)))
        assert finding.fix is None
