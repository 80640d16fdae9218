"""Eager steps after the window: what they cost in calls of Python, the same on every machine, and their parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.probe.running import run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

MOST_OWN = 20  # calls in a step: of three methods of the tape, two of the optimizer, and what counts their parts
LOOP = """
import collections, sys
import tensorflow as tf
layers = [tf.keras.layers.Dense(4) for _ in range(LAYERS)]
model = tf.keras.Sequential([tf.keras.Input((4,)), *layers])
optimizer = tf.keras.optimizers.SGD(0.01)
x = tf.ones((4, 4))
calls = collections.Counter()
def count(frame, event, _):
    name = frame.f_code.co_filename
    calls["own" if "tcprobe_probe" in name else "others"] += event == "call"
def step():
    with tf.GradientTape() as tape: loss = tf.reduce_sum(model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
for _ in range(24): step()
sys.setprofile(count)
for _ in range(10): step()
sys.setprofile(None)
print(calls["own"] / 10)
"""


@pytest.mark.parametrize("layers", [1, 12])
def test_a_step_after_the_window_is_counted_in_a_few_calls_however_large_the_model(tmp_path: Path, layers: int) -> None:
    probed = run(tmp_path, LOOP.replace("LAYERS", str(layers)), python=warm.python(), iter_start=4, iter_stop=6)
    assert (probed.code, probed.seen["gaps"]) == (0, []), probed.err
    assert [number for number, _ in probed.steps] == list(range(34))
    assert float(probed.out) <= MOST_OWN


PLAIN = """
import tensorflow as tf
tf.config.run_functions_eagerly(True)
x, w = tf.ones((4, 4)), tf.Variable(tf.ones((4, 4)))
optimizer = tf.keras.optimizers.SGD(0.01)
@tf.function
def train():
    with tf.GradientTape() as tape: loss = tf.reduce_sum(tf.matmul(x, w))
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
for _ in range(40): train()
"""


def test_a_function_that_runs_as_plain_python_stays_one_part_after_the_window(tmp_path: Path) -> None:
    probed = run(tmp_path, PLAIN, python=warm.python(), iter_start=4, iter_stop=6)
    assert (probed.code, probed.seen["gaps"]) == (0, []), probed.err
    assert [number for number, _ in probed.steps] == list(range(40))
    (phase,) = probed.phases
    assert [(part["name"], part["calls_per_step"]) for part in phase["parts"]] == [("__main__.train", 1)]
