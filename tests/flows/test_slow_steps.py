"""What is said of slow steps of real workloads: a function that is traced again, every third step that does more."""

from __future__ import annotations

from pathlib import Path

from tcprobe.flows.report import make_report
from tests.faults.running import Tcprobe

EVERY_THIRD = """
import tcprobe, time
for step in range(45):
    with tcprobe.step():
        time.sleep(0.050 if step % 3 == 2 else 0.004)
"""
RETRACED = """
import time
import tensorflow as tf
weight = tf.Variable(tf.ones((8, 8)))

@tf.function
def train(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weight) ** 2)
    weight.assign_sub(1e-3 * tape.gradient(loss, weight))
    time.sleep(0.5)  # as long as a large model is traced
    return loss

for step in range(40):
    time.sleep(0.02)
    train(tf.ones((16 if step == 30 else 32, 8)))
"""


def profiled(work: Path, code: str) -> tuple[Path, str]:
    done = Tcprobe(work, code, "--output", "run")
    assert done.wait() == 0, done.printed
    return work / "run", done.printed


def test_every_third_step_that_does_more_is_a_kind_of_steps(tmp_path: Path) -> None:
    folder, printed = profiled(tmp_path, EVERY_THIRD)
    profile = make_report(folder)
    short, long = (profile.figure(name) for name in ("short_step_ns", "long_step_ns"))
    assert short is not None
    assert long is not None
    assert 4e6 <= float(short["value"] or 0) < 50e6 <= float(long["value"] or 0)
    assert "epoch" not in printed


def test_a_function_that_is_traced_again_is_named(tmp_path: Path) -> None:
    folder, printed = profiled(tmp_path, RETRACED)
    row = make_report(folder).figure("retraces")
    assert row is not None
    assert (row["value"], row["reason"]) == (1.0, "far longer than the others; traced again: __main__.train")
    assert "epoch" not in printed
