"""Measure what the probe costs outside the profiled window: hooks on and off by turns in one process.

Run with an interpreter that has TensorFlow: ``python bench/probe.py``. Prints the median cost per training call
(limit 3 us) and per step of `fit` (limit 5 us), in CPU time of the calling thread, which other processes disturb
less than wall time.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CALL_LIMIT_NS = 3000
FIT_LIMIT_NS = 5000
PAIRS = 200
CALLS = 200


def started_probe(folder: str) -> Any:
    """Return a probe running in this process, with a window of two steps."""
    from tcprobe.probe.config import Config
    from tcprobe.probe.probe import Probe
    from tcprobe.probe.tensorflow.framework import TensorFlow

    config = Config(out=folder + "/probe", raw=folder + "/raw", kind="script", name="bench", argv=[], window_steps=2)
    probe = Probe(config, TensorFlow)
    probe.start()
    return probe


def switch(kind: Any, calls: Any) -> Callable[[bool], None]:
    """Return a function that switches the hook of tf.function calls on or off."""
    hooked = kind.__dict__["__call__"]
    original = hooked.__wrapped__

    def turn(on: bool) -> None:
        kind.__call__ = hooked if on else original
        calls.set_deferred(on)

    return turn


def measure(block: Callable[[], float], turn: Callable[[bool], None]) -> tuple[float, float]:
    """Return medians over pairs of blocks, in ns: the plain time, and what the hooks add."""
    plain, differences = [], []
    for pair in range(PAIRS):
        times = {}
        for on in (True, False) if pair % 2 else (False, True):
            turn(on)
            # Changing a class drops the interpreter's inline caches; the first calls fill them again.
            block()
            times[on] = block()
        plain.append(times[False])
        differences.append(times[True] - times[False])
    turn(True)
    return statistics.median(plain), statistics.median(differences)


def training_call(tf: Any) -> Callable[[], float]:
    """Return a block of calls of a tiny training function; the block returns ns per call."""
    variable = tf.Variable(tf.ones((4, 4)))
    data = tf.ones((4, 4))

    @tf.function
    def train(batch: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(batch, variable))
        variable.assign_sub(1e-6 * tape.gradient(loss, variable))

    def block() -> float:
        start = time.thread_time_ns()
        for _ in range(CALLS):
            train(data)
        return (time.thread_time_ns() - start) / CALLS

    for _ in range(100):
        train(data)
    return block


def fit_step(tf: Any) -> Callable[[], float]:
    """Return a block of one epoch of fit; the block returns ns per step."""
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((tf.ones((4, 4)), tf.ones((4, 4)))).repeat()

    def block() -> float:
        start = time.thread_time_ns()
        model.fit(data, steps_per_epoch=CALLS, epochs=1, verbose=0)
        return (time.thread_time_ns() - start) / CALLS

    block()
    return block


def show(name: str, plain: float, cost: float, limit: int) -> bool:
    """Print one line; return whether the cost is within the limit."""
    share = 100 * cost / plain
    print(f"{name:14} {cost:7.0f} ns of {plain / 1000:7.1f} us ({share:4.1f} %), limit {limit} ns, {PAIRS}x{CALLS}")
    return cost <= limit


def main() -> int:
    """Measure both; return 0 if both are within their limits."""
    folder = tempfile.mkdtemp()
    probe = started_probe(folder)
    import tensorflow as tf

    turn = switch(type(tf.function(lambda: None)), probe.framework.calls)
    good = show("training call", *measure(training_call(tf), turn), CALL_LIMIT_NS)
    good &= show("step of fit", *measure(fit_step(tf), turn), FIT_LIMIT_NS)
    print(f"TensorFlow {tf.__version__}, window {probe.window.state}, gaps {probe.gaps.gaps}")
    probe.finish()
    shutil.rmtree(folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
