"""Ranges of NVTX in real TensorFlow processes, as a tool hears them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tcprobe.probe.config import Config
from tcprobe.probe.probe import Probe
from tcprobe.probe.tensorflow.framework import TensorFlow
from tests import warm
from tests.nvtx import Tool
from tests.probe.running import run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

GRAPH = """
import tensorflow as tf
x, w = tf.ones((4, 4)), tf.Variable(tf.ones((4, 4)))
@tf.function
def train(x):
    with tf.GradientTape() as tape: loss = tf.reduce_sum(tf.matmul(x, w))
    w.assign_sub(1e-6 * tape.gradient(loss, w))
@tf.function
def validate(x): return tf.reduce_sum(x)
@tf.function
def broken(x):
    tf.debugging.assert_none_equal(x, x)
    train(x)
for step in range(14):
    train(x)
    if step in (3, 11): validate(x)
try: broken(x)
except tf.errors.InvalidArgumentError: pass
"""
EAGER = """
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4, name="wide")], name="model")
optimizer = tf.keras.optimizers.SGD(0.01)
for step in range(14):
    with tf.GradientTape() as tape: loss = tf.reduce_sum(model(tf.ones((4, 4))))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def test_calls_and_steps_of_functions(tmp_path: Path, tool: Tool) -> None:
    probed = run(tmp_path, GRAPH, python=warm.python(), environment=tool.environment())
    assert (probed.code, probed.seen["gaps"]) == (0, []), probed.err
    steps = [name for number in range(8, 14) for name in (f"step {number}", f"step {number}/train")]
    steps.insert(steps.index("step 12"), "validate")
    assert tool.ranges() == ["train"] * 4 + ["validate"] + ["train"] * 4 + steps + ["broken"]


@pytest.mark.parametrize(("cuda", "listening"), [(True, True), (True, False), (False, True)])
def test_a_tool_and_tensorflows_profiler_never_record_at_once(tmp_path: Path, cuda: bool, listening: bool) -> None:
    config = Config(str(tmp_path), str(tmp_path), "script", "train.py", [])
    probe = Probe(config, TensorFlow)
    probe.ranges.find_tool = lambda: setattr(probe.ranges, "listening", listening)  # type: ignore[method-assign]
    profiler = probe.framework.profiler
    profiler.available = True
    probe.framework._find_tool(SimpleNamespace(test=SimpleNamespace(is_built_with_cuda=lambda: cuda)))
    assert profiler.available is not (cuda and listening)
    assert profiler.available or not profiler.start()
    assert [note["code"] for note in probe.gaps.notes] == ([] if profiler.available else ["no-profile"])


def test_phases_of_eager_steps(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "nvtx.py").write_text("raise ImportError('not this one')")
    probed = run(tmp_path, EAGER, python=warm.python(), environment=tool.environment())
    assert (probed.code, probed.seen["gaps"], probed.seen["nvtx"]) == (0, [], "ctypes"), probed.err
    phases = ["forward", "backward", "optimizer"]
    found = tool.ranges()
    assert found[:3] == phases
    for number in range(8, 14):
        step = found[found.index(f"step {number}") :]
        assert [
            path.partition("/")[2] for path in step if path.startswith(f"step {number}/") and path.count("/") == 1
        ] == phases
    assert "step 13/forward/layer model" in found
