"""What fails or warns inside TensorFlow and Keras names no file of the probe's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.probe.running import run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

SCRIPT = """
import inspect, logging, sys, traceback, warnings
import tensorflow as tf
warnings.simplefilter("always")
x = tf.ones((4, 4))
class Broken(tf.keras.layers.Layer):
    def call(self, x):
        warnings.warn("mind", stacklevel=LEVEL)
        traceback.print_stack()
        print(inspect.stack())
        return tf.matmul(x, tf.ones((7, 7)))
@tf.function
def layer(x): return Broken()(x)
@tf.function
def optimizer(x): tf.keras.optimizers.SGD(0.1).apply_gradients([(None, tf.Variable(x))])
@tf.function
def runtime(x): tf.debugging.assert_equal(x, 0.0)
model = tf.keras.Sequential([Broken()])
model.compile("sgd", "mse")
for filtered in range(2):
    for LEVEL in range(1, 25):
        try: Broken()(x)
        except Exception: pass
    for attempt in (layer, optimizer, runtime, Broken(), lambda x: model.fit(x, x, verbose=0)):
        try: attempt(x)
        except Exception as error:
            print(error)
            logging.exception("failed")
    tf.debugging.disable_traceback_filtering()
layer(x)
"""


def test_no_file_of_the_probes_is_named(tmp_path: Path) -> None:
    probed = run(tmp_path, SCRIPT, python=warm.python())
    assert probed.code == 1
    assert probed.seen["gaps"] == []
    shown = probed.out + probed.err
    for expected in (
        "in user code:",
        "defined at (most recent call last)",
        "UserWarning: mind",
        "Arguments received by",
    ):
        assert expected in shown
    assert "FrameInfo(frame=" in probed.out
    assert [line for line in shown.splitlines() if "tcprobe_probe" in line] == []
