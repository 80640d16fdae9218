"""Profiling in this process with real TensorFlow: a function, a fit, and a notebook that does both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.fixtures.gpu_run.make import RUN
from tests.support import ROOT, needs_tensorflow

pytestmark = needs_tensorflow
MODEL = """
import os
from pathlib import Path
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
import tcprobe

model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(63), keras.layers.Dense(10)])
model.compile("sgd", "mse")
x, y = np.zeros((32, 30), "float32"), np.zeros((32, 10), "float32")
"""
PROFILED = """
import tensorflow as tf
hooked = type(tf.function(print)), keras.layers.Layer, keras.Model
before = [(dict(vars(one))) for one in hooked]
run = tcprobe.profile(lambda: model.train_on_batch(x, y), steps=4, timed=9, warmup=3, output="run")
assert [dict(vars(one)) for one in hooked] == before
assert list(run.steps.kind) == ["warm-up"] * 3 + ["measured"] * 9 + ["profiled"] * 4 + ["after"]
assert run.figure("step_time_ns")["value"] > 0
assert len(run.host_ops)
assert {p.stat().st_mode & 0o777 for p in Path("run").rglob("*")} == {0o700, 0o600}
try:
    run.kernels
    raise SystemExit("a CPU has no kernels")
except tcprobe.NoTable as error:
    assert "the run used no GPU" in str(error)
"""
GRAPH = """
assert sorted(zip(run.gemms.layer, run.gemms["pass"], run.gemms.m, run.gemms.n, run.gemms.k)) == [
    ("sequential/dense", "forward", 32, 63, 30), ("sequential/dense", "wgrad", 30, 63, 32),
    ("sequential/dense_1", "dgrad", 32, 63, 10), ("sequential/dense_1", "forward", 32, 10, 63),
    ("sequential/dense_1", "wgrad", 63, 10, 32),
]
assert run.figure("flops_per_step")["value"] == 2 * 32 * 63 * (2 * 30 + 3 * 10)
assert set(zip(run.bad_sizes.layer, run.bad_sizes["size"])) >= {("sequential/dense", 63), ("sequential/dense", 30)}
def of_the_graph(profile):  # a busy machine may add a note on a step that took long
    return {note.code for note in profile.notes} & {"traced-before", "eager-here"}
assert of_the_graph(run) == set()
late = tcprobe.profile(lambda: model.train_on_batch(x, y), steps=2, timed=0, warmup=0, output="late")
assert of_the_graph(late) == {"traced-before"} and not hasattr(late, "gemms"), late.notes
eager = tcprobe.profile(lambda: tf.linalg.matmul(x, x, transpose_b=True), steps=2, timed=0, warmup=1, output="eager")
assert of_the_graph(eager) == {"eager-here"} and not hasattr(eager, "gemms"), eager.notes
weight = tf.Variable(np.zeros((30, 8), "float32"))
forward = tf.function(lambda: tf.linalg.matmul(x, weight))
def taped():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(forward())
    tape.gradient(loss, weight)
halves = tcprobe.profile(taped, steps=2, timed=0, warmup=1, output="taped")
assert of_the_graph(halves) == {"eager-here"} and not hasattr(halves, "gemms"), halves.notes
calls = []
weights = tf.Variable(np.zeros((30, 8), "float32"))
@tf.function
def every():
    return tf.linalg.matmul(x, weights)
@tf.function
def second():
    return tf.linalg.matmul(x, weights, name="other")
def alternating():
    calls.append(every())
    if len(calls) % 2:
        second()
run_2 = tcprobe.profile(alternating, steps=4, timed=0, warmup=2, output="alternating")
assert run_2.figure("flops_per_step")["value"] == 1.5 * 2 * 32 * 30 * 8
sizes = iter([32, 8, 8] * 3 + [4])
@tf.function(input_signature=[tf.TensorSpec([None, 30])])
def bucket(rows):
    return tf.linalg.matmul(rows, weights)
