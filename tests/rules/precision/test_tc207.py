"""TC207: constants that float16 cannot hold."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.report.audit.words import message
from tcprobe.rules.precision.tc207 import LARGEST_FLOAT16, to_half
from tests.rules.precision.builders import BFLOAT16, FLOAT16, HEAD, found, said, subject

LAYER = """
class Block(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(64)

    def call(self, x, mask=None):
        {}
"""

# The attention of TensorFlow's Transformer tutorial.
TUTORIAL = """
def scaled_dot_product_attention(q, k, v, mask):
    matmul_qk = tf.matmul(q, k, transpose_b=True)
    scaled_attention_logits = matmul_qk / 8.0
    if mask is not None:
        scaled_attention_logits += (mask * -1e9)
    return tf.matmul(tf.nn.softmax(scaled_attention_logits, axis=-1), v)


class MultiHeadAttention(tf.keras.layers.Layer):
    def call(self, v, k, q, mask):
        return scaled_dot_product_attention(q, k, v, mask)
"""


def test_the_mask_of_the_tutorial_is_infinite() -> None:
    (finding,) = found("TC207", subject(FLOAT16 + TUTORIAL))
    assert finding.severity == "warning"
    assert message(finding) == "-1e9 is -inf in float16, which ends at 65504, and 0 times it is NaN: use -3e4"
    assert said("TC207", subject(BFLOAT16 + TUTORIAL)) == []
    assert said("TC207", subject(HEAD + TUTORIAL)) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return self.dense(x) + 1e-8", ["12 warning"]),
        ("h = self.dense(x)\n        return h / (tf.sqrt(tf.reduce_sum(h, -1)) + 1e-9)", ["13 warning"]),
        ("return tf.math.log(tf.maximum(self.dense(x), 1e-12))", ["12 warning"]),
        ("return self.dense(x) + 1e-6", ["12 note"]),
        ("return tf.where(mask, self.dense(x), -1e9)", ["12 note"]),
        ("return tf.clip_by_value(self.dense(x), -1e9, 1e9)", []),
        ("return x * 1000003 % 64", []),
        ("return self.dense(x) - (1.0 - self.dense(x)) * 1e9", ["12 warning"]),
        ("return self.dense(x) + 1e-3", []),
        ("return self.dense(x) + (1.0 - mask) * -3e4", []),
        ("x = tf.cast(self.dense(x), tf.float32)\n        return x + 1e-8", []),
        ("big = -1e9 if x.dtype == tf.float32 else -3e4\n        return x + mask * big", []),
        ("return self.scale_by(x) + 1e-8", []),
        ("return self.dense(x) * 1e-8", ["12 warning"]),
    ],
)
def test_constants_of_a_call(line: str, expected: list[str]) -> None:
    assert said("TC207", subject(FLOAT16 + LAYER.format(line))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "norm = layers.LayerNormalization(epsilon=1e-12)\nbn = layers.BatchNormalization(epsilon=1e-9)\n",
        "optimizer = keras.optimizers.Adam(epsilon=1e-8)\n",
        "elapsed = (time.time_ns() - start) / 1e9\nflops = 2 * n * 1e9\nlr = 1e-9 * scale + 1e-8\n",
        "def loss(y, p):\n    return -tf.reduce_mean(y * tf.math.log(p + 1e-8))\n",
    ],
)
def test_code_outside_of_layers_is_not_judged(text: str) -> None:
    assert said("TC207", subject(FLOAT16 + text)) == []


def test_a_constant_behind_a_name() -> None:
    text = FLOAT16 + "EPSILON = 1e-10\n" + LAYER.format("return self.dense(x) + EPSILON")
    assert said("TC207", subject(text)) == ["13 warning"]


def test_halves_at_the_borders() -> None:
    assert to_half(65519.0) == LARGEST_FLOAT16  # rounds to the largest: 65520 is half way to the next step
    assert to_half(65520.0) is None
    assert to_half(2.0**-25) == 0.0
    assert to_half(3.1e-8) == 2.0**-24
    assert to_half(1e-7) == pytest.approx(1.19e-7, rel=0.01)


@given(st.floats(min_value=0, max_value=1e30))
def test_a_half_is_near_or_none(value: float) -> None:
    half = to_half(value)
    if half is None:
        assert value >= 65519
    else:
        assert math.isclose(half, value, rel_tol=2.0**-11, abs_tol=2.0**-25)
