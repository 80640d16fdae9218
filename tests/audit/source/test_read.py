"""Models read from source: styles of writing, what is not known, and what is never done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.layers import snake
from tcprobe.audit.source.operators import AT_DEFAULTS
from tcprobe.audit.source.read import parse_source, read_model, read_source, with_arguments
from tcprobe.schema.model import Layer, Model, Place, Product
from tests.support import ROOT

SCRIPTS = Path(__file__).parent / "scripts"
HEAD = "import tensorflow as tf\nfrom tensorflow import keras\nfrom tensorflow.keras import layers\n"


def read(text: str, batch: int | None = None) -> Model:
    (model,) = read_model(parse_source(HEAD + text, "/model.py"), batch)
    return model


def rows(model: Model) -> list[tuple[str, Any, Any]]:
    """Return name, first input shape and output shape of every layer."""
    return [(x.name, x.input_shapes[0] if x.input_shapes else None, x.output_shape) for x in model.layers]


def unseen(model: Model) -> list[tuple[str, str]]:
    return [(u.what, u.reason) for u in model.unseen]


def test_the_gan_at_the_defaults_of_its_command_line() -> None:
    """--sizes is good and --precision tf32 where nothing is said, and the notes say that this is so."""
    (model,) = read_model(read_source(ROOT / "workloads/train_gan.py"))
    assert model.label == "train_gan.py" and model.mode == "source"
    shapes = {name: (given, out) for name, given, out in rows(model)}
    assert shapes["dense"] == ((None, 100), (None, 3136))
    assert shapes["conv2d_5"] == ((None, 14, 14, 24), (None, 14, 14, 64))
    assert shapes["dense_1"] == ((None, 1152), (None, 1))
    assert not [what for what, _ in unseen(model) if what.endswith((": filters", ": units"))]
    assert AT_DEFAULTS in model.notes
    assert model.layer("activation_1").dtype == "float32"  # type: ignore[union-attr]
    assert not model.batch_known and model.batch == 1024


def test_a_function_that_nothing_calls_has_its_defaults() -> None:
    model = read("def build(units=63, depth=2):\n    m = keras.Sequential([keras.Input((8,))])\n"
                 "    for _ in range(depth):\n        m.add(layers.Dense(units))\n    return m\n")  # fmt: skip
    assert rows(model) == [("dense", (None, 8), (None, 63)), ("dense_1", (None, 63), (None, 63))]
    assert model.unseen == ()


def test_a_default_is_that_of_the_definition_and_one_object_for_all_calls() -> None:
    model = read("n = 64\ndef build(k=n):\n    return layers.Dense(k)(keras.Input((8,)))\nn = 63\nbuild()\n")
    assert [layer.config["units"] for layer in model.layers] == [64]
    counted = (
        "def build(c={'n': 63}):\n    layers.Dense(c['n'])(keras.Input((8,)))\n    c['n'] += 1\nbuild()\nbuild()\n"
    )
    assert [layer.config["units"] for layer in read(counted).layers] == [63, 64]


def test_a_function_with_an_argument_says_so_once_per_call() -> None:
    model = read("def build(units, x):\n    for _ in range(3):\n        x = layers.Dense(units)(x)\n    return x\n")
    assert [layer.config["units"] for layer in model.layers] == [...] * 3
    assert unseen(model) == [("Dense at model.py:6: units", "units comes from a function argument")]
    assert model.unseen[0].place == Place("/model.py", 6, 26, 6, 31)


def test_a_size_is_known_where_its_input_is_not() -> None:
    model = read("def block(x):\n    x = layers.Conv2D(31, 3)(x)\n    return layers.Dense(7)(layers.Dense(9)(x))")
    conv, seven, nine = model.layers
    assert conv.input_shapes == ((None, None, None, None),) and conv.output_shape == (None, None, None, 31)
    assert nine.input_shapes == ((None, None, None, 31),)
    assert nine.inputs_from == ("conv2d",) and seven.inputs_from == ("dense_1",)
    assert unseen(model) == [("Conv2D at model.py:5: its input", "its size is not known")]
    records = [p.record for p in model.products if p.layer == "dense" and p.record.pass_ == "forward"]
    assert records[0].input_shapes[1] == (9, 7)


def test_dense_on_an_input_of_unknown_rank_has_no_rows() -> None:
    model = read("m = keras.Sequential([layers.Dense(64), layers.Dense(63)])")
    first, second = model.layers
    assert first.input_shapes == () and first.output_shape is None
    assert second.input_shapes == ((None, None, 64),) and second.output_shape is None
    (forward,) = [p.record for p in model.products if p.layer == "dense_1" and p.record.pass_ == "forward"]
    assert forward.input_shapes == ((None, 64), (64, 63))


def test_branches_that_are_not_known() -> None:
    text = "inputs = keras.Input((8,))\nif flag:\n    x = layers.Dense(%d)(inputs)\nelse:\n"
    text += "    x = layers.Dense(%d)(inputs)\ny = layers.Dense(5)(x)\n"
    same = read(text % (16, 16)).layers[-1]
    assert same.input_shapes == ((None, 16),) and same.inputs_from == ("dense", "dense_1")
    assert read(text % (16, 17)).layers[-1].input_shapes == ((None, None),)


def test_a_constant_condition_chooses() -> None:
    model = read("DEEP = False\nx = keras.Input((8,))\nif DEEP:\n    x = layers.Dense(5)(x)\nx = layers.Dense(6)(x)\n")
    assert rows(model) == [("dense", (None, 8), (None, 6))]
    assert unseen(model) == [("Dense at model.py:7", "nothing was seen to reach it")]


def test_an_early_return() -> None:
    model = read(
        "def build(x, small=True):\n    if small:\n        return layers.Dense(3)(x)\n    return layers.Dense(4)(x)\n"
        "y = build(keras.Input((8,)))\nz = layers.Dense(1)(y)\n"
    )
    assert rows(model)[-1] == ("dense_1", (None, 3), (None, 1))


def test_a_loop_of_unknown_length() -> None:
    model = read("n = 8\nx = keras.Input((8,))\nfor i in range(k):\n    x = layers.Dense(n)(x)\n    n *= 2\n")
    assert [layer.config["units"] for layer in model.layers] == [...]
    assert ("Dense: how many there are at model.py:7", "it is made in a loop whose length is not known") in unseen(
        model
    )
    assert ("Dense at model.py:7: units", "n changes in a loop") in unseen(model)


def test_layers_in_lists_and_dictionaries() -> None:
    model = read(
        "class M(keras.Model):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = {'a': layers.Dense(3), 'b': [layers.Dense(n) for n in (4, 5)]}\n"
        "    def call(self, x):\n        x = self.parts['a'](x)\n        for part in self.parts['b']:\n"
        "            x = part(x)\n        return x\n"
        "m = M()\nm.build((None, 8))\n"
    )
    assert rows(model) == [
        ("dense", (None, 8), (None, 3)),
        ("dense_1", (None, 3), (None, 4)),
        ("dense_2", (None, 4), (None, 5)),
    ]
    assert [(x.is_first, x.is_last) for x in model.layers] == [(True, False), (False, False), (False, True)]


def test_a_subclassed_model_that_nothing_calls() -> None:
    model = read(
        "class M(keras.Model):\n    def __init__(self, units=63):\n        super().__init__()\n"
        "        self.a = layers.Dense(units)\n        self.b = layers.Dense(10)\n"
        "    def call(self, x):\n        return self.b(self.a(x))\n"
    )
    assert [x.config["units"] for x in model.layers] == [63, 10]
    assert model.layers[1].inputs_from == ("dense",)
    assert model.layers[1].input_shapes == ((None, None, 63),)
    assert [x.is_last for x in model.layers] == [False, True]


def test_a_class_that_extends_a_layer_of_keras_is_not_guessed() -> None:
    model = read("class Mine(layers.Dense):\n    pass\nx = Mine(63)(keras.Input((8,)))\ny = layers.Dense(4)(x)\n")
    assert [layer.name for layer in model.layers] == ["dense"]
    assert model.layers[0].is_first is None
    assert ("Mine at model.py:6", "inherits from Dense in this file, and is not guessed at") in unseen(model)


def test_a_ready_made_model_is_not_guessed() -> None:
    model = read(
        "base = tf.keras.applications.ResNet50()\nx = base(keras.Input((224, 224, 3)))\ny = layers.Dense(7)(x)\n"
    )
    assert ("ResNet50 at model.py:4", "a ready-made model, known only by running it") in unseen(model)
    assert model.layers[0].is_first is None and model.layers[0].inputs_from == ()


def test_layers_of_a_shared_model_count_each_call() -> None:
    (model,) = read_model(read_source(SCRIPTS / "shared.py"))
    assert [layer.calls for layer in model.layers] == [2, 2, 1, 1, 1, 1]
    decoder = model.layers[-1]
    assert decoder.inputs_from == ("dense_3",) and decoder.is_first is False and decoder.is_last is True
    assert model.layers[-2].is_last is False
    assert (model.batch, model.batch_known) == (100, True)


def test_frozen_layers() -> None:
    model = read(
        "a = layers.Dense(3, trainable=False)\nb = layers.Dense(4)\nb.trainable = False\n"
        "c = layers.Dense(5, trainable=x)\n"
        "m = keras.Sequential([keras.Input((8,)), layers.Dense(6)])\nm.trainable = False\nd = layers.Dropout(0.5)\n"
    )
    assert [layer.trainable for layer in model.layers] == [False, False, None, False, False]
    assert {p.record.pass_ for p in model.products if p.layer == "dense_3"} == {"forward"}


POLICIES = [
    ("", "float32", ("float32", "float32")),
    ("tf.keras.mixed_precision.set_global_policy('mixed_float16')\n", "mixed_float16", ("float16", "float32")),
    ("P = 'mixed_bfloat16'\nkeras.config.set_dtype_policy(P)\n", "mixed_bfloat16", ("bfloat16", "float32")),
    ("p = keras.mixed_precision.Policy('mixed_float16')\nkeras.mixed_precision.set_global_policy(p)\n",
     "mixed_float16", ("float16", "float32")),
    ("keras.mixed_precision.set_global_policy(x)\n", None, (None, None)),
    ("if x:\n    keras.mixed_precision.set_global_policy('mixed_float16')\n", None, (None, None)),
    ("keras.backend.set_floatx('float16')\n", "float16", ("float16", "float16")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "policy", "dtypes"), POLICIES)
def test_policies(text: str, policy: str | None, dtypes: tuple[str | None, str | None]) -> None:
    model = read(
        text + "a = layers.Dense(3)\nb = layers.Dense(4, dtype='float32')\nc = layers.Dense(4, dtype=tf.float16)\n"
    )
    first, second, third = model.layers
    assert model.policy == policy and (first.dtype, first.variable_dtype) == dtypes
    assert second.dtype == "float32" and third.dtype == "float16"
    assert model.policy_assumed == (text == "")


BATCHES = [
    ("m.fit(x, y, batch_size=100)", 100),
    ("m.fit(x, y, 100)", 100),
    ("B = 64\nd = data.batch(B)\ne = other.batch(B, drop_remainder=True)", 64),
    ("keras.Input((3,), batch_size=32)", 32),
    ("g = TimeseriesGenerator(x, x, length=9, batch_size=8)\nm.fit(g)", None),  # nobody's
    ("g = keras.preprocessing.sequence.TimeseriesGenerator(x, x, length=9, batch_size=8)\nm.fit(g)", 8),
    ("from tensorflow.keras.utils import image_dataset_from_directory as load\nm.fit(load(p, batch_size=24))", 24),
    ("m.fit(g.flow_from_directory(p, batch_size=16), validation_data=g.flow_from_directory(q, batch_size=8))", None),
    ("m.fit(x, batch_size=100)\nn.fit(x, batch_size=50)", None),
    ("m.fit(x, batch_size=args.b)", None),
    ("m.compile('adam')\nm.fit(x, y)", 32),  # only beside arrays does fit take labels apart
    ("m.fit(x, y=y, epochs=3)", 32),
    ("m.fit(x, y, None, 3, validation_data=(a, b))", 32),
    ("m.fit(x, y, batch_size=None, epochs=3)", 32),
    ("m.fit(x, y, epochs=3)\nm.fit(x, y, batch_size=32)", 32),
    ("m.fit(x, y, epochs=3)\nn.fit(x, y, batch_size=64)", None),
    ("m.fit(x, y, epochs=3)\nn.fit(data.batch(64))", None),
    ("m.fit(data, epochs=3)", None),  # a dataset has its own
    ("m.fit(x, None, epochs=3)", None),
    ("m.fit(*data, epochs=3)", None),
    ("m.fit(x, y, **more)", None),
    ("m.fit(x, y, epochs=3, steps_per_epoch=10)", None),
    ("svc.fit(x, y)", None),  # another library's
    ("m.fit(x, 50, epochs=3)", None),
    ("class Trainer:\n    def fit(self, data, steps, epochs): ...\nm.fit(x, y, epochs=3)", None),
    ("m.fit(x)", None),
]


@pytest.mark.parametrize(("text", "batch"), BATCHES)
def test_batches(text: str, batch: int | None) -> None:
    model = read("a = layers.Dense(3)\n" + text)
    assert (model.batch, model.batch_known) == (batch or 1024, batch is not None)
    asked = read("a = layers.Dense(3)\n" + text, 7)
    assert (asked.batch, asked.batch_known) == (7, True)


def test_products_know_whose_features_they_take() -> None:
    (model,) = read_model(read_source(SCRIPTS / "residual.py"))
    fed = {p.layer: p.inputs_from for p in model.products if p.record.pass_ == "forward"}
    assert fed["conv2d_1"] == ("conv2d",)  # through BatchNormalization and ReLU
    assert fed["conv2d_3"] == ("conv2d_2", "conv2d_1")  # through the sum
    assert fed["dense"] == ("conv2d_8", "conv2d_7")  # through the pooling
    assert all(p.compiled is True for p in model.products)
    (model,) = read_model(read_source(SCRIPTS / "unet.py"))
    assert {p.layer: p.inputs_from for p in model.products}["conv2d_8"] == ()  # of a concatenation


def test_places_of_arguments_are_exact() -> None:
    source = read_source(SCRIPTS / "sequential.py")
    (model,) = read_model(source)
    dense = model.layer("dense")
    assert dense is not None and source.segment(dense.arguments["units"]) == "HIDDEN"
    conv = model.layer("conv2d_1")
    assert conv is not None and source.segment(conv.arguments["filters"]) == "2 * 32"


def test_arguments_of_a_wrapped_layer_belong_to_the_wrapper() -> None:
    source = read_source(SCRIPTS / "recurrent.py")
    (model,) = read_model(source)
    wrapper = model.layer("bidirectional")
    assert wrapper is not None and source.segment(wrapper.arguments["units"]) == "sizes.units"
    assert wrapper.config["layer"]["config"]["units"] == 65
    assert model.layer("lstm") is None


@pytest.mark.parametrize("text", ["", "x = 1\n", "print('hello')\n"])
def test_a_file_without_layers_has_no_model(text: str) -> None:
    assert read_model(parse_source(text, "/model.py")) == []


def test_a_program_too_long_to_follow_says_so() -> None:
    text = "def g(d, x):\n" + "    x = layers.Dense(3)(x)\n" * 40
    calls = "".join(f"for i{n} in range(60):\n    g(0, keras.Input((3,)))\n" for n in range(9))
    model = read(text + calls)
    assert any("too long to be followed" in note for note in model.notes)


def test_nothing_is_executed_or_imported(tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    sentinel.touch()
    path = tmp_path / "model.py"
    path.write_text(
        f"import os, mine_{tmp_path.name.replace('-', '_')}\nos.remove({str(sentinel)!r})\n"
        "from keras import layers\nUNITS = [os.remove(p) or 63 for p in ('sentinel',)]\n"
        "m = layers.Dense(eval('63'))(exec('import os'))\nn = layers.Dense(63)\n"
    )
    (tmp_path / "keras.py").write_text(f"import os\nos.remove({str(sentinel)!r})\n")
    before = set(sys.modules)
    (model,) = read_model(read_source(path))
    assert sentinel.exists() and set(sys.modules) == before
    assert [layer.config["units"] for layer in model.layers] == [..., 63]


def test_the_path_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom tcprobe.audit.source.read import read_model, read_source\n"
        f"read_model(read_source({str(SCRIPTS / 'residual.py')!r}))\n"
        "heavy = {'numpy', 'pandas', 'tensorflow', 'keras', 'libcst', 'tcprobe.schema.tables'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Conv2DTranspose", "conv2d_transpose"), ("ReLU", "re_lu"), ("LSTM", "lstm"), ("MaxPooling1D", "max_pooling1d")],
)
def test_keras_names_of_layers(kind: str, name: str) -> None:
    assert snake(kind) == name


def traced(path: Path, *layers: Layer) -> Model:
    products = tuple(Product(rule, layer.name, place=layer.place) for layer in layers for rule in ())
    return Model("traced", "m", str(path), layers=layers, products=products)


def test_a_traced_model_gets_the_places_of_its_arguments() -> None:
    source = read_source(SCRIPTS / "residual.py")
    file = source.path
    layers = (
        Layer("conv2d", "Conv2D", "Conv2D", Place(file, 13)),  # through functools.partial
        Layer("dense", "Dense", "Dense", Place(file, 28)),
        Layer("other", "Dense", "Dense", Place("/elsewhere.py", 28)),
        Layer("lost", "Dense", "Dense", Place(file, 1)),
        Layer("none", "Dense", "Dense"),
    )
    model = with_arguments(traced(Path(file), *layers), {file: source})
    dense = model.layers[1]
    assert source.segment(dense.arguments["units"]) == 'config["dense"]["units"]'
    assert dense.place is not None and source.segment(dense.place).startswith("layers.Dense(")
    assert source.segment(model.layers[0].arguments["filters"]) == "filters"
    assert model.layers[2:] == layers[2:]


def test_layers_made_in_a_loop_share_their_call() -> None:
    source = read_source(SCRIPTS / "unet.py")
    layers = tuple(Layer(f"conv2d_{n}", "Conv2D", "Conv2D", Place(source.path, 12)) for n in range(3))
    model = with_arguments(traced(Path(source.path), *layers), {source.path: source})
    assert len({layer.place for layer in model.layers}) == 1
    assert {source.segment(layer.arguments["filters"]) for layer in model.layers} == {"filters"}


def test_parts_that_may_be_left_out() -> None:
    text = "m = keras.Sequential([keras.Input((8,))])\nif flag:\n    m.add(layers.Dense(%d))\nm.add(layers.Dense(5))\n"
    assert read(text % 8).layers[-1].input_shapes == ((None, 8),)
    assert read(text % 9).layers[-1].input_shapes == ((None, None),)


def test_a_model_inside_another_is_built_by_it() -> None:
    model = read(
        "inner = keras.Sequential([layers.Dense(16)])\n"
        "m = keras.Sequential([keras.Input((8,)), inner, layers.Dense(2)])\n"
    )
    assert rows(model) == [("dense", (None, 8), (None, 16)), ("dense_1", (None, 16), (None, 2))]
    assert [layer.is_last for layer in model.layers] == [False, True]


def test_data_of_known_shape_builds_a_model() -> None:
    model = read(
        "import numpy as np\nm = keras.Sequential([layers.Conv2D(31, 3), layers.Flatten(), layers.Dense(10)])\n"
        "m.compile('adam')\nm.fit(np.zeros((1000, 28, 28, 1)), np.zeros((1000,)), batch_size=96)\n"
    )
    assert [shape for _, _, shape in rows(model)] == [(None, 26, 26, 31), (None, 20956), (None, 10)]
    assert (model.batch, model.batch_known) == (96, True)


@pytest.mark.parametrize(
    ("data", "declared", "length"),
    [
        ("X = np.reshape(pd.read_csv('a').values, (-1, 3, 1))", "input_shape=(None, 1)", 3),  # all that is known
        ("X = pd.read_csv('a').values\nX = X.reshape((X.shape[0], 3, 1))", "input_shape=(None, 1)", 3),
        ("X = np.zeros((64, 3, 1))", "input_dim=1", 3),
        ("X = np.zeros((64, 3, 2))", "input_shape=(None, 1)", None),  # not what the model takes
        ("X = np.zeros((64, 3, 1))", "input_shape=(5, 1)", 5),  # what the code tells stays
        ("X = load()", "input_dim=1", None),
    ],
)
def test_data_fill_what_a_sequential_model_leaves_open(data: str, declared: str, length: int | None) -> None:
    text = (
        "import numpy as np\nimport pandas as pd\nfrom tensorflow import keras\nfrom tensorflow.keras import layers\n"
        f"{data}\nm = keras.Sequential()\nm.add(layers.LSTM(64, {declared}))\nm.add(layers.Dense(1))\n"
        "m.compile('adam', 'mse')\nm.fit(X, y)\n"
    )
    (model,) = read_model(parse_source(text, "/model.py"))
    assert model.layers[0].input_shapes == ((None, length, 1),)
    assert model.layers[1].input_shapes == ((None, 64),)


def test_class_methods_static_methods_and_closures() -> None:
    model = read(
        "def conv(filters, **more):\n    def apply(x):\n        return layers.Conv2D(filters, 3, **more)(x)\n"
        "    return apply\nclass Net:\n    @staticmethod\n    def stem(x, f):\n        return conv(f, strides=2)(x)\n"
        "    @classmethod\n    def build(cls, f=8):\n        return cls.stem(keras.Input((33, 33, 3)), f)\n"
        "y = Net.build(31)\nz = Net().build()\n"
    )
    assert rows(model) == [
        ("conv2d", (None, 33, 33, 3), (None, 16, 16, 31)),
        ("conv2d_1", (None, 33, 33, 3), (None, 16, 16, 8)),
    ]
    assert model.unseen == ()


def test_arithmetic_on_tensors_broadcasts() -> None:
    model = read(
        "x = layers.Conv2D(48, 3)(keras.Input((32, 32, 3)))\ng = layers.GlobalAveragePooling2D()(x)\n"
        "g = layers.Reshape((1, 1, x.shape[-1]))(layers.Dense(x.shape[-1])(g))\n"
        "y = layers.Flatten()(tf.nn.relu(2 * x * g + 1))\n"
    )
    assert rows(model)[-1] == ("flatten", (None, 30, 30, 48), (None, 43200))


def test_arguments_spread_from_a_known_dictionary() -> None:
    model = read("C = dict(units=63, activation='relu')\na = layers.Dense(**C)\nb = layers.Dense(*(5, 'relu'))\n")
    assert [(x.config["units"], x.config["activation"]) for x in model.layers] == [(63, "relu"), (5, "relu")]
    assert all("arguments" not in u.what for u in model.unseen)
    model = read("a = layers.Dense(7, **given)\n")
    assert ("Dense at model.py:4: arguments", "some are passed in a list or dictionary") in unseen(model)


def test_a_model_of_several_inputs() -> None:
    model = read(
        "class M(keras.Model):\n    def __init__(self):\n        super(M, self).__init__()\n"
        "        self.a = layers.Dense(3)\n"
        "        self.head = keras.Sequential([layers.Dense(5), layers.Dense(7)])\n"
        "    def call(self, inputs, training):\n        x, y = inputs\n        return self.head(self.a(x))\n"
    )
    assert [layer.inputs_from for layer in model.layers] == [(), ("dense",), ("dense_1",)]
    assert [layer.is_first for layer in model.layers] == [True, False, False]
    assert [layer.is_last for layer in model.layers] == [False, False, True]


def test_a_reshape_keeps_what_it_tells() -> None:
    model = read(
        "def heads(x, d=30):\n    b, t, _ = tf.shape(x)\n    x = tf.reshape(x, (b, -1, d))\n"
        "    return layers.Dense(4)(x)\n"
        "y = heads(layers.Dense(60)(keras.Input((5, 7))))\n"
        "z = layers.Dense(2)(tf.reshape(keras.Input((6, 6, 8)), (-1, 36, 8)))\n"
    )
    assert [layer.input_shapes for layer in model.layers[1:]] == [((None, 10, 30),), ((None, 36, 8),)]


def test_layers_of_cudnn_alone_have_none_of_the_settings_that_keep_others_off_it() -> None:
    model = read("m = keras.Sequential([keras.Input((9, 8)), layers.CuDNNLSTM(16, activation='sigmoid', unroll=True),\n"
                 "    layers.LSTM(16, activation='sigmoid')])\n")  # fmt: skip
    own, other = (layer.config for layer in model.layers)
    assert own["units"] == 16 and not {"activation", "unroll"} & set(own)
    assert other["activation"] == "sigmoid"
    (old,) = read("layers.LSTM(output_dim=16, activation='relu')\n").layers  # Keras 1
    assert "activation" not in old.config


def test_a_convolution_of_keras_1_is_not_judged() -> None:
    """There `Convolution2D(32, 3, 3)` is 3 x 3; today the second 3 is a stride."""
    model = read("m = keras.Sequential([keras.Input((30, 74, 74)),\n"
                 "    layers.Convolution2D(32, 3, 3, border_mode='same')])\n")  # fmt: skip
    assert unseen(model)[0] == ("Conv2D at model.py:5: filters", "its arguments are those of Keras 1")
    assert model.layers[0].output_shape in (None, (None, None, None, None))
