"""Whether XLA compiles a step: as the code says, else as Keras 3 does of itself on a GPU."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source, read_steps

HEAD = """import os, keras, tensorflow as tf
from keras import layers
m = keras.Sequential([keras.Input((4, 64)), layers.Dense(8)])
"""
LOOP = """
def step(x):
    with tf.GradientTape() as tape:
        return m(x)
for x in data():
    step(x)
"""
FLAGS = "'--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit'"


@pytest.mark.parametrize(
    ("text", "xla", "by_default"),
    [
        ("m.compile('sgd')\nm.fit(x, y)", True, True),
        ("m.compile('sgd', jit_compile='auto')\nm.fit(x, y)", True, True),
        ("m.compile('sgd', jit_compile=True)\nm.fit(x, y)", True, False),
        ("m.compile('sgd', jit_compile=False)\nm.fit(x, y)", False, False),
        ("m.compile('sgd', run_eagerly=True)\nm.fit(x, y)", False, False),
        ("m.compile('sgd')", True, True),
        ("", True, True),  # as where it is traced: a step that `fit` would make
        ("m.add(layers.LSTM(8))\nm.fit(x, y)", False, False),  # cuDNN keeps Keras from it
        ("m.add(layers.LSTM(8, activation='relu'))\nm.fit(x, y)", True, True),
        ("with tf.distribute.MirroredStrategy().scope():\n    pass\nm.fit(x, y)", False, False),
        ("import tf_keras\nm.fit(x, y)", False, False),
        ("os.environ['TF_USE_LEGACY_KERAS'] = '1'\nm.fit(x, y)", False, False),
        ("tf.config.experimental.enable_op_determinism()\nm.fit(x, y)", False, False),
        (LOOP, None, False),
        (LOOP.replace("def", "@tf.function(jit_compile=True)\ndef"), True, False),
        ("def train(x):\n    with tf.GradientTape() as tape:\n        return other(x)", None, False),
        (f"os.environ['TF_XLA_FLAGS'] = {FLAGS}" + LOOP, True, False),
        (f"os.environ['TF_XLA_FLAGS'] = os.environ.get('TF_XLA_FLAGS', '') + ' ' + {FLAGS}" + LOOP, True, False),
        (f"os.environ['TF_XLA_FLAGS'] += {FLAGS}" + LOOP, True, False),
        (f"os.environ.setdefault('TF_XLA_FLAGS', {FLAGS})" + LOOP, True, False),
        (f"os.environ.update({{'TF_XLA_FLAGS': {FLAGS}}})" + LOOP, True, False),
        (f"os.environ.update(TF_XLA_FLAGS={FLAGS})" + LOOP, True, False),
        ("tf.config.optimizer.set_jit('autoclustering')" + LOOP, True, False),
        ("os.environ['TF_XLA_FLAGS'] = '--tf_xla_auto_jit=single-gpu(2)'" + LOOP, True, False),
        ("os.environ['TF_XLA_FLAGS'] = '--tf_xla_auto_jit=-1'" + LOOP, None, False),
        (f"if unknown():\n    os.environ['TF_XLA_FLAGS'] = {FLAGS}" + LOOP, None, False),
        (f"os.environ['XLA_FLAGS'] = {FLAGS}" + LOOP, None, False),
    ],
)
def test_a_step_is_compiled_as_the_code_says_or_keras_does(text: str, xla: bool | None, by_default: bool) -> None:
    (model,) = read_steps(parse_source(HEAD + text, "/model.py"))
    assert (model.xla, model.xla_by_default) == (xla, by_default)
    assert {product.compiled for product in model.products} == {xla}


def test_each_step_is_compiled_by_itself() -> None:
    text = (
        "n = keras.Sequential([keras.Input((4,)), layers.Dense(8)])\nn.compile(jit_compile=False)\nn.fit(x, y)\n" + LOOP
    )
    found = read_steps(parse_source(HEAD + text + "m.compile('sgd')\nm.fit(x, y)\n", "/model.py"))
    assert [model.xla for model in found] == [False, None, True]
