"""TC205: policies that are set after layers were built."""

from __future__ import annotations

import pytest

from tcprobe.schema.model import Layer, Place
from tests.rules.precision.builders import FILE, HEAD, dense, found, said, subject

SET = 'mixed_precision.set_global_policy("mixed_float16")\n'
MODEL = "model = keras.Sequential([layers.Dense(512), layers.Dense(10)])\n"
BUILD = "def build():\n    x = inputs = keras.Input((8,))\n    return keras.Model(inputs, layers.Dense(64)(x))\n\n"


def test_layers_before_the_policy_are_a_warning_at_the_policy() -> None:
    (finding,) = found("TC205", subject(HEAD + MODEL + SET + "model.compile('adam', 'mse')\n"))
    assert finding.severity == "warning"
    assert finding.place is not None
    assert finding.place.line == 5
    assert [place.line for place, _ in finding.related] == [4, 4]


@pytest.mark.parametrize(
    "text",
    [
        BUILD + "model = build()\n" + SET + "model.compile('adam', 'mse')\n",
        "def main(args):\n    " + MODEL + "    if args.fast:\n        " + SET + "    model.fit(x)\n",
        "base = keras.applications.ResNet50(weights=None)\n" + SET + "m = keras.Sequential([base, layers.Dense(4)])\n",
        "with tf.device('cpu'):\n    " + MODEL + SET + "model.fit(x)\n",
    ],
)
def test_certain_orders_are_found(text: str) -> None:
    assert len(said("TC205", subject(HEAD + text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        SET + MODEL,
        BUILD + SET + "model = build()\n",
        BUILD + "def main():\n    " + SET + "    return build()\n\nmain()\n",
        MODEL + 'mixed_precision.set_global_policy("float32")\nmodel.fit(x)\n',
        MODEL + "mixed_precision.set_global_policy(name)\nmodel.fit(x)\n",
        "slow = keras.Sequential([layers.Dense(8)])\nslow.fit(x)\n" + SET + "fast = imported()\nfast.fit(x)\n",
        SET + MODEL + SET + "model.fit(x)\n",
        "augment = keras.Sequential([layers.RandomFlip(), layers.Rescaling(1 / 255)])\n" + SET + MODEL,
        "prepare = keras.Sequential([layers.HashedCrossing(9), layers.MixUp()])\n" + SET + "fit(prepare)\n",
        'model = keras.Sequential([layers.Dense(512, dtype="mixed_float16")])\n' + SET + "model.fit(x)\n",
        "if slow:\n    " + MODEL + "else:\n    " + SET + "model.fit(x)\n",
        # A comparison of precisions: each model is built under its own policy.
        BUILD + "slow = build()\nslow.fit(x)\n" + SET + "fast = build()\nfast.fit(x)\n",
        "class Net(keras.Model):\n    def __init__(self):\n        self.d = layers.Dense(4)\n\n" + SET + "n = Net()\n",
    ],
)
def test_right_or_uncertain_orders_are_silent(text: str) -> None:
    assert said("TC205", subject(HEAD + text)) == []


@pytest.mark.parametrize("text", ["@{}def step():\n    pass\n", "def step(policy={}): ...\n"])
def test_a_policy_set_where_a_function_is_made_stands_before_its_block(text: str) -> None:
    set_here = text.format(SET if text.startswith("@") else SET.strip())
    assert said("TC205", subject(HEAD + MODEL + set_here + "model.fit(x)\n")) == ["5 warning"]


def test_traced_layers_decide() -> None:
    text = HEAD + MODEL + SET + "model.fit(x)\n"
    half, product = dense("d", 8, 512, dtype="float16", arguments={"units": Place(FILE, 4)})
    full, slow = dense("d", 8, 512, dtype="float32", arguments={"units": Place(FILE, 4)})
    settings = {"mode": "traced", "policy": "mixed_float16"}
    assert said("TC205", subject(text, layers=(half,), products=(product,), **settings)) == []
    assert said("TC205", subject(text, layers=(full,), products=(slow,), **settings)) == ["5 error"]


def test_traced_layers_show_what_the_syntax_does_not() -> None:
    text = HEAD + "for units in sizes:\n    stack.append(layers.Dense(units))\nif fast:\n    " + SET
    layer, product = dense("d", 8, 512, dtype="float32", place=Place(FILE, 5), arguments={"units": Place(FILE, 5)})
    given = subject(text, mode="traced", policy="mixed_float16", layers=(layer,), products=(product,))
    (finding,) = found("TC205", given)
    assert finding.place is not None
    assert finding.place.line == 7
    asked = text.replace("Dense(units)", "Dense(units, dtype='float32')")
    silent = subject(asked, mode="traced", policy="mixed_float16", layers=(layer,), products=(product,))
    assert said("TC205", silent) == []


def test_a_layer_without_products_proves_nothing() -> None:
    layer = Layer("bn", "BatchNormalization", "BatchNormalization", dtype="float32", arguments={"axis": Place(FILE, 4)})
    given = subject(HEAD + MODEL + SET + "model.fit(x)\n", mode="traced", policy="mixed_float16", layers=(layer,))
    assert said("TC205", given) == []


def test_what_it_costs_is_that_of_the_layers_in_float32() -> None:
    full, slow = dense("d", 4096, 4096, dtype="float32", arguments={"units": Place(FILE, 4)})
    given = subject(HEAD + MODEL + SET + "model.fit(x)\n", layers=(full,), products=(slow,))
    (finding,) = found("TC205", given)
    assert (finding.severity, finding.basis) == ("error", "predicted")
    assert finding.saving_ns is not None
    # 34 GFLOP take 0.22 ms at TF32's peak of 156 TFLOP/s and 0.11 ms at float16's 312
    assert 80_000 < finding.saving_ns.mid < 250_000
    without = subject(HEAD + MODEL + SET + "model.fit(x)\n", gpu="gtx1080ti", layers=(full,), products=(slow,))
    (finding,) = found("TC205", without)
    assert (finding.severity, finding.saving_ns) == ("warning", None)


def test_dtypes_read_from_the_source_may_speak_against_it() -> None:
    text = HEAD + MODEL + SET + "model.fit(x)\n"
    half, _ = dense("d", 8, 512, dtype="float16", arguments={"units": Place(FILE, 4)})
    full, _ = dense("e", 8, 512, dtype="float32", arguments={"units": Place(FILE, 4)})
    assert said("TC205", subject(text, layers=(half,))) == []
    assert said("TC205", subject(text, layers=(half, full))) == ["5 warning"]
