"""Losses of TensorBoard's event files, where the workload prints none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import warm
from tests.probe.running import run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

LOOP = """
import sys
import tensorflow as tf
weight = tf.Variable(4.0)
writer = tf.summary.create_file_writer(sys.argv[1])
@tf.function
def train(rate):
    with tf.GradientTape() as tape: loss = weight * weight
    weight.assign_sub(rate * tape.gradient(loss, weight))
    return loss
with writer.as_default():
    for step in range(12):
        loss = train(0.25)
        tf.summary.write("train/Loss", loss, step=100 + step)  # a count of the script's own
        tf.summary.write("rate", 0.25, step=step)
        if sys.argv[2:]: print("loss:", float(loss))
if sys.argv[2:]: writer.close()
"""


def test_losses_are_those_of_event_files_where_none_was_printed(tmp_path: Path) -> None:
    probed = run(tmp_path, LOOP, str(tmp_path / "events"), python=warm.python())
    assert (probed.code, probed.seen["gaps"]) == (0, []), probed.err
    rows = [(int(row["step"]), row["name"], float(row["value"])) for row in probed.rows("metrics.csv")]
    assert rows == [(step, "train/loss", 16.0 / 4**step) for step in range(12)]  # each step halves the weight
    assert "event-files" in [note["code"] for note in probed.seen["notes"]]


def test_what_was_printed_stands(tmp_path: Path) -> None:
    probed = run(tmp_path, LOOP, str(tmp_path / "events"), "print", python=warm.python())
    assert (probed.code, probed.seen["gaps"]) == (0, []), probed.err
    assert {row["name"] for row in probed.rows("metrics.csv")} == {"loss"}
