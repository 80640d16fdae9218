"""Measure what the probe costs outside the profiled window: whole runs, plain and probed by turns.

Run with an interpreter that has TensorFlow: ``python bench/probe.py [PAIRS]``. Every run is a fork of one process that
has imported TensorFlow and run nothing with it. A probed run has its window in its first steps; then it makes calls for
the measure of the whole, to the end of the run, and calls with the hooks of functions, tapes and optimizers out and in
by turns.

Prints, in ns per call (limit 3 us), per step of `fit` (5 us) and per step of an eager loop (100 us), medians
over the runs: what the hooks add to the CPU time of the thread that trains, the CPU time of the probe's own thread and
of the end of the run, and the sum of both, which the limits are for. Then what whole probed runs take more than plain
ones, beside these: CPU time of the thread that trains, wall time, and CPU time of the process. Those say little where
other processes run.

Last, the CPU seconds of a script that prints 50 MB, plain and probed, by the way it prints.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

PAIRS = 15
BLOCK, EAGER_BLOCK = 200, 10  # calls
WARM_UP, WHOLE, BY_TURNS = 2, 30, 40  # blocks

# Makes so many blocks, telling `between` of the end of each.
Train = Callable[[int, Callable[[], None]], None]


def function_calls(tf: Any, functions: int) -> Train:
    """Return what calls tiny training functions by turns."""
    data = tf.ones((4, 4))

    def make() -> Any:
        variable = tf.Variable(tf.ones((4, 4)))

        @tf.function
        def train(batch: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(batch, variable))
            variable.assign_sub(1e-6 * tape.gradient(loss, variable))

        return train

    made = [make() for _ in range(functions)]

    def train(blocks: int, between: Callable[[], None]) -> None:
        for _ in range(blocks):
            for _ in range(BLOCK // functions):
                for function in made:
                    function(data)
            between()

    return train


def fit_steps(tf: Any) -> Train:
    """Return what makes steps of `fit`, an epoch a block."""
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4)])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensors((tf.ones((4, 4)), tf.ones((4, 4)))).repeat()

    def train(blocks: int, between: Callable[[], None]) -> None:
        end = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: between())
        model.fit(data, steps_per_epoch=BLOCK, epochs=blocks, verbose=0, shuffle=False, callbacks=[end])

    return train


def eager_steps(tf: Any) -> Train:
    """Return what makes steps of an eager loop."""
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(4)])
    optimizer = tf.keras.optimizers.SGD(1e-6)
    data = tf.ones((4, 4))

    def train(blocks: int, between: Callable[[], None]) -> None:
        for _ in range(blocks):
            for _ in range(EAGER_BLOCK):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(model(data))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            between()

    return train


class Style(NamedTuple):
    """What trains, the limit in ns, the calls in a block and in a step."""

    make: Callable[[Any], Train]
    limit: int
    block: int = BLOCK
    per_step: int = 1


STYLES = {
    "training call": Style(lambda tf: function_calls(tf, 1), 3000),
    "two by turns": Style(lambda tf: function_calls(tf, 2), 3000, per_step=2),
    "step of fit": Style(fit_steps, 5000),
    "eager step": Style(eager_steps, 100_000, EAGER_BLOCK),
}


def started_probe(folder: str) -> Any:
    """Return a probe running in this process, with a window of two steps."""
    from tcprobe.probe.config import Config
    from tcprobe.probe.probe import Probe
    from tcprobe.probe.tensorflow.framework import TensorFlow

    config = Config(out=folder + "/probe", raw=folder + "/raw", kind="script", name="bench", argv=[], window_steps=2)
    probe = Probe(config, TensorFlow)
    probe.start()
    return probe


def whole(train: Train, probe: Any, calls: int) -> dict[str, float]:
    """Return ns per call of wall time and CPU time: of this thread, of the process, and of the probe's own thread."""
    own = None if probe is None else time.pthread_getcpuclockid(probe.journal._thread.ident)
    begun = time.perf_counter_ns(), time.process_time_ns(), time.clock_gettime_ns(own) if own else 0
    here = time.thread_time_ns()
    train(WHOLE, lambda: None)
    wall, here = time.perf_counter_ns() - begun[0], time.thread_time_ns() - here
    thread = 0
    if probe is not None and own is not None:
        thread = time.clock_gettime_ns(own) - begun[2] - time.thread_time_ns()
        probe.training.drain()
        probe.journal.finish()  # what the thread has not done by now, and what the end of every run does
        thread += time.thread_time_ns()
    spent = {"wall": wall, "here": here, "process": time.process_time_ns() - begun[1], "thread": thread}
    return {name: value / calls for name, value in spent.items()}


def hooked_methods(tf: Any) -> list[tuple[Any, str, Any]]:
    """Return the methods that the probe has hooked and that train: their classes, names, and what stands there."""
    kinds = [type(tf.function(lambda: None)), tf.GradientTape, *tf.keras.optimizers.SGD.__mro__]
    names = ("__call__", "__enter__", "__exit__", "gradient", "apply", "apply_gradients")
    found = [(kind, name, vars(kind)[name]) for kind in kinds for name in names if name in vars(kind)]
    return [one for one in found if "/tcprobe/probe/" in getattr(getattr(one[2], "__code__", None), "co_filename", "")]


