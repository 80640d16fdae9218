"""Gradients are counted as float16 would have them: by hand, eagerly and traced, with every kind of loss scale."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.scaling import loss_scale_need
from tcprobe.probe.constants import EXPONENTS
from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.window import CLOSE, DISCARD, DROP
from tcprobe.probe.tensorflow.gradients import MOST_VALUES, Gradients, Sums, Weight, loss_scale, stride
from tcprobe.readers.run_folder.steps import read_gradients
from tcprobe.schema.profile import Metadata, Profile
from tests import warm
from tests.probe.running import Run, run
from tests.support import needs_tensorflow

SCRIPT = """
import tensorflow as tf
keras = tf.keras
# Of the gradient 1 value is 0, 1 infinite, 2 vanish, 2 are subnormal, 1 overflows and 1 is normal.
slope = tf.constant([0, 2.0**-26, 2.0**-25, 2.0**-24, 2.0**-15, 1, 70000, float("inf")])

def loop(name, optimizer, scale=lambda loss: loss, times=slope, wrap=lambda step: step):
    weight = tf.Variable(tf.zeros(times.shape), name=name)
    @wrap
    def step():
        with tf.GradientTape() as tape:
            loss = scale(tf.reduce_sum(weight * times))
        optimizer.apply_gradients(zip(tape.gradient(loss, [weight]), [weight]))
    for _ in range(3):
        step()