run_3 = tcprobe.profile(lambda: bucket(x[: next(sizes)]), steps=6, timed=0, warmup=3, output="buckets")
flops = run_3.figure("flops_per_step")
assert [flops[key] for key in ("low", "value", "high")] == [2 * rows * 30 * 8 for rows in (8, 16, 32)], flops
"""
FITTED = """
model.compile("sgd", "mse")  # the step is traced anew
watch = tcprobe.KerasCallback(steps=4, timed=9, warmup=3, output="fit")
model.fit(np.zeros((640, 30), "float32"), np.zeros((640, 10), "float32"), batch_size=32, verbose=0, callbacks=[watch])
assert len(watch.profile.steps) == 17
assert watch.profile.figure("flops_per_step")["value"] == 2 * 32 * 63 * (2 * 30 + 3 * 10)
starts = watch.profile.steps.start_ns
assert starts.iloc[-1] - starts.iloc[-2] < starts.iloc[1] - starts.iloc[0]  # one traces, none reports
unused = tcprobe.KerasCallback(output="unused")
assert unused.profile is None and not list(Path(".").glob("*unused*"))
del unused
short = tcprobe.KerasCallback(steps=4, timed=9, warmup=3, output="short")
model.fit(x, y, verbose=0, callbacks=[short])
assert list(short.profile.steps.kind) == ["profiled", "after"]  # one batch, of 16 that were asked for
assert [n.message for n in short.profile.notes if n.code == "short-training"] == [
    "the training has 1 of the 16 steps that were asked for: 0 of 3 warm-up, 0 of 9 timed, 1 of 4 profiled"]
together = keras.Sequential([keras.Input((30,)), keras.layers.Dense(10)])
together.compile("sgd", "mse", steps_per_execution=2)
calls = tcprobe.KerasCallback(output="calls")
together.fit(np.zeros((640, 30), "float32"), np.zeros((640, 10), "float32"), epochs=2, verbose=0, callbacks=[calls])
assert list(calls.profile.steps.kind) == ["warm-up"] * 7 + ["measured"] * 6 + ["profiled"] * 7 + ["after"]
unknown = tcprobe.KerasCallback(steps=4, timed=9, warmup=3, output="unknown")
batches = ((x, y) for _ in range(5))
model.fit(batches, verbose=0, callbacks=[unknown])
assert [n.message for n in unknown.profile.notes if n.code == "short-training"] == [
    "the training ended after 5 steps; the first to profile was 12"], unknown.profile.notes
assert list(unknown.profile.steps.kind) == ["warm-up"] * 3 + ["measured"] * 2 + ["after"]
both = tcprobe.compare(run, watch.profile)
assert both.names == ("run", "fit") and both.answer
"""
FAILED = """
calls = []
def step():
    calls.append(1)
    if len(calls) == 3:
        raise KeyError("mine")
try:
    tcprobe.profile(step, steps=4, timed=2, warmup=1, output="failed")
    raise SystemExit("it passed")
except KeyError as error:
    assert error.args == ("mine",)
left = tcprobe.read("failed")
assert len(left.steps) == 3 and left.metadata.partial
try:
    tcprobe.profile(lambda: None, output="failed")
    raise SystemExit("it overwrote")
except tcprobe.TcprobeError as error:
    assert "exists already" in str(error)
import tensorflow as tf
tf.profiler.experimental.start("other")
try:
    tcprobe.profile(lambda: None, steps=1, timed=0, warmup=0, output="beside")
    raise SystemExit("two sessions")
except tcprobe.TcprobeError as error:
    assert "a profiler session is open" in str(error)
tf.profiler.experimental.stop()
"""
SNIPPETS = """
import ast, re, shutil, sys
shutil.copytree(sys.argv[1], "tcprobe-runs/train_gan-20261121T050102Z")
def train_step(images, labels):
    return model.train_on_batch(images, labels)
given = {"tcprobe": tcprobe, "train_step": train_step, "images": x, "labels": y, "model": model}
given["dataset"] = tf.data.Dataset.from_tensors((x, y)).repeat(41)
for page in sys.argv[2:]:
    for block in re.findall("^```python$(.*?)^```$", Path(page).read_text(encoding="utf-8"), re.M | re.S):
        names = dict(given)
        for statement in ast.parse(block).body:
            try:
                exec(compile(ast.Module([statement], []), page, "exec"), names)
            except tcprobe.NoTable as error:
                assert "the run used no GPU" in str(error)
"""
LEFT = """
class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 6:
            raise KeyboardInterrupt
data = np.zeros((640, 30), "float32"), np.zeros((640, 10), "float32")
def fit(watch, *more):
    try:
        model.fit(*data, batch_size=32, verbose=0, callbacks=[watch, *more])
        raise SystemExit("it passed")
    except KeyboardInterrupt:
        pass
left = tcprobe.KerasCallback(steps=8, timed=2, warmup=2, output="left")
fit(left, Fails())
assert left.profile.metadata.partial and "profiled" in set(left.profile.steps.kind)
again = tcprobe.KerasCallback(steps=8, timed=2, warmup=2, output="again")
fit(again, Fails())
assert tcprobe.profile(lambda: None, steps=1, timed=0, warmup=0, output="next").path.name == "next"  # not kept from it
assert again.profile.metadata.partial
try:
    tcprobe.profile(lambda: tcprobe.profile(lambda: None, output="inner"), output="outer")
    raise SystemExit("two at once")