def by_turns(train: Train, hooked: Sequence[tuple[Any, str, Any]], calls: Any, block: int) -> dict[str, float]:
    """Return ns per call of CPU time of this thread without the hooks, and what the hooks add."""
    times: dict[bool, list[int]] = {True: [], False: []}
    state = {"block": 0, "end": 0}

    def between() -> None:
        # Changing a class drops the interpreter's inline caches: the first of two blocks fills them again.
        now, number = time.thread_time_ns(), state["block"]
        on = number // 2 % 2 == 0
        if number % 2:
            times[on].append(now - state["end"])
            for kind, name, method in hooked:
                setattr(kind, name, method.__wrapped__ if on else method)
            calls.set_deferred(not on)
        state.update(block=number + 1, end=time.thread_time_ns())

    train(4 * BY_TURNS, between)
    added = statistics.median(a - b for a, b in zip(times[True], times[False], strict=True))
    return {"plain": statistics.median(times[False]) / block, "hook": added / block}


def run(name: str, probed: bool) -> dict[str, float]:
    """Run one style in this process; return what it took."""
    style = STYLES[name]
    folder = tempfile.mkdtemp()
    probe = started_probe(folder) if probed else None
    import tensorflow as tf

    train = style.make(tf)
    train(WARM_UP, lambda: None)
    gc.collect()
    spent = whole(train, probe, WHOLE * style.block)
    if probe is not None:
        assert probe.window.state == "done", probe.window.state
        assert probe.stepper.count == (WARM_UP + WHOLE) * style.block // style.per_step, probe.stepper.count
        assert not probe.gaps.gaps, probe.gaps.gaps
        spent.update(by_turns(train, hooked_methods(tf), probe.framework.calls, style.block))
    shutil.rmtree(folder)
    return spent


def forked(style: str, probed: bool) -> dict[str, float]:
    """Return what `run` returns, in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, json.dumps(run(style, probed)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


def measure(style: str, pairs: int) -> bool:
    """Print what one style costs; return whether that is within its limit."""
    plain, probed = [], []
    for number in range(pairs):
        for on in (True, False) if number % 2 else (False, True):
            (probed if on else plain).append(forked(style, on))
    limit = STYLES[style].limit
    own = {name: statistics.median(one[name] for one in probed) for name in ("plain", "hook", "thread")}
    more = {name: statistics.median(b[name] - a[name] for a, b in zip(plain, probed, strict=True)) for name in plain[0]}
    cost = own["hook"] + own["thread"]
    print(
        f"{style:14} {own['hook']:5.0f} hook + {own['thread']:5.0f} own thread = {cost:5.0f} ns of"
        f" {own['plain'] / 1000:6.1f} us ({100 * cost / own['plain']:4.1f} %), limit {limit} ns; whole runs:"
        f" {more['here']:+6.0f} here, {more['wall']:+6.0f} wall, {more['process']:+6.0f} process",
        flush=True,
    )
    return cost <= limit


# Scripts that print 50 MB (one of them 5 MB, by single characters).
FLOODS = {
    "nothing": "",
    "lines": "for i in range(500_000): print('step %07d loss: %.5f ' % (i, 1 / (i + 1)) + 'x' * 74)",
    "progress bars": "for i in range(500_000): sys.stdout.write('\\rstep %07d loss: 0.5 ' % i + 'x' * 78)",
    "one line": "sys.stdout.write('x' * 50_000_000)",
    "characters": "for i in range(5_000_000): sys.stdout.write('x')",
    "bytes": "for i in range(500): sys.stdout.buffer.write(bytes(100_000))",
}
RUNS = 3


def measure_flood(name: str) -> None:
    """Print what it takes to print much, without the probe and with it: the least of some runs."""
    from tests.probe.running import prepare

    plain, probed = [], []
    for _ in range(RUNS):
        folder = Path(tempfile.mkdtemp())
        script = folder / "flood.py"
        script.write_text("import sys\n" + FLOODS[name])
        plain.append(cpu_seconds([sys.executable, str(script)]))
        probed.append(cpu_seconds(prepare(folder / "run", "script", str(script))))
        shutil.rmtree(folder)
    print(f"{name:14} {min(plain):5.2f} s plain, {min(probed):5.2f} s probed", flush=True)


def cpu_seconds(command: list[str]) -> float:
    """Run a command whose output nobody reads; return its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure all styles; return 0 if each is within its limit."""
    import tensorflow as tf

    pairs = int(sys.argv[1]) if sys.argv[1:] else PAIRS
    print(f"TensorFlow {tf.__version__}, Python {sys.version.split()[0]}, {pairs} pairs of runs", flush=True)
    good = [measure(style, pairs) for style in STYLES]
    for name in FLOODS:
        measure_flood(name)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
