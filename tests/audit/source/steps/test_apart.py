"""What trains together is one step: each `fit`, each loop, each model that nothing trains."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source, read_model, read_steps
from tcprobe.schema.model import Model

HEAD = """import keras, tensorflow as tf
from keras import layers
from elsewhere import other, unknown
def net(*units):
    return keras.Sequential([keras.Input((64,)), *(layers.Dense(u) for u in units)])
a, b = net(8, 16), net(24)
x, y = data()
"""
TAPE = """@tf.function
def step(model, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


def steps(text: str) -> list[Model]:
    return read_steps(parse_source(HEAD + text, "/model.py"))


def units(text: str) -> list[list[int]]:
    """Return the units of the layers of each step."""
    return [[layer.config["units"] for layer in model.layers if layer.kind == "Dense"] for model in steps(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.fit(x, y)\nb.fit(x, y)", [[8, 16], [24]]),
        ("for m in (a, b):\n    m.fit(x, y)", [[8, 16], [24]]),
        ("for epoch in range(3):\n    a.fit(x, y)", [[8, 16]]),
        ("def train(m):\n    m.fit(x, y)\ntrain(a)\ntrain(b)", [[8, 16], [24]]),
        ("for n in (8, 32):\n    m = net(n)\n    m.fit(x, y)", [[8], [32]]),
        ("for fold in range(5):\n    m = net(8)\n    m.fit(x, y)", [[8]]),  # the same again is no other step
        # a layer of two models is in the step of each
        ("a.fit(x, y)\nkeras.Sequential([a, b]).fit(x, y)", [[8, 16], [8, 16, 24]]),
        ("a.fit(x, y)\n" + TAPE + "for x in x:\n    step(b, x)", [[8, 16], [24]]),
        # loops, one after another, and one around both
        (TAPE + "for x in x:\n    step(a, x)\nfor x in x:\n    step(b, x)", [[8, 16], [24]]),
        (TAPE + "for x in x:\n    step(a, x)\n    step(b, x)", [[8, 16, 24]]),
        (TAPE + "for i in range(8):\n    step(b if i % 2 else a, x)", [[8, 16, 24]]),
        (TAPE + "for n in (8, 32):\n    m = net(n)\n    for x in x:\n        step(m, x)", [[8], [32]]),
        ("z = keras.Input((64,))\ngan = keras.Model(z, b(a(z)))\n"
         "while True:\n    b.train_on_batch(x, y)\n    gan.train_on_batch(x, y)", [[8, 16, 24]]),
        # nothing trains: a model that others are part of is one with them
        ("", [[8, 16], [24]]),
        ("c = keras.Sequential([a, b])", [[8, 16, 24]]),
        # what is trained is not known, or somewhere else
        ("a.fit(x, y)\nother(b)", [[8, 16], [24]]),
        ("a.fit(x, y)\nunknown().fit(x, y)", [[8, 16], [24]]),
    ],
)  # fmt: skip
def test_what_trains_together_is_one_step(text: str, found: list[list[int]]) -> None:
    assert units(text) == found


def test_a_layer_in_no_model_is_in_the_step_of_the_layers_next_to_it() -> None:
    """The merging layer feeds on the second step's layer, and on one that is only linked with the first's."""
    text = """def trained(n):
    z = keras.Input((64,))
    h = layers.Dense(n)(z)
    keras.Model(z, h).fit(x, y)
    return h
other(layers.Concatenate()([layers.Dense(48)(trained(32)), trained(40)]))
"""
    found = [[layer.name for layer in model.layers] for model in steps(text)]
    assert found == [["dense_3", "dense_4"], ["concatenate", "dense_5"]]


def test_a_model_that_nothing_trains_is_not_judged_beside_one_that_is() -> None:
    (model,) = steps("a.fit(x, b.predict(x))")
    assert [layer.config["units"] for layer in model.layers] == [8, 16]
    (unseen,) = model.unseen
    assert (unseen.what, unseen.reason) == ("Sequential at model.py:5", "a model that nothing here trains")


def test_an_object_that_is_a_functional_model_is_trained_as_one() -> None:
    text = "class Own(keras.Model):\n    pass\nz = keras.Input((64,))\nOwn(z, layers.Dense(40)(z)).fit(x, y)\n"
    assert units(text + "b.fit(x, y)\n") == [[40], [24]]


def test_models_of_an_own_class_train_together() -> None:
    init = "    def __init__(self, g, d):\n        super().__init__()\n        self.parts = [g, d]\n"
    text = "class Gan(keras.Model):\n" + init
    assert units(text + "Gan(a, b).fit(x, y)") == [[8, 16, 24]]


def test_pretraining_and_fine_tuning_are_two_steps_of_one_model() -> None:
    first, second = steps(
        "a.trainable = False\nm = keras.Sequential([a, b])\nm.fit(x, y)\na.trainable = True\nm.fit(x, y)"
    )
    assert [layer.trainable for layer in first.layers] == [False, False, True]
    assert [layer.trainable for layer in second.layers] == [True, True, True]
    # of what is frozen the forward pass, with no gradient of what goes in
    assert [p.op for p in first.products] == [f"dense{n}/forward" for n in ("", "_1", "_2")] + ["dense_2/wgrad"]
    assert len(second.products) == 8


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        ("a.fit(x, y, batch_size=64)\nb.fit(x, y, batch_size=256)", [64, 256]),
        ("a.fit(x, y, 64)\nb.fit(x, y, epochs=2)", [64, 32]),
        ("def train(m, size):\n    m.fit(x, y, batch_size=size)\ntrain(a, 64)\ntrain(b, 256)", [64, 256]),
        ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--batch', type=int, default=48)\n"
         "o = p.parse_args()\na.fit(x, y, batch_size=o.batch)\nb.fit(tf.data.Dataset.load('x').batch(o.batch))",
         [48, 48]),
        (TAPE + "for i in range(9):\n    step(a, tf.random.normal((96, 64)))\nb.fit(x, y, batch_size=8)", [96, 8]),
    ],
)  # fmt: skip
def test_a_step_has_its_own_batch(text: str, batches: list[int]) -> None:
    assert [(model.batch, model.batch_known) for model in steps(text)] == [(batch, True) for batch in batches]


