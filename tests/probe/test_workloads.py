"""The probe in real TensorFlow processes: steps, windows, endings. One process for each script."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests import warm
from tests.probe.running import Run, prepare, run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

HEAD = """
import sys
import numpy as np, tensorflow as tf
def model(name):
    return tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(8, name=name), tf.keras.layers.Dense(4)])
x, y = tf.ones((16, 8)), tf.ones((16, 4))
def trainer(m, optimizer):
    def train(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((m(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, m.trainable_variables), m.trainable_variables))
        return loss
    return train
first = trainer(model("one"), tf.keras.optimizers.SGD(0.01))
"""
GAN = (
    HEAD
    + """
g, d = tf.function(first), tf.function(trainer(model("two"), tf.keras.optimizers.SGD(0.01)))
validate = tf.function(lambda x: tf.reduce_sum(x))
for step in range(30):
    for _ in range(CRITIC): d(x, y)
    print("G Loss: %.3f, D Loss: 1.5" % float(g(x, y)))
    if step % 10 == 9: validate(x)
"""
)
ACCUMULATION = (
    HEAD
    + """
m, optimizer = model("one"), tf.keras.optimizers.SGD(0.01)
kept = [tf.Variable(tf.zeros_like(v)) for v in m.trainable_variables]
@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(x) - y) ** 2)
    for sum, gradient in zip(kept, tape.gradient(loss, m.trainable_variables)): sum.assign_add(gradient)
@tf.function
def apply():
    optimizer.apply_gradients(zip([v.read_value() for v in kept], m.trainable_variables))
    for v in kept: v.assign(tf.zeros_like(v))
for _ in range(28):
    for _ in range(4): accumulate(x, y)
    apply()
"""
)
FIT = (
    HEAD
    + """
m = model("one")
m.compile("sgd", "mse", steps_per_execution=PER_CALL, run_eagerly=EAGER)
a, b = np.ones((320, 8), "float32"), np.ones((320, 4), "float32")
if BATCHES: [m.train_on_batch(a[:16], b[:16]) for _ in range(30)]
else: m.fit(a, b, batch_size=16, epochs=3, verbose=2, validation_data=(a, b))
"""
)
TAPE_LOOP = (
    HEAD
    + """
both = [(model(name), tf.keras.optimizers.SGD(0.01)) for name in ("one", "two")]
for _ in range(28):
    for m, optimizer in both: trainer(m, optimizer)(x, y)
"""
)
RECURRENT = (
    HEAD
    + """
layers = tf.keras.layers
m = tf.keras.Sequential([tf.keras.Input((5, 8)), layers.LSTM(8), layers.Dense(4)])
m.compile("sgd", "mse", metrics=["mae"])
a, b = np.ones((320, 5, 8), "float32"), np.ones((320, 4), "float32")
m.fit(a, b, batch_size=16, epochs=3, verbose=2, validation_data=(a, b))
"""
)
INTEGER = (
    HEAD
    + """
both = [trainer(model(name), tf.keras.optimizers.SGD(0.01)) for name in ("one", "two")]
one, two = (tf.function(f) for f in both)
for f in (one, two): f.get_concrete_function(x, y)  # makes the optimizers' variables
@tf.function
def train(x, y, number, training): return both[number](x, y) if training else tf.reduce_sum(x)
for step in range(28):
    for number in (0, 1): train(x, y, number, True)
    if step % 10 == 9: train(x, y, 0, False)
"""
)
LOOP = (
    HEAD
    + """
data = tf.data.Dataset.from_tensors((x, y)).repeat(7)
train = tf.function(first)
@tf.function
def epoch():
    for a, b in data: train(a, b)
for _ in range(30): train(x, y)
for _ in range(5): epoch()
"""
)
PHASES = (
    HEAD
    + """
