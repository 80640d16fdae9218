"""The precision rules on whole scripts as people write them: right ones are silent, wrong ones say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.source.read import parse_source
from tcprobe.rules.base import Subject
from tcprobe.rules.docs import DOCS
from tcprobe.rules.model.step import Step
from tcprobe.schema.model import Model
from tests.rules.precision.builders import CODES, Target, everything, find_gpu, subject
from tests.support import ROOT

PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16", None)

# TensorFlow guide, "Mixed precision": model, fit and custom loop, as of TensorFlow 2.4 to 2.15.
GUIDE = """
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras import mixed_precision

policy = mixed_precision.Policy('mixed_float16')
mixed_precision.set_global_policy(policy)

inputs = keras.Input(shape=(784,), name='digits')
num_units = 4096 if tf.config.list_physical_devices('GPU') else 64
x = layers.Dense(num_units, activation='relu', name='dense_1')(inputs)
x = layers.Dense(num_units, activation='relu', name='dense_2')(x)
x = layers.Dense(10, name='dense_logits')(x)
outputs = layers.Activation('softmax', dtype='float32', name='predictions')(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(loss='sparse_categorical_crossentropy', optimizer=keras.optimizers.RMSprop(), metrics=['accuracy'])
initial_weights = model.get_weights()
history = model.fit(x_train, y_train, batch_size=8192, epochs=5, validation_split=0.2)

optimizer = keras.optimizers.RMSprop()
optimizer = mixed_precision.LossScaleOptimizer(optimizer)
loss_object = tf.keras.losses.SparseCategoricalCrossentropy()

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        predictions = model(x)
        loss = loss_object(y, predictions)
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

@tf.function
def test_step(x):
    return model(x, training=False)
"""

KERAS_3 = """
import keras
import tensorflow as tf
from keras import layers, ops

keras.config.set_dtype_policy("mixed_float16")


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var = inputs
        noise = keras.random.normal(ops.shape(mean), dtype=mean.dtype)
        return mean + ops.exp(0.5 * log_var) * noise


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.tracker = keras.metrics.Mean(name="loss")

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_var, z = self.encoder(data)
            mean, log_var = ops.cast(mean, "float32"), ops.cast(log_var, "float32")
            kl = -0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var))
            loss = keras.losses.MeanSquaredError()(data, self.decoder(z)) + ops.mean(ops.sum(kl, axis=1))
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights))
        self.tracker.update_state(loss)
        return {"loss": self.tracker.result()}
"""

TRANSFORMER = """
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")


class Block(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = layers.MultiHeadAttention(heads, dim // heads)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.up = layers.Dense(4 * dim, activation="gelu")
        self.down = layers.Dense(dim)

    def call(self, x, mask=None):
        x = x + self.attention(self.norm(x), self.norm(x), attention_mask=mask)
        return x + self.down(self.up(x))


class Pool(layers.Layer):
    def call(self, x, mask=None):
        scores = tf.cast(x, tf.float32)
        scores += (1.0 - tf.cast(mask, tf.float32)) * -1e9
        return tf.reduce_sum(tf.nn.softmax(scores, axis=1) * tf.cast(x, tf.float32), axis=1)
"""

WRONG = """
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision

model = keras.Sequential([layers.Dense(512, activation="relu"), layers.Dense(10)])
mixed_precision.set_global_policy("mixed_float16")
optimizer = keras.optimizers.Adam(epsilon=1e-8)


class Norm(layers.Layer):
    def call(self, x):
        return x / (tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True)) + 1e-8)


for x, y in data:
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def codes(text: str, **settings: object) -> set[tuple[str, str | None]]:
    """Return the codes and severities found in a script."""
    return {(f.code, f.severity) for f in everything(subject(text, **settings))}  # type: ignore[arg-type]


def loud(text: str, **settings: object) -> set[tuple[str, str | None]]:
    """Return the same without notes."""
    return {pair for pair in codes(text, **settings) if pair[1] != "note"}


@pytest.mark.parametrize("keras", [None, "2.15.0"])
def test_the_guide_is_right_for_keras_2(keras: str | None) -> None:
    assert codes(GUIDE, keras=keras) == {("TC208", "note")}


def test_the_guide_fails_under_keras_3() -> None:
    assert codes(GUIDE, keras="3.15.1") == {("TC208", "error")}


@pytest.mark.parametrize("text", [KERAS_3, TRANSFORMER])
@pytest.mark.parametrize("policy", PRECISIONS)
def test_right_scripts_are_clean(text: str, policy: str | None) -> None:
    mode = "source" if policy is None else "traced"
    assert loud(text, mode=mode, policy=policy, keras="3.15.1") == set()


def test_a_wrong_script_is_told_each_mistake_once() -> None:
    found = [(f.code, f.severity, f.place.line if f.place else 0) for f in everything(subject(WRONG))]
    assert found == [("TC202", "warning", 20), ("TC205", "warning", 7)]


@pytest.mark.parametrize("path", sorted((ROOT / "workloads").glob("train_*.py")), ids=lambda path: path.stem)
@pytest.mark.parametrize("policy", PRECISIONS)
@pytest.mark.parametrize("keras", ["2.4.0", "3.15.1"])
def test_the_workloads_are_clean_in_every_precision(path: Path, policy: str | None, keras: str) -> None:
    text = path.read_text(encoding="utf-8")
    mode = "source" if policy is None else "traced"
    assert codes(text, mode=mode, policy=policy, keras=keras) == set()


def test_rules_document_themselves() -> None:
    for code in CODES:
        doc = next(doc for doc in DOCS if doc.code == code.upper())
        assert doc.code == code.upper()
        assert doc.sources
        assert doc.summary.endswith(".")
        parse_source(doc.bad, "bad.py")
        parse_source(doc.good, "good.py")


def test_no_rule_needs_a_model_or_a_file() -> None:
    model = Model("traced", "nothing", "nothing.py")
    nothing = Subject(model, Step(model, Target(find_gpu("a100-sxm-40"))), {})
    assert everything(nothing) == []


def test_no_rule_trips_over_the_project_itself() -> None:
    files = [path for folder in ("tcprobe/probe", "workloads") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 50
    for path in files:
        found = everything(subject(path.read_text(encoding="utf-8"), mode="traced", policy="mixed_float16"))
        assert [f for f in found if f.severity != "note"] == []
