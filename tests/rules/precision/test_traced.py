"""The precision rules on models that TensorFlow traced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.source.read import read_source, with_arguments
from tcprobe.audit.trace.traced import TraceRequest, trace
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import Step
from tests import warm
from tests.rules.precision.builders import Target, everything, find_gpu

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow")
pytest.importorskip("keras", minversion="3.0")

LATE = """
import keras
from keras import layers

inputs = keras.Input((1024,))
x = layers.Dense(4096, activation="relu")(inputs)
model = keras.Model(inputs, layers.Dense(1024)(x))
keras.config.set_dtype_policy("mixed_float16")
model.compile("adam", "mse")
"""

LOOP = """
import keras
import tensorflow as tf

keras.config.set_dtype_policy("mixed_float16")


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.wide = keras.layers.Dense(64)
        self.full = keras.layers.Dense(64, dtype="float32")
        self.head = keras.layers.Dense(8, activation="softmax")

    def call(self, x):
        hidden = self.wide(x)
        return self.head(self.full(hidden / (tf.norm(hidden, axis=-1, keepdims=True) + 1e-8)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


net = Net()
net.compile("sgd", "mse")
net.fit(tf.zeros((64, 32)), tf.zeros((64, 8)), verbose=0)
"""


def found(tmp_path: Path, text: str, run: bool) -> list[tuple[str, int]]:
    """Return code and line of what the rules find in the traced model of a script."""
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    sources = {str(path): read_source(path)}
    (traced,) = trace(TraceRequest(path, run=run, python=warm.python()))
    model = with_arguments(traced, sources)
    findings = everything(Subject(model, Step(model, Target(find_gpu("a100-sxm-40"))), sources))
    return [(f.code, f.place.line if f.place else 0) for f in findings]


def test_layers_that_were_built_before_the_policy(tmp_path: Path) -> None:
    assert found(tmp_path, LATE, run=False) == [("TC205", 8)]


def test_a_loop_with_a_mistake_of_every_kind(tmp_path: Path) -> None:
    assert found(tmp_path, LOOP, run=True) == [
        ("TC201", 13),
        ("TC202", 24),
        ("TC204", 12),
    ]