m, optimizer, count = model("one"), tf.keras.optimizers.SGD(0.01), tf.Variable(0)
optimizer.build(m.trainable_variables)
@tf.function
def pretrain(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((m(x) - y) ** 2)
    gradients = tape.gradient(loss, m.trainable_variables)
    if count.assign_add(1) % 4 == 0: optimizer.apply_gradients(zip(gradients, m.trainable_variables))
double = tf.function(lambda x: x @ tf.eye(8))
train = tf.function(trainer(model("two"), tf.keras.optimizers.SGD(0.01)))
for _ in range(40): pretrain(double(x), y)
for _ in range(40): train(x, y)
"""
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return what runs a script where TensorFlow is imported already, each script once."""
    return cache(lambda script: run(tmp_path_factory.mktemp("recorded"), script, python=warm.python()))


def assert_marked(probed: Run) -> None:
    """The profile holds one mark for every profiled step, by number."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(probed.profiles[0].read_bytes())
    marks = set()
    for plane in space.planes:
        names = {key: value.name for key, value in plane.event_metadata.items()}
        stats = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                if names[event.metadata_id] == "tcprobe_step":
                    marks.update(s.int64_value for s in event.stats if stats[s.metadata_id] == "step_num")
    assert {number for number, kind in probed.steps if kind == "profiled"} <= marks


@pytest.mark.parametrize(
    ("script", "count", "period", "basis"),
    [
        (GAN.replace("CRITIC", "1"), 30, 2, "period"),
        (GAN.replace("CRITIC", "5"), 30, 6, "period"),
        (ACCUMULATION, 28, 5, "period"),
        (FIT.replace("PER_CALL", "1").replace("EAGER", "False").replace("BATCHES", "0"), 60, 1, "keras fit"),
        (FIT.replace("PER_CALL", "1").replace("EAGER", "True").replace("BATCHES", "0"), 60, 2, "keras fit"),
        (FIT.replace("PER_CALL", "1").replace("EAGER", "False").replace("BATCHES", "1"), 30, 1, "keras fit"),
        (TAPE_LOOP, 28, 4, "period"),
        (RECURRENT, 60, 1, "keras fit"),
        (INTEGER, 28, 2, "period"),
    ],
    ids=["D, G", "5 D + 1 G", "accumulation", "fit", "eager fit", "train_on_batch", "tapes", "LSTM", "int argument"],
)
def test_steps(recorded: Callable[[str], Run], script: str, count: int, period: int, basis: str) -> None:
    probed = recorded(script)
    assert probed.code == 0, probed.err
    seen = probed.seen
    assert (seen["steps"]["count"], seen["steps"]["period"], seen["steps"]["basis"]) == (count, period, basis)
    assert [number for number, _ in probed.steps] == list(range(count))
    assert seen["window"]["first_step"] >= 2
    assert seen["window"]["last_step"] == min(seen["window"]["first_step"] + 19, count - 1)
    assert seen["gaps"] == []
    assert seen["gpu_used"] is False
    assert_marked(probed)


@pytest.mark.parametrize(
    ("script", "calls"),
    [(GAN.replace("CRITIC", "5"), [1.0, 5.0]), (ACCUMULATION, [1.0, 4.0])],
    ids=["5 D + 1 G", "accumulation"],
)
def test_functions_are_called_several_times_a_step(
    recorded: Callable[[str], Run], script: str, calls: list[float]
) -> None:
    (phase,) = recorded(script).phases
    assert sorted(part["calls_per_step"] for part in phase["parts"]) == calls


@pytest.mark.parametrize(
    ("script", "numbers", "count"),
    [
        (
            FIT.replace("PER_CALL", "6").replace("EAGER", "False").replace("BATCHES", "0"),
            [epoch + call for epoch in (0, 20, 40) for call in (0, 6, 12, 18)],  # the last execution has two
            60,
        ),
        (LOOP, [*range(30), *range(30, 65, 7)], 65),
    ],
    ids=["steps_per_execution", "dataset loop"],
)
def test_steps_within_a_call(recorded: Callable[[str], Run], script: str, numbers: list[int], count: int) -> None:
    probed = recorded(script)
    assert probed.code == 0, probed.err
    assert [number for number, _ in probed.steps] == numbers
    assert probed.seen["steps"]["count"] == count
    assert probed.seen["notes"] == []


def test_what_fit_trains_bears_the_name_of_the_model(recorded: Callable[[str], Run]) -> None:
    """The name of Keras' own function is that of every fit of a run."""
    probed = recorded(FIT.replace("PER_CALL", "6").replace("EAGER", "False").replace("BATCHES", "0"))
    (name,) = (part["name"] for phase in probed.phases for part in phase["parts"])
    assert name.startswith("fit of sequential")


def test_phases_have_steps_and_functions_of_their_own(recorded: Callable[[str], Run]) -> None:
    probed = recorded(PHASES)
    assert probed.code == 0, probed.err
    phases = [(p["first_step"], p["last_step"], p["basis"]) for p in probed.phases]
    assert phases == [(0, 39, "period"), (40, 79, "period")]
    parts = [[(part["name"].rpartition(".")[2], part["calls_per_step"]) for part in p["parts"]] for p in probed.phases]
    assert parts == [[("pretrain", 1.0)], [("train", 1.0)]]
    assert probed.seen["window"]["last_step"] < 40
    graph = json.loads((probed.folder / "probe/graph.json").read_text(encoding="utf-8"))
    functions = {f["python_name"].rpartition(".")[2]: f for f in graph["functions"]}
    # The last is first called when the window is over, and the hooks of tracing are gone.
    training = {name: f["training"] for name, f in functions.items()}
    assert training == {"pretrain": True, "<lambda>": False, "train": True}
    assert [(part["key"], part["name"]) for part in probed.seen["parts"]] == [
        (functions[name]["key"], functions[name]["python_name"]) for name in ("pretrain", "train")
    ]
    assert [op["layer"] for op in functions["train"]["ops"][:2]] == ["sequential_2/two", "sequential_2/dense_2"]
    (note,) = probed.seen["notes"]
    session, said = (
        probed.seen["window"]["session"],
        re.search(r"updated (\d+) times in the (\d+) calls", note["message"]),
    )
    assert note["code"] == "seldom-updated"
    assert said is not None
    assert int(said[2]) == session["last_step"] - session["first_step"] + 1
    assert abs(int(said[1]) - int(said[2]) / 4) < 1


def test_logged_figures_belong_to_their_step(recorded: Callable[[str], Run]) -> None:
    probed = recorded(GAN.replace("CRITIC", "1"))
    losses = [int(row["step"]) for row in probed.rows("metrics.csv") if row["name"] == "g_loss"]
    assert losses == list(range(30))


def test_crash_shows_the_scripts_traceback_and_keeps_the_profile(tmp_path: Path) -> None:
    probed = run(tmp_path, HEAD + "f = tf.function(first)\nfor _ in range(6): f(x, y)\nf(x, tf.zeros((3, 3)))")
    assert probed.code == 1
    assert probed.err.count('workload.py", line') >= 1
    assert "tcprobe" not in probed.err
    assert probed.seen["window"]["last_step"] == 5
    assert len(probed.profiles) == 1


def test_scripts_own_profiler_works_beside(tmp_path: Path) -> None:
    own = tmp_path / "own"
    script = f"""
f = tf.function(first)
for step in range(40):
    if step == 5: tf.profiler.experimental.start({str(own)!r})
    f(x, y)
    if step == 8: tf.profiler.experimental.stop()
"""
    probed = run(tmp_path, HEAD + script, python=warm.python())
    assert probed.code == 0, probed.err
    assert len(list(own.rglob("*.xplane.pb"))) == 1
    assert probed.seen["window"]["last_step"] - probed.seen["window"]["first_step"] == 19
    assert len(probed.profiles) == 1


def test_profile_of_the_scripts_own_is_used_where_it_runs_all_the_time(tmp_path: Path) -> None:
    own = tmp_path / "own"
    script = f"""
from tensorflow.compat import v2
f = tf.function(first)
v2.profiler.experimental.start({str(own)!r})
for step in range(30): f(x, y)
tf.profiler.experimental.stop()
for step in range(4): f(x, y)
"""
    probed = run(tmp_path, HEAD + script, python=warm.python())
    assert probed.code == 0, probed.err
    (theirs,) = own.rglob("*.xplane.pb")
    assert [path.read_bytes() for path in probed.profiles] == [theirs.read_bytes()]
    assert probed.seen["window"]["last_step"] == 29
    assert probed.seen["window"]["first_step"] >= 3
    assert probed.seen["window"]["reason"].startswith("in the script's own profile")
    assert [note["code"] for note in probed.seen["notes"]] == ["script-profile"]
    assert str(theirs) in probed.seen["notes"][0]["message"]
    assert_marked(probed)


def test_memory_of_the_scripts_own_does_not_shorten_the_window(tmp_path: Path) -> None:
    script = "f, kept = tf.function(first), []\nfor _ in range(40): f(x, y); kept.append(np.ones(5 << 20))"
    probed = run(tmp_path, HEAD + script, python=warm.python())
    window = probed.seen["window"]
    assert window["last_step"] - window["first_step"] == 19
    assert "cut" not in window["reason"]
    assert len(probed.profiles) == 1


PARTIAL = """
data = [(np.ones((size, 8), "float32"), np.ones((size, 4), "float32")) for size in (16, 16, 5)]
a, b = np.ones((85, 8), "float32"), np.ones((85, 4), "float32")
def trained(name, steps=1):
    m = model(name)
    m.compile("sgd", "mse", steps_per_execution=steps)
    return m
trained("arrays", 4).fit(a, b, batch_size=16, verbose=0)
trained("generator").fit((batch for batch in data), verbose=0)
batches = tf.data.Dataset.from_tensor_slices((a, b)).batch(16)
@tf.function
def epoch():
    for p, q in batches: first(p, q)
epoch()
ragged = tf.function(lambda q, p: first(p, q), input_signature=[tf.TensorSpec((None, 4)), tf.TensorSpec((None, 8))])
for p, q in data: ragged(q=q, p=p)
"""


def test_partial_batches_leave_no_size_unknown(tmp_path: Path) -> None:
    probed = run(tmp_path, HEAD + PARTIAL, python=warm.python())
    assert probed.code == 0, probed.err
    assert probed.seen["gaps"] == []
    graph = json.loads((probed.folder / "probe/graph.json").read_text(encoding="utf-8"))
    ops = [op for function in graph["functions"] if function["training"] for op in function["ops"]]
    forward = [tuple(op["input_shapes"][0]) for op in ops if op["pass"] == "forward"]
    assert forward == [(16, 8)] * 8
    assert not [op for op in ops if any(None in shape for shape in op["input_shapes"] + op["output_shapes"])]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_very_short_run(tmp_path: Path, steps: int) -> None:
    probed = run(tmp_path, HEAD + f"f = tf.function(first)\nfor _ in range({steps}): f(x, y)", python=warm.python())
    assert probed.code == 0
    assert len(probed.profiles) == (steps > 1)
    if steps > 1:
        assert (probed.seen["window"]["first_step"], probed.seen["window"]["last_step"]) == (1, steps - 1)
    else:
        (note,) = probed.seen["notes"]
        why = "the run ended after 1 step, and the profiler starts with the second call"
        assert (note["code"], note["message"]) == ("no-window", why)


def test_named_function_is_the_step(tmp_path: Path) -> None:
    script = "f = tf.function(lambda x: x * 2)\n@tf.function\ndef mine(x): return x + 1\n"
    script += "for _ in range(9):\n    f(x); mine(x); mine(x)"
    probed = run(tmp_path, HEAD + script, step_function="mine", python=warm.python())
    assert probed.seen["steps"]["count"] == 18
    assert probed.seen["steps"]["basis"] == "step function"


PRECISION = """
print(tf.config.experimental.tensor_float_32_execution_enabled())
print(tf.keras.mixed_precision.global_policy().name)
import os; print(os.environ.get("NVIDIA_TF32_OVERRIDE"), os.environ.get("TF_XLA_FLAGS"))
m = model("one"); m.compile("sgd", "mse"); m.fit(x, y, verbose=0); print(m.jit_compile)
"""


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param({}, "True float32 None None False", marks=pytest.mark.long),
        pytest.param({"precision": "float32", "xla": False}, "False float32 0 None False", marks=pytest.mark.long),
        pytest.param({"precision": "tf32"}, "True float32 None None False", marks=pytest.mark.long),
        (
            {"precision": "mixed_bfloat16", "xla": True},
            "True mixed_bfloat16 None --tf_xla_auto_jit=2 --tf_xla_cpu_global_jit True",
        ),
    ],
    ids=["unset", "float32", "tf32", "mixed_bfloat16"],
)
def test_precision_and_xla(tmp_path: Path, settings: dict[str, object], told: str) -> None:
    python = sys.executable if "xla" in settings else warm.python()  # its flags are set before TensorFlow is there
    probed = run(tmp_path, HEAD + PRECISION, python=python, **settings)
    assert probed.code == 0, probed.err
    assert probed.out.split() == told.split()


