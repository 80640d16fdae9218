"""Names behind imports, calls with their arguments, places; files that cannot be read."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tcprobe.audit.source.read import parse_source, read_source
from tcprobe.errors import MissingInput, UnreadableInput, WrongFormat
from tcprobe.schema.model import Place
from tcprobe.source.calls import Call
from tcprobe.source.source import Source


def parse(text: str) -> Source:
    return parse_source(text, "/model.py")


def names(text: str) -> list[str]:
    return [call.name for call in parse(text).calls()]


DENSE = "keras.layers.Dense"
NAMES = [
    ("import tensorflow as tf\ntf.keras.layers.Dense(1)", DENSE),
    ("import tensorflow\ntensorflow.keras.layers.Dense(1)", DENSE),
    ("import tensorflow.keras as k\nk.layers.Dense(1)", DENSE),
    ("import tensorflow.keras.layers\ntensorflow.keras.layers.Dense(1)", DENSE),
    ("from tensorflow import keras\nkeras.layers.Dense(1)", DENSE),
    ("from tensorflow.keras import layers\nlayers.Dense(1)", DENSE),
    ("from tensorflow.keras.layers import Dense as D\nD(1)", DENSE),
    ("from keras.layers import *\nDense(1)", DENSE),
    ("from keras.layers.core import Dense\nDense(1)", DENSE),
    ("from tensorflow.python.keras.layers import Dense\nDense(1)", DENSE),
    ("import tf_keras as keras\nkeras.layers.Dense(1)", DENSE),
    ("import keras\nkeras.api.layers.Dense(1)", DENSE),
    ("import tensorflow.compat.v1 as tf\ntf.keras.layers.Dense(1)", DENSE),
    ("import tensorflow as tf\nlayers = tf.keras.layers\nlayers.Dense(1)", DENSE),
    ("import tensorflow as tf\nL = tf.keras.layers\nD = L.Dense\nD(1)", DENSE),
    ("def g():\n    import tensorflow as tf\n    L = tf.keras.layers\n    L.Dense(1)", DENSE),
    ("def g(tf):\n    tf.keras.layers.Dense(1)", DENSE),
    ("def g(keras):\n    keras.layers.Dense(1)", DENSE),
    ("def g(layers):\n    layers.Dense(1)", DENSE),
    ("tf = load()\ntf.keras.layers.Dense(1)", DENSE),
    ("try:\n    import keras\nexcept ImportError:\n    from tensorflow import keras\nkeras.layers.Dense(1)", DENSE),
    ("import tensorflow as tf\nclass M:\n    def g(self):\n        tf.keras.layers.Dense(1)", DENSE),
    ("import keras\n[keras.layers.Dense(n) for n in x]", DENSE),
    ("import keras\nf = lambda: keras.layers.Dense(1)", DENSE),
    ("from keras.models import Sequential\nSequential()", "keras.Sequential"),
    ("import tensorflow as tf\ntf.keras.Model()", "keras.Model"),
    ("from keras.layers import Input\nInput((1,))", "keras.Input"),
    ("from keras.layers import MaxPool2D\nMaxPool2D()", "keras.layers.MaxPooling2D"),
    ("import tensorflow as tf\ntf.cast(x, tf.float16)", "tensorflow.cast"),
    ("from tensorflow.keras import mixed_precision as mp\nmp.set_global_policy('x')",
     "keras.mixed_precision.set_global_policy"),
    ("from functools import partial\nimport keras\nD = partial(keras.layers.Dense, use_bias=False)\nD(1)", DENSE),
    ("import numpy as np\nnp.zeros(3)", "numpy.zeros"),
    ("import os.path\nos.path.join('a')", "os.path.join"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name"), NAMES, ids=[t for t, _ in NAMES])
def test_canonical_names(text: str, name: str) -> None:
    assert name in names(text)


@pytest.mark.parametrize(
    "text",
    [
        "layers.Dense(1)",
        "from .layers import Dense\nDense(1)",
        "def Dense(n): pass\nDense(1)",
        "from keras.layers import Dense\nDense = other\nDense(1)",
        "from keras.layers import Dense\ndef g(Dense):\n    Dense(1)",
        "if x:\n    from keras.layers import Dense\nelse:\n    from mine import Dense\nDense(1)",
        "def g(layers):\n    layers.append(1)",
        "from keras.layers import *\nfoo(1)",
        "class Dense:\n    pass\nDense(1)",
        "import keras\nfor keras in x:\n    keras.layers.Dense(1)",
    ],
)
def test_names_that_are_not_known(text: str) -> None:
    assert names(text) == []


def test_a_moved_name_is_told_as_it_is_called_now() -> None:
    (call,) = parse("from tensorflow.keras.layers.experimental import preprocessing as p\np.Rescaling(2)").calls()
    assert call.name == "keras.layers.Rescaling"


def test_positional_arguments_have_keras_names() -> None:
    (call,) = parse("from keras import layers\nlayers.Conv2D(31, (3, 3), 2, padding='same', **more)").calls()
    values = {name: argument.known.value for name, argument in call.arguments.items() if argument.known}
    assert values == {"filters": 31, "kernel_size": (3, 3), "strides": 2, "padding": "same"}
    assert call.arguments["filters"].place == Place("/model.py", 2, 15, 2, 17)


def test_calls_come_in_the_order_of_their_places() -> None:
    text = "import keras as k\nclass M:\n    def g(self):\n        k.f(k.g())\nk.h()\n"
    assert [c.name for c in parse(text).calls()] == ["keras.f", "keras.g", "keras.h"]


def found(source: Source, line: int, name: str | None = None) -> str | None:
    call: Call | None = source.call_at(line, name)
    return None if call is None else source.segment(call.place).split("(")[0]


def test_the_call_on_a_line() -> None:
    text = (
        "from keras.layers import *\n"
        "x = Dense(1)(Flatten()(x))\n"
        "x = Dense(1)(Dense(2)(x))\n"
        "y = Conv2D(\n    3,\n    kernel_size=5,\n)(x)\n"
        "def g(): pass\ng()\n"
    )
    source = parse(text)
    assert found(source, 2, "Dense") == "Dense"
    assert found(source, 2, "Flatten") == "Flatten"
    assert found(source, 2, "Conv2D") is None
    assert found(source, 2) is None
    assert found(source, 3, "Dense") is None
    assert found(source, 4, "Conv2D") == "Conv2D"
    assert found(source, 6, "Conv2D") == "Conv2D"
    assert found(source, 9) is None
    assert found(source, 99) is None


def test_places_count_characters() -> None:
    source = parse("f('äöü😀', 64)\r\n\fg(\t'x',\n  7)\n")
    literals = [n for n in ast.walk(source.tree) if isinstance(n, ast.Constant)]
    assert [source.segment(source.place(n)) for n in literals] == ["'äöü😀'", "64", "'x'", "7"]
    assert source.place(literals[1]) == Place("/model.py", 1, 11, 1, 13)
    assert source.segment(Place("/model.py", 1, 3)) == "'äöü😀', 64)"
    assert source.segment(Place("/model.py", 9)) == ""
    whole = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call)][1]
    assert source.segment(source.place(whole)) == "g(\t'x',\n  7)"


@pytest.mark.parametrize(
    "data",
    [
        "# -*- coding: latin-1 -*-\nname = 'ä'\nf(64)\n".encode("latin-1"),
        b"\xef\xbb\xbff(64)\n",
        b"x = 1\r\nf(64)\r\n",
        b"x = 1\rf(64)\r",
        b"f(64)",
    ],
)
def test_encodings_and_line_ends(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(data)
    source = read_source(path)
    (node,) = [n for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and n.value == 64]
    assert source.segment(source.place(node)) == "64"
    assert source.path == str(path)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"x = (\n", WrongFormat, "line 1: '(' was never closed"),
        (b"print 'x'\n", WrongFormat, "line 1"),
        (b"\x89PNG\r\n\x00\x00", UnreadableInput, "is binary"),
        (b"\xff\xfe\x41", UnreadableInput, "is not text in its encoding"),
        (b"# coding: klingon\n", UnreadableInput, "is not text in its encoding"),
        (b"-" * 5000 + b"1", WrongFormat, "nested too deeply"),
        (b"x = " + b"9" * 5000, WrongFormat, "line 1"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, data: bytes, error: type[Exception], words: str) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(data)
    with pytest.raises(error) as raised:
        read_source(path)
    assert words in str(raised.value) and str(raised.value).count("\n") == 0


def test_a_file_or_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingInput):
        read_source(tmp_path / "none.py")
    with pytest.raises(UnreadableInput):
        read_source(tmp_path)


def test_the_compiler_s_warnings_are_not_ours(recwarn: pytest.WarningsRecorder) -> None:
    source = parse("x = '\\d'\ny = 1if x else 2\n")
    assert len(source.tree.body) == 2 and not recwarn.list


def test_an_empty_file_is_a_source() -> None:
    assert parse("").calls() == ()


def big(functions: int) -> str:
    """Functions that build layers, with constants in chains and calls of one another; five lines and a half each."""
    parts = [
        f"N{i} = N{i - 1} + 1\ndef build{i}(x, units=N{i}):\n    for n in (1, 2, units):\n"
        f"        x = tf.keras.layers.Dense(n * 8)(x)\n    return build{i - 1}(x, units=units)\n"
        for i in range(1, functions)
    ]
    return "import tensorflow as tf\nN0 = 1\ndef build0(x, units): pass\n" + "\n".join(parts)


def work(text: str) -> int:
    """Return how many functions parsing and looking at every argument runs: what it takes, on any machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        source = parse(text)
        assert [a.known for call in source.calls() for a in call.arguments.values()]
    finally:
        sys.setprofile(None)
    return count


def test_time_grows_with_the_size_alone() -> None:
    small, large = big(60), big(240)
    assert large.count("\n") > 1_300
    assert work(large) < 4.5 * work(small)  # four times the lines; quadratic work would be sixteen times as much
