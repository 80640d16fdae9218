"""Profiling in this process with real TensorFlow: a function, a fit, and a notebook that does both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import needs_tensorflow

pytestmark = needs_tensorflow
MODEL = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
import tcprobe

model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(63), keras.layers.Dense(10)])
model.compile("sgd", "mse")
x, y = np.zeros((32, 30), "float32"), np.zeros((32, 10), "float32")
"""
PROFILED = """
run = tcprobe.profile(lambda: model.train_on_batch(x, y), steps=4, timed=9, warmup=3, output="run")
assert list(run.steps.kind) == ["warm-up"] * 3 + ["measured"] * 9 + ["profiled"] * 4 + ["after"]
assert run.figure("step_time_ns")["value"] > 0
assert len(run.host_ops)
try:
    run.kernels
    raise SystemExit("a CPU has no kernels")
except tcprobe.NoTable as error:
    assert "the run used no GPU" in str(error)
"""
FITTED = """
watch = tcprobe.KerasCallback(steps=4, timed=9, warmup=3, output="fit")
model.fit(np.zeros((640, 30), "float32"), np.zeros((640, 10), "float32"), batch_size=32, verbose=0, callbacks=[watch])
assert len(watch.profile.steps) == 17
short = tcprobe.KerasCallback(steps=4, timed=9, warmup=3, output="short")
model.fit(x, y, verbose=0, callbacks=[short])
assert list(short.profile.steps.kind) == ["warm-up"]
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
AUDITED = """
found = tcprobe.audit_shapes(model, batch_size=4096, dtype="float16")
assert ("sequential/dense", "units", 63) in [(one.layer, one.dimension, one.size) for one in found]
assert all(one.file is None for one in found)
"""


def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MODEL + PROFILED + FITTED + FAILED + "print('all of it')\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-2000:]
    shown = subprocess.run(
        [sys.executable, "-m", "tcprobe", "report", str(tmp_path / "run")], capture_output=True, text=True, check=True
    )
    assert "step time" in shown.stdout


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
    assert "No GPU: Tensor Core use was not measured." in shown[0]
    assert "Figures" in shown[1]
