"""Names of Keras that come through other modules of the audited tree."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.source.read import read_model, read_source
from tests.support import examples

TRIED = "try:\n    from tensorflow import keras\nexcept ImportError:\n    import keras\n"
CHOSEN = """
import os
if os.environ.get("X"):
    from .torch_side import layers
elif os.name:
    from tensorflow.keras import layers
else:
    from keras_core import layers
"""
TREE = {
    "mylib/__init__.py": "from .backend import keras\n",
    "mylib/backend.py": TRIED + "layers = keras.layers\nDense = layers.Dense\n",
    "mylib/compat.py": "import tensorflow.compat.v1 as tf\n",
    "mylib/chosen.py": CHOSEN,
    "mylib/torch_side/__init__.py": "",
    "mylib/torch_side/layers.py": "class Dense: ...\n",
    "mylib/layers/__init__.py": "from tensorflow.keras.layers import *\nfrom .own import Own\n",
    "mylib/layers/own.py": "from ..backend import keras\nclass Own(keras.layers.Layer): ...\nclass Conv2D: ...\n",
    "mylib/mine.py": "from .layers.own import Conv2D\nfrom keras.layers import Dense\ndef Dense(units): ...\n",
    "mylib/ring.py": "from .round import keras\n",
    "mylib/round.py": "from .ring import keras\n",
    "mylib/ops/__init__.py": "",
    "mylib/ops/deep.py": "",
    "mylib/utils/keras_layers.py": "from keras.layers import Dense, Conv2D as Convolution\n",
}  # fmt: skip
"""Modules of a library that hands Keras on, in the ways that public libraries do."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree").resolve()
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def name_of_last_call(tree: Path, file: str, text: str, named_alone: bool = False) -> str:
    path = tree / file
    path.write_text(text, encoding="utf-8")
    source = read_source(path, None if named_alone else str(tree))
    call = next(n for n in ast.walk(source.tree.body[-1]) if isinstance(n, ast.Call))
    return source.call_of(call).name


@pytest.mark.parametrize("named_alone", [False, True])
@pytest.mark.parametrize(
    ("imports", "called"),
    [
        ("from mylib.backend import keras", "keras.layers.Dense"),
        ("from ..backend import keras", "keras.layers.Dense"),
        ("from ..backend import layers", "layers.Dense"),
        ("from ..backend import layers as kl", "kl.Dense"),
        ("from ..backend import Dense", "Dense"),
        ("from .. import backend", "backend.layers.Dense"),
        ("from .. import keras", "keras.layers.Dense"),
        ("import mylib", "mylib.layers.Dense"),
        ("import mylib.layers", "mylib.layers.Dense"),
        ("import mylib.layers as kl", "kl.Dense"),
        ("from mylib import layers", "layers.Dense"),
        ("from mylib.layers import *", "Dense"),
        ("from ..compat import tf", "tf.keras.layers.Dense"),
        ("from ..chosen import layers", "layers.Dense"),
        ("from ..utils import keras_layers as kl", "kl.Dense"),
        (
            "try:\n    from ..absent import layers\nexcept ImportError:\n    from ..backend import layers",
            "layers.Dense",
        ),
    ],
)
def test_keras_is_found_through_the_tree(tree: Path, imports: str, called: str, named_alone: bool) -> None:
    (tree / "mylib/utils/__init__.py").touch()
    text = f"{imports}\n{called}(250)\n"
    assert name_of_last_call(tree, "mylib/ops/deep.py", text, named_alone) == "keras.layers.Dense"


@pytest.mark.parametrize(
    ("imports", "called"),
    [
        ("from ..layers import Own", "Own"),
        ("from ..layers import own", "own.Conv2D"),
        ("from ..mine import Conv2D", "Conv2D"),
        ("from ..mine import Dense", "Dense"),
        ("from ..torch_side import layers", "layers.Dense"),
        ("from ..ring import keras", "keras.layers.Dense"),
        ("from ..absent import keras", "keras.layers.Dense"),
    ],
)
def test_what_the_tree_defines_itself_is_not_keras(tree: Path, imports: str, called: str) -> None:
    name = name_of_last_call(tree, "mylib/ops/deep.py", f"{imports}\n{called}(250)\n")
    assert not name.startswith("keras.layers.")


def test_layers_behind_a_re_export_are_the_models(tree: Path) -> None:
    path = tree / "train.py"
    path.write_text(
        "from mylib.backend import layers, keras\nfrom mylib import backend\n"
        "x = keras.Input((784,))\ny = backend.layers.Dense(10)(layers.Dense(250)(x))\nkeras.Model(x, y)\n",
        encoding="utf-8",
    )
    (model,) = read_model(read_source(path, str(tree)))
    assert {layer.config["units"]: layer.input_shapes for layer in model.layers} == {
        250: ((None, 784),),
        10: ((None, 250),),
    }


def test_modules_that_a_call_hands_over_are_told_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(
        "from . import get_submodules_from_kwargs\nlayers = None\n\n"
        "def net(**kwargs):\n    global layers\n    _, layers, models, _ = get_submodules_from_kwargs(kwargs)\n"
        "    x = layers.Input((8, 8, 3))\n    return models.Model(x, head(x))\n\n"
        "def head(x):\n    return layers.Conv2D(63, 3)(x)\n",
        encoding="utf-8",
    )
    (model,) = read_model(read_source(path))
    assert [(layer.kind, layer.input_shapes) for layer in model.layers] == [("Conv2D", ((None, 8, 8, 3),))]


LINES = (
    "from tensorflow import keras", "import keras", "from .a import keras", "from .b import *", "from . import a, b",
    "keras = keras.layers", "a = b", "from .c import b as keras", "import a.b",
    "try:\n    import x\nexcept E:\n    x = keras",
)  # fmt: skip


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.lists(st.sampled_from(LINES), max_size=5), min_size=3, max_size=3))
def test_modules_in_circles_end(tmp_path_factory: pytest.TempPathFactory, bodies: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("pkg")
    for name, body in zip(("__init__", "a", "b"), bodies, strict=True):
        (folder / f"{name}.py").write_text("\n".join(body), encoding="utf-8")
    (folder / "c.py").write_text("from .a import *\nfrom .b import keras\nkeras.layers.Dense(3)\nb.keras.x()\n")
    names = [call.name for call in read_source(folder / "c.py", str(folder)).calls()]
    assert all(name.endswith(("Dense", "x")) for name in names)