SGD = keras.optimizers.SGD
loop("eager", SGD())
loop("traced", SGD(), wrap=tf.function)
loop("compiled", SGD(), wrap=tf.function(jit_compile=True))
factor = SGD(loss_scale_factor=2.0)
loop("factor", factor, lambda loss: loss * 2.0)
dynamic = keras.mixed_precision.LossScaleOptimizer(SGD(), initial_scale=4.0)
loop("dynamic", dynamic, dynamic.scale_loss, slope[:6], tf.function)
table = tf.Variable(tf.zeros((8, 2)), name="sparse")
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(tf.gather(table, [1, 1, 5]))
SGD().apply_gradients([(tape.gradient(loss, table), table)])
layer = keras.layers.Dense(1, use_bias=False, name="layer")
model = keras.Sequential([keras.Input((4,)), layer], name="net")
model.compile(SGD(), "mse")
model.fit(tf.ones((8, 4)), tf.ones((8, 1)), batch_size=2, verbose=0)
"""
COUNTED = ("updates", "size", "values", "zeros", "not_finite", "gone", "subnormal", "infinite")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("numerics"), SCRIPT, numerics=True, profile=False, python=warm.python())


@pytest.mark.tensorflow
@needs_tensorflow
def test_by_hand(counted: Run) -> None:
    assert counted.code == 0, counted.err
    rows = {row["name"]: row for row in json.loads((counted.folder / "probe/gradients.json").read_text())["gradients"]}
    found = {name: ([row[c] for c in COUNTED], row["scale"]) for name, row in rows.items()}
    for name in ("eager", "traced", "compiled"):
        assert found[name] == ([3, 24, 24, 3, 3, 6, 6, 3], 1.0), name
    # 2**-25 is subnormal at scale 2, and 2**-15 normal; at 4 no value vanishes, and nothing is as large as 70000.
    assert found["factor"] == ([3, 24, 24, 3, 3, 3, 6, 3], 2.0)
    assert found["dynamic"] == ([3, 18, 18, 3, 0, 0, 9, 0], 4.0)
    assert found["sparse"][0][:4] == [1, 6, 6, 0]  # three rows that are looked up, of two values
    assert (rows["kernel"]["layer"], rows["kernel"]["updates"]) == ("net/layer", 4)
    # Larger than 2**-25, without a scale: all but 0, 2**-26, 2**-25 and the infinite one.
    at = list(range(-49, 17, 2)).index(-25)
    assert [rows[name]["larger"][at] for name in ("eager", "factor", "dynamic")] == [12, 12, 9]
    assert [note["code"] for note in counted.seen["notes"] if "gradients" in note["code"]] == ["gradients-counted"]
    table, notes = read_gradients(counted.folder / "probe/gradients.json")
    assert table is not None and not notes
    row = dict(zip(table.values("weight"), table.rows(), strict=True))["eager"]
    assert [row[f"{kind}_pct"] for kind in ("zero", "subnormal", "infinite")] == [37.5, 25.0, 25.0]


FIT = """
import tensorflow as tf
keras = tf.keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, name="layer")])
model.compile(keras.optimizers.SGD(), "mse")
model.fit(tf.ones((80, 4)), tf.ones((80, 1)), batch_size=2, verbose=0)
"""


@pytest.mark.long
@pytest.mark.tensorflow
@needs_tensorflow
def test_updates_before_the_window_do_not_count(tmp_path: Path) -> None:
    done = run(tmp_path, FIT, numerics=True, python=warm.python())
    assert done.code == 0, done.err
    window = done.seen["window"]
    assert window["session"]["first_step"] < window["first_step"]
    rows = json.loads((done.folder / "probe/gradients.json").read_text())["gradients"]
    assert {row["updates"] for row in rows} == {window["last_step"] - window["first_step"] + 1}


class Held:
    """A variable of sums over a single weight, to which each update adds 1."""

    def __init__(self) -> None:
        self.count = 0

    def numpy(self) -> np.ndarray[Any, Any]:
        return np.full((1, 1 + len(COUNTED) + len(EXPONENTS)), float(self.count))


def test_what_was_counted_is_of_the_session_that_is_kept(tmp_path: Path) -> None:
    """3 updates in the window, then a session that is dropped, then one whose profile, and all before, is discarded."""
    gradients = Gradients(str(tmp_path), SimpleNamespace(on_call=None), Gaps())  # type: ignore[arg-type]
    held = Held()
    gradients._sums[1,] = Sums([Weight("net", "w")], held)

    def counted() -> list[float]:
        return [row["updates"] for row in json.loads((tmp_path / "gradients.json").read_text())["gradients"]]

    for how, updates, expected in ((CLOSE, 3, [3]), (DROP, 5, [3]), (DISCARD, 7, []), (CLOSE, 4, [4])):
        held.count += 2  # before the window
        gradients.window_begins()
        held.count += updates
        gradients.window_closes(how)
        assert counted() == expected
    gradients.window_closes(DISCARD)  # the script's own profile is the better one: all updates of the run
    gradients.write()
    assert counted() == [27]


def record(**given: Any) -> dict[str, Any]:
    """10 values, of which each kind that float16 changes has one, and which fall from exponent to exponent."""
    counts = {"updates": 1, "size": 20, "values": 10, **dict.fromkeys(COUNTED[3:], 1)}
    return {"name": "w", "layer": "net", "scale": 1.0, **counts, "larger": [8] * 20 + [1] * 13, **given}


@pytest.mark.parametrize(
    ("exponents", "given", "rows", "lost"),
    [
        (EXPONENTS, {}, 1, 0),
        ((*EXPONENTS, 17), {"larger": [1] * 34}, 1, 0),
        (EXPONENTS[:-1], {"larger": [1] * 32}, 0, 1),  # the last one tells what overflows
        (EXPONENTS[::-1], {}, 0, 1),
        (EXPONENTS, {"zeros": 20}, 0, 1),
        (EXPONENTS, {"zeros": 7}, 0, 1),  # 11 kinds of 10 values
        (EXPONENTS, {"size": 9}, 0, 1),
        (EXPONENTS, {"larger": [9] * 33}, 0, 1),  # of 10 values 2 are 0 or not finite
        (EXPONENTS, {"larger": [1] * 32 + [2]}, 0, 1),
        (EXPONENTS, {**dict.fromkeys(COUNTED[1:], 0), "larger": [0] * 33}, 0, 0),  # an empty gradient
    ],
)
def test_counts_that_cannot_be_are_damaged(
    tmp_path: Path, exponents: tuple[int, ...], given: dict[str, Any], rows: int, lost: int
) -> None:
    path = tmp_path / "gradients.json"
    path.write_text(json.dumps({"exponents": exponents, "gradients": [record(**given)]}))
    table, notes = read_gradients(path)
    assert (0 if table is None else len(table), len(notes)) == (rows, lost)
    if table is not None:
        assert loss_scale_need(Profile(Metadata("run_folder")).with_tables(table)) is not None


def test_a_damaged_file_costs_its_records(tmp_path: Path) -> None:
    path = tmp_path / "probe/gradients.json"
    assert read_gradients(path) == (None, ())
    path.parent.mkdir()
    whole = record()
    others = [{**whole, "scale": 0.0}, {**whole, "larger": []}, {**whole, "values": 0}, "w"]
    path.write_text(json.dumps({"exponents": EXPONENTS, "gradients": [whole, *others]}))
    table, notes = read_gradients(path)
    assert table is not None and len(table) == 1 and "4 of its records are damaged" in notes[0].message
    for text in ("{", "[]", '{"exponents": 3, "gradients": 3}'):
        path.write_text(text)
        table, notes = read_gradients(path)
        assert table is None and notes[0].code == "damaged-gradients"


class LossScaleOptimizer(SimpleNamespace):
    """As Keras 2 has it, or Keras 3."""


@pytest.mark.parametrize(
    ("optimizer", "scale"),
    [
        (SimpleNamespace(), (1.0, False)),
        (SimpleNamespace(loss_scale_factor=8), (8.0, True)),
        (LossScaleOptimizer(loss_scale=2.0, get_unscaled_gradients=len), (2.0, False)),
        (LossScaleOptimizer(built=False, initial_scale=4.0), (4.0, True)),
        (LossScaleOptimizer(built=True, initial_scale=4.0, dynamic_scale=2.0), (2.0, True)),
    ],
)
def test_by_what_gradients_are_scaled(optimizer: Any, scale: tuple[float, bool]) -> None:
    assert loss_scale(optimizer) == scale


def test_values_are_looked_at_in_all_columns() -> None:
    assert [stride(size) for size in (0, 1, MOST_VALUES, MOST_VALUES + 1, 30 * MOST_VALUES)] == [1, 1, 1, 2, 31]