POLICY = """
tf.config.optimizer.set_jit(True)
tf.config.experimental.enable_tensor_float_32_execution(False)
tf.keras.mixed_precision.set_global_policy("mixed_float16")
given, layers = tf.keras.Input((8,)), tf.keras.layers
wide = layers.Dense(8, activation="relu")(given)
weights = layers.Dense(8, activation="softmax")(wide)
full = layers.Dense(8, dtype="float32")(layers.Multiply()([weights, wide]))
head = layers.Dense(4, activation="softmax", name="head")(full)
m = tf.keras.Model(given, [head, weights]); m.compile("sgd", ["mse", None]); m.fit(x, y, batch_size=4, verbose=0)
"""


def test_the_policy_that_a_script_sets_and_its_outputs_in_16_bits(tmp_path: Path) -> None:
    script = HEAD + POLICY
    policy = run(tmp_path, script, python=warm.python()).seen["policy"]
    (output,) = policy.pop("outputs")
    assert policy == {
        "name": "mixed_float16",
        "set_by": "script",
        "layers": {"float32": 1, "mixed_float16": 3},
        "graph_rewrite": False,
        "loss_scales": [{"kind": "dynamic", "value": 32768.0, "optimizer": "sgd_1"}],
        "clustered_by": "script",
        "tf32_off": True,
    }
    assert (output["layer"].rpartition("/")[2], output["layer_class"], output["activation"], output["dtype"]) == (
        *("head", "Dense", "softmax", "float16"),
    )
    assert output["source"].endswith(f":{script[: script.index('head = ')].count(chr(10)) + 1}")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_interrupted_within_the_window(tmp_path: Path, number: int) -> None:
    script = (
        HEAD + "import time\nf = tf.function(first)\nwhile True: f(x, y); time.sleep(0.3); print('step', flush=True)"
    )
    probed = interrupt(tmp_path, script, lambda child: child.send_signal(number))
    assert probed.code == -number
    assert len(probed.profiles) == 1
    assert probed.seen["finished"]