def test_what_is_said_of_a_file_stands_with_its_first_step_and_labels_with_lines() -> None:
    found = steps("a.fit(x, y)\nb.fit(x, y)\nlayers.Dense(unknown())(keras.Input((3,)))\n")
    assert [model.label for model in found] == ["model.py:8", "model.py:9", "model.py"]
    assert [bool(model.unseen) for model in found] == [True, False, False]
    assert [steps("a.fit(x, y)\nother(b)")[0].label, steps("c = keras.Sequential([a, b])")[0].label] == [
        "model.py:8",
        "model.py",
    ]


def test_products_of_the_codes_own_are_in_the_step_that_runs_them() -> None:
    loop = (
        "w, v = (tf.Variable(tf.zeros((64, n))) for n in (8, 16))\nfor w in (w, v):\n    pass\n"
        "u = tf.Variable(tf.zeros((64, 40)))\nfor i in range(9):\n    with tf.GradientTape() as tape:\n"
        "        y = tf.matmul(tf.random.normal((32, 64)), u)\n"
    )
    first, second = steps("a.fit(x, y)\nother(b)\n" + loop)[:2]
    assert not any(p.layer is None for p in first.products)
    assert [p.record.output_shape for p in second.products] == [(32, 40), (64, 40)]


def test_all_of_a_file_is_one_model_where_it_is_asked_for_as_a_whole() -> None:
    (model,) = read_model(parse_source(HEAD + "a.fit(x, y)\nb.fit(x, y)", "/model.py"))
    assert len(model.layers) == 3


def test_a_loop_trains_what_was_not_frozen_when_it_ran() -> None:
    first, second = steps(TAPE + "for x in x:\n    step(a, x)\na.trainable = False\nkeras.Sequential([a, b]).fit(x, y)")
    assert [[layer.trainable for layer in model.layers] for model in (first, second)] == [
        [True] * 2,
        [False] * 2 + [True],
    ]


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("a(x)", 1),
        ("a(x), a(y)", 2),  # real and made images
        ("b(a(x)), a(x)", 2),
    ],
)
def test_a_model_counts_as_often_as_its_step_calls_it_with_data(calls: str, found: int) -> None:
    loop = f"a(x)\ndef step(x, y):\n    with tf.GradientTape() as tape:\n        {calls}\nfor x in x:\n    step(x, y)\n"
    (model, *_) = steps(loop + "def sample(z):\n    return a(z)\nsample(x)\n")
    assert {layer.calls for layer in model.layers if layer.config["units"] != 24} == {found}


@pytest.mark.parametrize(
    ("calls", "again"), [("loss(a)\n        loss(a)", True), ("loss(a)\n        loss(b)", False), ("loss(a)", False)]
)
def test_a_function_that_a_step_calls_again_counts_once_and_is_said_to(calls: str, again: bool) -> None:
    """As the losses of a GAN under each of its tapes; one for another model, or without a gradient, is no second."""
    text = f"""def loss(model):
    return tf.reduce_mean(model(x))
@tf.function
def train():
    with tf.GradientTape(persistent=True) as tape:
        {calls}
def evaluate():
    return loss(a)
for _ in range(9):
    train()
evaluate()
"""
    (note,) = steps(text)[0].notes or [""]
    assert ("a step calls loss several times" in note) == again


def test_a_loss_that_is_not_known_is_no_model_that_may_be_trained() -> None:
    text = TAPE.replace("tf.reduce_mean(model(x))", "%s(model(x))") + "for x in x:\n    step(a, x)\nb(x)"
    assert [len(steps(text % name)) for name in ("unknown().loss", "unknown().net")] == [1, 2]
