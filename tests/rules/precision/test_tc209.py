"""TC209: reductions of 16-bit activations."""

from __future__ import annotations

import pytest

from tcprobe.report.audit.words import message
from tests.rules.precision.builders import BFLOAT16, FLOAT16, HEAD, found, said, subject

LAYER = """
class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(64)
        self.full = layers.Dense(64, dtype="float32")
        self.other = build()

    def call(self, x, training=False):
        {}
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("self.add_loss(0.01 * tf.reduce_sum(tf.square(x)))\n        return x", ["14 warning"]),
        ("h = self.dense(x)\n        return h / tf.norm(h)", ["15 warning"]),
        ("return tf.nn.l2_loss(self.dense(x))", ["14 warning"]),
        ("h = self.dense(x)\n        return tf.reduce_sum(h * h, axis=-1)", ["15 warning"]),
        ("return tf.reduce_sum(self.dense(x), axis=1)", ["14 note"]),
        ("return tf.reduce_mean(tf.nn.relu(self.dense(x)), axis=[1, 2])", ["14 note"]),
        ("return tf.exp(self.dense(x))", ["14 note"]),
        ("return keras.ops.sum(tf.cast(self.other(x), tf.float16))", ["14 warning"]),
    ],
)
def test_reductions_of_certain_activations(line: str, expected: list[str]) -> None:
    assert said("TC209", subject(FLOAT16 + LAYER.format(line))) == expected


@pytest.mark.parametrize(
    "line",
    [
        "return tf.reduce_sum(tf.square(tf.cast(x, tf.float32)))",
        "x = tf.cast(x, tf.float32)\n        return tf.reduce_sum(tf.square(x))",
        "return tf.reduce_sum(self.full(x))",
        "return tf.reduce_sum(self.other(x))",
        "return keras.ops.mean(self.dense(x))",
        "return tf.reduce_max(self.dense(x))",
        "return tf.reduce_sum(tf.cast(x > 0, tf.int32))",
        "h = self.dense(x) if training else self.full(x)\n        return tf.reduce_sum(h)",
        "if training:\n            h = self.dense(x)\n        else:\n            h = self.full(x)\n"
        "        return tf.reduce_sum(h)",
        "return tf.nn.softmax_cross_entropy_with_logits(labels, self.dense(x))",
        "return tf.nn.softmax(self.dense(x))",
    ],
)
def test_float32_unknown_and_safe_operands_are_silent(line: str) -> None:
    assert said("TC209", subject(FLOAT16 + LAYER.format(line))) == []


def test_bfloat16_is_a_note_and_float32_silent() -> None:
    text = LAYER.format("return tf.reduce_sum(self.dense(x))")
    (finding,) = found("TC209", subject(BFLOAT16 + text))
    assert finding.severity == "note"
    assert "8 bits of precision" in message(finding)
    assert said("TC209", subject(HEAD + text)) == []


@pytest.mark.parametrize(
    "text",
    [
        # The guide's own: a metric and a loss outside of any layer's call.
        "def loss(y, p):\n    return tf.reduce_mean(tf.square(y - p))\n",
        "class Loss(keras.losses.Loss):\n    def call(self, y_true, y_pred):\n        return tf.reduce_sum(y_true)\n",
        "class Bag(layers.Layer):\n    def call(self, token_ids):\n        return tf.reduce_sum(token_ids)\n",
        "class Bag(layers.Layer):\n    def call(self, inputs):\n        return tf.reduce_sum(inputs['ids'])\n",
        "class Full(layers.Layer):\n    def __init__(self):\n        super().__init__(dtype='float32')\n\n"
        "    def call(self, x):\n        return tf.reduce_sum(x)\n",
    ],
)
def test_what_is_no_activation_of_the_policy(text: str) -> None:
    assert said("TC209", subject(FLOAT16 + text)) == []