def test_killed(tmp_path: Path) -> None:
    script = (
        HEAD + "import time\nf = tf.function(first)\nwhile True: f(x, y); time.sleep(0.3); print('step', flush=True)"
    )
    probed = interrupt(tmp_path, script, lambda child: (time.sleep(1), os.kill(child.pid, signal.SIGKILL)))
    assert probed.code == -signal.SIGKILL
    assert not probed.seen["finished"]
    assert len(probed.steps) >= 3


def interrupt(folder: Path, script: str, act: Callable[[subprocess.Popen[str]], object]) -> Run:
    """Run a script, act on it after its fourth step, wait for its end."""
    path = folder / "workload.py"
    path.write_text(script)
    command = prepare(folder / "run", "script", str(path))
    with (folder / "err").open("w") as err:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        assert child.stdout is not None
        for _ in range(4):
            child.stdout.readline()
        act(child)
        out, _ = child.communicate(timeout=60)
    return Run(folder / "run", child.returncode, out, (folder / "err").read_text())


def test_other_threads_are_no_steps(tmp_path: Path) -> None:
    script = """
import threading
f, other, done = tf.function(first), tf.function(lambda x: tf.reduce_sum(x)), []
f(x, y)
def evaluate():
    while not done: other(x)
thread = threading.Thread(target=evaluate)
thread.start()
for _ in range(99): f(x, y)
done.append(1)
thread.join()
"""
    probed = run(tmp_path, HEAD + script, python=warm.python())
    assert probed.seen["steps"]["count"] == 100