except tcprobe.TcprobeError as error:
    assert "steps are recorded already" in str(error)
assert not Path("inner").exists()
def interrupted():
    raise KeyboardInterrupt
try:
    tcprobe.profile(interrupted, steps=1, timed=0, warmup=0, output="interrupted")
except KeyboardInterrupt:
    assert tcprobe.read("interrupted").metadata.partial
tf.profiler.experimental.start("mine")
beside = tcprobe.KerasCallback(steps=4, timed=0, warmup=1, output="besides")
model.fit(*data, batch_size=32, verbose=0, callbacks=[beside])  # trains on
tf.profiler.experimental.stop()
try:
    beside.profile
    raise SystemExit("no error")
except tcprobe.TcprobeError as error:
    assert "a profiler session is open" in str(error)
last = tcprobe.KerasCallback(steps=8, timed=2, warmup=2, output="last")
fit(last, Fails())  # nobody asks for it: the end of the process concludes it
assert all("last" in path.name for path in Path(".").glob(".partial-*"))
"""
AUDITED = """
found = tcprobe.audit_shapes(model, batch_size=4096, dtype="float16")
assert ("sequential/dense", "units", 63) in [(one.layer, one.dimension, one.size) for one in found]
assert all(one.file is None for one in found)
"""


@pytest.mark.long
def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        MODEL + PROFILED + GRAPH + FITTED + FAILED + SNIPPETS + LEFT + "print('all of it')\n", encoding="utf-8"
    )
    pages = [str(ROOT / "docs" / "python-api.md"), str(ROOT / "README.md")]
    command = [sys.executable, str(script), str(RUN), *pages]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-2000:]
    shown = subprocess.run(
        [sys.executable, "-m", "tcprobe", "report", str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert "step time" in shown.stdout
    assert (tmp_path / "last" / "run.json").is_file()
    assert not list(tmp_path.glob(".partial-*"))


GAN = """
import keras
import tensorflow as tf

generator = keras.Sequential([keras.Input((20,)), keras.layers.Dense(441), keras.layers.Reshape((7, 7, 9)),
                              keras.layers.Conv2DTranspose(1, 5, 2, "same")])
critic = keras.Sequential([keras.Input((14, 14, 1)), keras.layers.Conv2D(15, 5, 2), keras.layers.Flatten(),
                           keras.layers.Dense(1)])
optimizers = keras.optimizers.SGD(), keras.optimizers.SGD()
real = tf.zeros((16, 14, 14, 1))

@tf.function
def train_step():
    with tf.GradientTape() as one, tf.GradientTape() as other:
        forged = critic(generator(tf.random.normal((16, 20)), training=True), training=True)
        losses = tf.reduce_mean(forged), tf.reduce_mean(critic(real, training=True)) - tf.reduce_mean(forged)
    for tape, model, loss, optimizer in zip((one, other), (generator, critic), losses, optimizers):
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
LOOP = "for _ in range(40):\n    train_step()\n"
HERE = "import tcprobe\ntcprobe.profile(train_step, steps=4, timed=4, warmup=2, output='here')\n"


def test_the_graph_is_that_of_the_command(tmp_path: Path) -> None:
    """But for the lines where layers are constructed, which is over before anything is profiled."""
    for name, text in {"loop.py": GAN + LOOP, "here.py": GAN + HERE}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    profiled = [sys.executable, "-m", "tcprobe", "profile", "--python", warm.python(), "--output", "command", "loop.py"]
    for command in (profiled, [warm.python(), "here.py"]):
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=200)
    (one,), (other,) = (
        json.loads((tmp_path / run / "probe" / "graph.json").read_text(encoding="utf-8"))["functions"]
        for run in ("command", "here")
    )
    assert len(one["ops"]) == 24
    assert {op["source"] for op in other["ops"]} == {None}
    told = json.dumps([{**op, "source": None} for op in one["ops"]])
    assert json.loads(told.replace("loop.py", "here.py")) == other["ops"]
    alike = ("python_name", "executed_basis", "training", "traces")
    assert [one[key] for key in alike] == [other[key] for key in alike]
    assert (one["calls_per_step"], other["calls_per_step"]) == (None, 1.0), "of a command the calls in time tell"


@pytest.mark.long
def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    from nbformat import v4

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cells = [MODEL, PROFILED, "run", AUDITED, "tcprobe.compare(run, run)"]
    book: Any = v4.new_notebook(cells=[v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(
        book, timeout=200, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [out["data"]["text/html"] for cell in book.cells for out in cell.outputs if "data" in out]
    assert len(shown) == 2
    assert "No GPU here. CPU times say nothing of a GPU." in shown[0]
    assert "Figures" in shown[1]
