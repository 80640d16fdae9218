"""Source mode on what public code does: options, data sets, arrays, functions that are handed on."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.operators import AT_DEFAULTS
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.schema.model import Model

HEAD = "import argparse\nimport numpy as np\nimport tensorflow as tf\nimport keras\nfrom keras import layers\n"
PARSER = HEAD + "parser = argparse.ArgumentParser()\n"


def read(text: str) -> Model:
    (model,) = read_model(parse_source(text, "/model.py"))
    return model


def outputs(model: Model) -> list[tuple[int | None, ...] | None]:
    return [layer.output_shape for layer in model.layers]


@pytest.mark.parametrize(
    ("option", "read_as", "size"),
    [
        ('"--units", type=int, default=4090', "args.units", 4090),
        ('"-u", "--hidden-units", default=63', "args.hidden_units", 63),
        ('"--units", dest="width", default=63', "args.width", 63),
        ('"--units", type=int, default="63"', "args.units", 63),  # argparse makes a number of it
        ('"--units", type=str, default=63', "args.units", 63),
        ('"units", nargs="?", default=7', 'vars(args)["units"]', 7),
        ('"--wide", action="store_true"', "100 if args.wide else 63", 63),
        ('"--narrow", action="store_false"', "100 if args.narrow else 63", 100),
    ],
)
def test_options_at_their_defaults(option: str, read_as: str, size: int) -> None:
    model = read(PARSER + f"parser.add_argument({option})\nargs = parser.parse_args()\nlayers.Dense({read_as})\n")
    assert model.layers[0].config["units"] == size
    assert not [u for u in model.unseen if u.what.endswith("units")]
    assert AT_DEFAULTS in model.notes or "vars" in read_as


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ('"--units", type=int', "--units has no default"),
        ('"--units", type=int, required=True, default=None', "--units has no default"),
        ('"units", type=int', "units has no default"),
        ('"--units", type=parse, default="63"', "--units is made from a text"),
        ('"--units", type=int, default="many"', "--units is made from a text"),
        ('"--width", type=int, default=63', "units is no option that was seen"),
        ("*names, default=63", "has options of names that are not known"),
    ],
)
def test_options_that_are_not_known(option: str, reason: str) -> None:
    text = PARSER + "def parse(text): return int(text) * 2\nnames = open('x').read().split()\n"
    model = read(text + f"parser.add_argument({option})\nargs = parser.parse_args()\nlayers.Dense(args.units)\n")
    assert "units" not in model.layers[0].config or model.layers[0].config["units"] is ...
    assert (f"Dense at model.py:{text.count(chr(10)) + 3}: units", reason) in [(u.what, u.reason) for u in model.unseen]
    assert AT_DEFAULTS not in model.notes


def test_options_in_groups_functions_and_known_parts() -> None:
    model = read(
        HEAD + "def options():\n    parser = argparse.ArgumentParser()\n    group = parser.add_argument_group('net')\n"
        "    group.add_argument('--units', type=int, default=60)\n    parser.set_defaults(depth=2)\n"
        "    return parser.parse_known_args()[0]\n"
        "def build(args):\n    return keras.Sequential([keras.Input((8,))] + [layers.Dense(args.units)] * args.depth)\n"
        "build(options())\n"
    )  # fmt: skip
    assert [layer.config["units"] for layer in model.layers] == [60]


def test_an_option_that_is_set_under_a_condition_is_not_known() -> None:
    text = PARSER + "parser.add_argument('--units', type=int, default=60)\nargs = parser.parse_args()\n"
    model = read(text + "if keras.backend.backend() == 'jax':\n    args.units = 70\nlayers.Dense(args.units)\n")
    assert model.layers[0].config["units"] is ...


@pytest.mark.parametrize("module", ["from absl import flags", "flags = tf.compat.v1.flags"])
def test_flags_of_absl(module: str) -> None:
    model = read(
        HEAD + module + "\nFLAGS = flags.FLAGS\nflags.DEFINE_integer('units', 4090, 'units')\n"
        "WIDTH = flags.DEFINE_integer('width', default=63, help='width')\nflags.DEFINE_integer('depth', None, '')\n"
        "layers.Dense(FLAGS.units)\nlayers.Dense(WIDTH.value)\nlayers.Dense(FLAGS.depth)\nlayers.Dense(FLAGS.other)\n"
    )
    assert [layer.config["units"] for layer in model.layers] == [4090, 63, ..., ...]
    assert [u.reason for u in model.unseen if u.what.endswith("units")] == [
        "--depth has no default",
        "other is no option that was seen",
    ]
    assert AT_DEFAULTS in model.notes


@pytest.mark.parametrize(
    ("prepared", "shape"),
    [
        ("x.reshape((60000, 28 * 28)).astype('float32') / 255", (None, 784)),
        ("x.reshape(-1, 784)", (None, 784)),
        ("np.reshape(x, (-1, 28, 28, 1))", (None, 28, 28, 1)),
        ("x[..., np.newaxis] / 255.0", (None, 28, 28, 1)),
        ("x[:100, :, :, None]", (None, 28, 28, 1)),
        ("np.expand_dims(x, -1)", (None, 28, 28, 1)),
        ("tf.expand_dims(x, axis=3)", (None, 28, 28, 1)),
        ("np.expand_dims(x, 1)", (None, 1, 28, 28)),
        ("np.concatenate([x, tests])", (None, 28, 28)),
        ("np.array(x)[:, :14]", (None, 14, 28)),
        ("x[:9, 4:, ::2]", (None, 24, 14)),
        ("x[:, -8:len(order)]", (None, None, 28)),
        ("x[:, 30:]", (None, None, 28)),
        ("x[0]", (28, 28)),
        ("x[order]", None),
        ("x[0, 0, 0, 0]", None),
        ("np.expand_dims(x, where)", None),
    ],
)
def test_data_sets_of_keras(prepared: str, shape: tuple[int | None, ...] | None) -> None:
    model = read(
        HEAD + "(x, y), (tests, _) = keras.datasets.mnist.load_data()\norder = np.random.permutation(9)\n"
        f"where = len(order)\nlayers.Activation('relu')({prepared})\n"
    )
    assert outputs(model) == [shape]


def test_data_that_a_model_is_fitted_on_builds_it() -> None:
    model = read(
        HEAD + "(x, y), (a, b) = keras.datasets.cifar10.load_data()\n"
        "model = keras.Sequential([layers.Flatten(), layers.Dense(63), layers.Dense(10)])\nmodel.fit(x, y)\n"
    )
    assert outputs(model) == [(None, 3072), (None, 63), (None, 10)]
    assert outputs(read(HEAD + "x, y = keras.datasets.reuters.load_data()\nlayers.Dense(3)(x)\n")) != [(None, 3)]


def test_a_part_of_the_features_is_nobodys_output() -> None:
    """What takes 16 of 63 features need not change with them."""
    model = read(
        HEAD + "i = keras.Input((8,))\nx = layers.Dense(63)(i)\ny = layers.Dense(8)(x[:, :16])\n"
        "z = layers.Dense(8)(x[:, None, :])\nkeras.Model(i, [y, z])\n"
    )
    assert [layer.inputs_from for layer in model.layers] == [(), (), ("dense",)]


def test_a_function_that_is_handed_on_may_be_called_before_the_policy_is_set() -> None:
    """A tuner builds its models at once; the policy at the end of the file is not theirs."""
    text = (
        HEAD + "def build(hp):\n    return keras.Sequential([keras.Input((8,)), layers.Dense(10)])\n"
        "tuner = Tuner(build)\nkeras.mixed_precision.set_global_policy('mixed_float16')\n"
    )
    assert read(text).layers[0].dtype is None
    assert read(text.replace("Tuner(build)", "Tuner()")).layers[0].dtype == "float16"
    inside = text.replace("def build(hp):\n    return", "class Hyper:\n  def build(self, hp):\n    return")
    assert read(inside.replace("Tuner(build)", "Tuner(Hyper())")).layers[0].dtype is None


def test_a_traced_function_is_followed() -> None:
    model = read(HEAD + "d = layers.Dense(63)\ndef step(x):\n    return d(x)\ntf.function(step)(tf.zeros((4, 16)))\n")
    assert [layer.input_shapes for layer in model.layers] == [((None, 16),)]


def test_functions_of_keras_applications_are_no_models() -> None:
    model = read(HEAD + "x = keras.applications.vgg19.preprocess_input(x)\nkeras.applications.VGG19()\n")
    assert [u.what for u in model.unseen] == ["VGG19 at model.py:7"]


@pytest.mark.parametrize(
    ("test", "size"), [("startswith('mixed_')", 63), ("endswith('16')", 64), ("lower() == 'x'", 63)]
)
def test_tests_of_known_texts(test: str, size: int) -> None:
    model = read(HEAD + f"policy = 'float16'\nlayers.Dense(64 if policy.{test} else 63)\n")
    assert model.layers[0].config["units"] == size


def test_what_another_function_calls_is_entered_from_there() -> None:
    """A module that only defines: its blocks stand above what calls them, with the sizes."""
    model = read(
        HEAD + "def block(x, units):\n    return layers.Dense(units)(x)\n"
        "class Head(layers.Layer):\n    def __init__(self, units):\n        super().__init__()\n"
        "        self.dense = layers.Dense(units)\n    def call(self, x):\n        return block(self.dense(x), 16)\n"
        "def build():\n    i = keras.Input((8,))\n    return keras.Model(i, Head(10)(block(i, 63)))\n"
    )
    assert outputs(model) == [(None, 10), (None, 63), (None, 16)]
    assert model.unseen == ()


APPLICATION = """
from keras_applications.imagenet_utils import _obtain_input_shape
from keras import backend as K

def net(input_shape=None, include_top=True, weights="imagenet"):
    shape = _obtain_input_shape(
        input_shape, default_size=331, min_size=32, data_format=K.image_data_format(), require_flatten=include_top
    )
    return layers.Conv2D(8, 3)(layers.Input(shape=shape))

net(%s)
"""


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ("", (None, 331, 331, 3)),
        ("include_top=False", (None, None, None, 3)),
        ("(96, 96, 1), False", (None, 96, 96, 1)),
        ("size()", (None, None, None, None)),
        ("include_top=size()", (None, None, None, None)),
    ],
)
def test_the_default_input_of_a_model_like_those_of_keras_applications_is_known(given: str, shape: object) -> None:
    (layer,) = read(HEAD + APPLICATION % given).layers
    assert layer.input_shapes == (shape,)