HOOKS = """
from tensorflow.python.eager import imperative_grad
from tensorflow.python.framework import ops
from tensorflow.python.ops import gradients_util
graphs, layers = tf.__internal__.FuncGraph, tf.keras.layers.Layer
def hooked():
    found = [graphs.__init__, graphs._create_op_internal, layers.__init__, layers.__call__,
             imperative_grad.imperative_grad, gradients_util._GradientsHelper]
    found += [ops.gradient_registry._registry[name]["type"] for name in ("MatMul", "Conv2D")]
    return sum("tcprobe" in f.__code__.co_filename for f in found)
"""
RETRACED = (
    HEAD
    + HOOKS
    + """
f = tf.function(first)
other = {2: 5, 6: 6, 12: 7}
for step in range(16):
    batch = other.get(step, 16)
    f(x[:batch], y[:batch])
    print(hooked(), end=" ")
"""
)


def test_every_retrace_is_recorded_until_the_window_is_over(tmp_path: Path) -> None:
    probed = run(tmp_path, RETRACED, python=warm.python(), iter_start=4, iter_stop=8)
    assert probed.code == 0, probed.err
    assert probed.seen["gaps"] == []
    graph = json.loads((probed.folder / "probe/graph.json").read_text(encoding="utf-8"))
    batches = [f["ops"][0]["input_shapes"][0][0] for f in (*graph["functions"], *graph["variants"])]
    assert batches == [16, 5, 6]
    assert {op["layer"] for f in graph["variants"] for op in f["ops"]} == {"sequential/one", "sequential/dense"}
    # Every hook of tracing is on before the window and in it; step 9 finds the window over.
    assert probed.out.split() == ["8"] * 9 + ["0"] * 7
    assert probed.seen["steps"]["count"] == 16


@pytest.mark.parametrize("ours", ["first(x, y)", "m.fit(x, y, verbose=0)"], ids=["eager", "fit"])
def test_hooks_of_tracing_go_whatever_trains(tmp_path: Path, ours: str) -> None:
    script = f"m = model('one'); m.compile('sgd', 'mse')\nfor _ in range(12): {ours}; print(hooked(), end=' ')"
    probed = run(tmp_path, HEAD + HOOKS + script, python=warm.python(), iter_start=4, iter_stop=8)
    assert probed.code == 0, probed.err
    assert probed.out.split() == ["8"] * 9 + ["0"] * 3
    graph = json.loads((probed.folder / "probe/graph.json").read_text(encoding="utf-8"))
    layers = [op["layer"].rpartition("/")[2] for op in graph["functions"][0]["ops"]]
    assert [name.rstrip("_1") for name in layers[:2]] == ["one", "dense"]
