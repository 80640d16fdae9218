"""What eager steps ran, in real TensorFlow: products counted by hand, their layers, passes and lines, and the phases.

One process runs every style for a few steps, one after the other.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests import warm
from tests.probe.running import Run, run
from tests.support import needs_tensorflow

pytestmark = [pytest.mark.tensorflow, needs_tensorflow]

SCRIPT = """
import tensorflow as tf
K, L = tf.keras, tf.keras.layers
x, y = tf.ones((16, 8)), tf.ones((16, 4))
def dense(name, last):
    return K.Sequential([K.Input((8,)), L.Dense(24, name=name + "_a"), L.Dense(last, name=name + "_b")])
def apply(tape, loss, model, optimizer):
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
def gan():
    made = dense("g", 8), dense("d", 4)
    return *made, *(K.optimizers.SGD(0.01) for _ in made)

def two_tapes():
    g, d, go, do = gan()
    for _ in range(4):
        with tf.GradientTape() as tape: loss = tf.reduce_mean(d(x) ** 2)  # two_tapes first
        apply(tape, loss, d, do)
        with tf.GradientTape() as tape: loss = tf.reduce_mean(d(g(x)) ** 2)  # two_tapes second
        apply(tape, loss, g, go)
def one_line():
    g, d, go, do = gan()
    for _ in range(4):
        for model, optimizer, make in ((d, do, lambda: d(x)), (g, go, lambda: d(g(x)))):
            with tf.GradientTape() as tape: loss = tf.reduce_mean(make() ** 2)  # one_line
            apply(tape, loss, model, optimizer)
def accumulation():
    model, optimizer = dense("m", 4), K.optimizers.SGD(0.01)
    for _ in range(4):
        sums = [tf.zeros_like(v) for v in model.trainable_variables]
        for _ in range(3):
            with tf.GradientTape() as tape: loss = tf.reduce_mean((model(x) - y) ** 2)  # accumulation
            sums = [a + b for a, b in zip(sums, tape.gradient(loss, model.trainable_variables))]
        optimizer.apply_gradients(zip(sums, model.trainable_variables))
def persistent():
    g, d, go, do = gan()
    for _ in range(4):
        with tf.GradientTape(persistent=True) as tape: loss = tf.reduce_mean(d(g(x)) ** 2)  # persistent
        apply(tape, loss, d, do)
        apply(tape, loss, g, go)
def nested():
    model, optimizer = dense("m", 4), K.optimizers.SGD(0.01)
    for _ in range(4):
        with tf.GradientTape() as tape:  # nested
            with tf.GradientTape() as inner:
                inner.watch(x)
                out = tf.reduce_sum(model(x))
            loss = tf.reduce_mean(inner.gradient(out, x) ** 2) + out
        apply(tape, loss, model, optimizer)
def calls():
    model, optimizer = dense("m", 4), K.optimizers.SGD(0.01)
    forward = tf.function(lambda x: model(x))
    for _ in range(4):
        with tf.GradientTape() as tape: loss = tf.reduce_mean((forward(x) - y) ** 2)  # calls
        apply(tape, loss, model, optimizer)
def raw():
    kernel, filters = tf.Variable(tf.ones((8, 8))), tf.Variable(tf.ones((3, 3, 1, 2)))
    square = tf.ones((8, 8))
    for _ in range(4):
        square = tf.matmul(square, square)  # raw outside
        with tf.GradientTape() as tape:  # raw
            hidden = tf.matmul(square, kernel)  # raw matmul
            image = tf.nn.conv2d(hidden[None, :, :, None], filters, 1, "VALID")  # raw conv
            loss = tf.reduce_mean(image ** 2)
        for variable, gradient in zip((kernel, filters), tape.gradient(loss, (kernel, filters))):
            variable.assign_sub(0.01 * gradient)
def raw_later():
    first, then = tf.Variable(tf.ones((3, 3, 1, 2))), tf.Variable(tf.ones((3, 3, 2, 4)))
    for _ in range(4):
        with tf.GradientTape() as tape:  # raw later
            hidden = tf.nn.conv2d(tf.ones((2, 8, 8, 1)), first, 1, "VALID")
            loss = tf.reduce_mean(tf.nn.conv2d(hidden, then, 1, "VALID") ** 2)
        first.assign_sub(0.01 * tape.gradient(loss, first))
def shapeless():
    kernel = tf.Variable(tf.ones((8, 4)))
    scale = tf.Variable(1.0, shape=tf.TensorShape(None))
    for _ in range(4):
        with tf.GradientTape() as tape:  # shapeless
            loss = tf.reduce_mean(tf.ones((2, 8)) @ kernel * scale)
        kernel.assign_sub(0.01 * tape.gradient(loss, kernel))
def layers():
    given = K.Input((8, 8, 4))
    up = L.Conv2DTranspose(6, 3, strides=2, padding="same", name="up")(given)
    deep = L.Conv2DTranspose(2, 3, name="deep")(up)
    sep = L.SeparableConv2D(4, 3, name="sep")(deep)
    lines = L.Conv1D(3, 3, name="lines")(L.Reshape((-1, 4))(sep))
    heads = L.MultiHeadAttention(2, 4, name="heads")(lines, lines)
    model, optimizer = K.Model(given, L.Dense(2, name="last")(heads)), K.optimizers.SGD(0.01)
    cube = K.Input((4, 4, 4, 2))
    model3 = K.Model(cube, L.Conv3DTranspose(3, 2, name="up3")(L.Conv3D(3, 2, name="deep3")(cube)))
    words = K.Input((6,), dtype="int32")
    model1 = K.Model(words, L.Dense(3, name="said")(L.Embedding(11, 5)(words)))
    for _ in range(4):
        with tf.GradientTape() as tape:  # layers
            loss = sum(tf.reduce_mean(m(tf.ones((2, *m.input_shape[1:]), m.inputs[0].dtype)) ** 2)
                       for m in (model, model3, model1))
        variables = [v for m in (model, model3, model1) for v in m.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
def validated():
    import numpy as np
    model = dense("m", 4)
    model.compile("sgd", "mse", run_eagerly=True)
    data = np.ones((16, 8)), np.ones((16, 4))
    model.fit(*data, batch_size=16, epochs=4, verbose=0, validation_data=data)  # validated

for style in (
    two_tapes, one_line, accumulation, persistent, nested, calls, raw, raw_later, shapeless, layers, validated,
): style()
"""
BATCH = 16
WIDE, G_LAST, D_LAST = (2 * BATCH * product for product in (8 * 24, 24 * 8, 24 * 4))
"""FLOPs of the first layer of either network, and of the last layer of each."""
D, G = WIDE + D_LAST, WIDE + G_LAST
# A tape differentiates whatever its variables are; only the first layer's input has no gradient.
TRUTH = {
    "two_tapes first": D + (2 * D_LAST + WIDE),
    "two_tapes second": (G + D) + (2 * D + 2 * G_LAST + WIDE),
    "accumulation": D + (2 * D_LAST + WIDE),
    "persistent": (G + D) + 2 * (2 * D + 2 * G_LAST + WIDE),
    "validated": D + (2 * D_LAST + WIDE),
    "calls": 0,
}


class Op(NamedTuple):
    """One product of a part."""

    op_type: str
    flops: int
    layer: str | None
    pass_: str
    line: str


class Steps:
    """What graph.json says of the script."""

    def __init__(self, done: Run) -> None:
        self.done = done
        text = (done.folder.parent / "workload.py").read_text().splitlines()
        self._marks = {line.split("  # ")[1]: number for number, line in enumerate(text, 1) if "  # " in line}
        self.functions: list[dict[str, Any]] = json.loads((done.folder / "probe/graph.json").read_text())["functions"]

    def bodies(self, mark: str) -> list[list[Op]]:
        """Return the products of the part that begins in a marked line, one list for each body."""
        place = f":{self._marks[mark]}"
        found = [f for f in self.functions if f["executed_basis"] == "eager" and f["python_name"].endswith(place)]
        return [[_op(op) for op in f["ops"]] for f in found]

    def ops(self, mark: str) -> list[Op]:
        (body,) = self.bodies(mark)
        return body

    def line(self, mark: str) -> str:
        return f"workload.py:{self._marks[mark]}"


def _op(op: dict[str, Any]) -> Op:
    inside = op["input_shapes"][0][0 if op["attributes"].get("transpose_a") else -1] if op["op_type"] == "MatMul" else 0
    flops = 2 * math.prod(op["output_shapes"][0]) * inside
    return Op(op["op_type"], flops, op["layer"], op["pass"], op["called_from"].rpartition("/")[2])


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    done = run(tmp_path_factory.mktemp("eager"), SCRIPT, python=warm.python(), profile=False)
    assert (done.code, [g for g in done.seen["gaps"] if g["hook"] != "NVTX ranges"]) == (0, []), done.err
    yield Steps(done)


@pytest.mark.parametrize("mark", TRUTH)
def test_a_part_runs_what_a_hand_counts(steps: Steps, mark: str) -> None:
    assert sum(op.flops for op in steps.ops(mark)) == TRUTH[mark]


def test_one_line_over_two_models_has_the_products_of_both(steps: Steps) -> None:
    of_d = D + (2 * D_LAST + WIDE)
    of_g = (G + D) + (2 * D + 2 * G_LAST + WIDE)
    assert [sum(op.flops for op in body) for body in steps.bodies("one_line")] == [of_d, of_g]


def test_nested_tapes_are_one_part(steps: Steps) -> None:
    """Forward 2; the inner tape 2 of each layer; the outer one differentiates both, 3 of each layer altogether."""
    ops = steps.ops("nested")
    assert len(ops) == 2 + 4 + 6
    assert Counter((op.layer or "").rpartition("/")[2] for op in ops) == {"m_a": 6, "m_b": 6}


def test_a_function_under_a_tape_counts_once_a_step(steps: Steps) -> None:
    called = [f for f in steps.functions if f["executed_basis"] != "eager"]
    assert sorted(f["name"].partition("_<lambda>")[0] for f in called) == ["__backward", "__inference"]
    assert all(f["training"] for f in called)


def test_a_loop_without_layers_has_passes_and_lines(steps: Steps) -> None:
    matmul, conv = steps.line("raw matmul"), steps.line("raw conv")
    assert [(op.op_type, op.pass_, op.layer, op.line) for op in steps.ops("raw")] == [
        ("MatMul", "forward", None, matmul),
        ("Conv2D", "forward", None, conv),
        ("Conv2DBackpropInput", "dgrad", None, conv),
        ("Conv2DBackpropFilter", "wgrad", None, conv),
        ("MatMul", "wgrad", None, matmul),
        ("MatMul", "forward", None, steps.line("raw outside")),
    ]


def test_a_variable_that_is_not_trained_is_a_weight_as_well(steps: Steps) -> None:
    passes = Counter((op.op_type, op.pass_) for op in steps.ops("raw later"))
    assert passes == {
        ("Conv2D", "forward"): 2,
        ("Conv2DBackpropInput", "dgrad"): 2,
        ("Conv2DBackpropFilter", "wgrad"): 2,
    }


def test_a_variable_of_unknown_shape_costs_no_step(steps: Steps) -> None:
    assert Counter(op.pass_ for op in steps.ops("shapeless")) == {"forward": 1, "wgrad": 1}


def test_every_layer_has_its_three_passes(steps: Steps) -> None:
    passes: dict[str, Counter[str]] = {}
    for op in steps.ops("layers"):
        assert op.layer is not None
        passes.setdefault(op.layer.partition("/")[2], Counter())[op.pass_] += 1
    three = {"forward": 1, "dgrad": 1, "wgrad": 1}
    assert passes == {
        "up": {"forward": 1, "dgrad": 1, "wgrad": 1},
        "sep": {"forward": 2, "dgrad": 2, "wgrad": 2},
        "heads": {"forward": 2, "dgrad": 4},
        **{f"heads/{name}": three for name in ("query", "key", "value", "attention_output")},
        **dict.fromkeys(("deep", "lines", "last", "up3", "deep3", "said"), three),
    }
