"""Shapes that the user gives fill what the code leaves open, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.audit.source.read import read_model, read_source
from tcprobe.errors import UsageError
from tcprobe.flows.audit.flow import audit
from tcprobe.flows.audit.options import AuditOptions
from tcprobe.schema.model import InputShape, Model

HEAD = "import keras\nfrom keras import layers\n"
NET = """
class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.out = layers.Dense(7)
    def call(self, x):
        return self.out(x)
"""
MAKE = "def make(s):\n    x = keras.Input(s)\n    return layers.Conv2D(64, 3)(x)\n"
HOLDER = "class A:\n    def __init__(self):\n        self.m = keras.Sequential([layers.Conv2D(64, 3)])\nA()"
LAYER = NET.replace("keras.Model", "layers.Layer")


def read(tmp_path: Path, text: str, *shapes: tuple[str | None, tuple[int, ...]]) -> Model:
    path = tmp_path / "model.py"
    path.write_text(HEAD + text, encoding="utf-8")
    (model,) = read_model(read_source(path, None, [InputShape(*shape) for shape in shapes]))
    return model


@pytest.mark.parametrize(
    ("text", "name", "shape"),
    [
        ("x = keras.Input((None, None, 3))\nlayers.Conv2D(64, 3)(x)", None, (None, 32, 32, 3)),
        ("x = keras.Input((None, None, 3))\nlayers.Conv2D(64, 3)(x)", "x", (None, 32, 32, 3)),
        ("layers.Conv2D(64, 3)(keras.Input((None, None, 3), name='im'))", "im", (None, 32, 32, 3)),
        ("layers.Conv2D(64, 3)(keras.Input(batch_shape=(8, None, None, 3)))", None, (8, 32, 32, 3)),
        ("x = keras.Input(f())\nm = keras.Model(x, layers.Conv2D(64, 3)(x))", "m", (None, 32, 32, 3)),
        ("x = keras.Input(f())\nkeras.Model(x, layers.Conv2D(64, 3)(x))", None, (None, 32, 32, 3)),
        ("x = keras.Input(f())\nm = keras.Model(x, layers.Conv2D(64, 3)(x), name='n')", "n", (None, 32, 32, 3)),
        (MAKE + "m = make(f())", "m", (None, 32, 32, 3)),
        ("m = keras.Sequential([layers.Conv2D(64, 3)])", None, (None, 32, 32, 3)),
        ("m = keras.Sequential([layers.Conv2D(64, 3)])", "m", (None, 32, 32, 3)),
        ("m = keras.Sequential([layers.Conv2D(64, 3)])\nm.fit(load())", "m", (None, 32, 32, 3)),
        ("m = keras.Sequential([layers.Conv2D(64, 3, input_shape=(None, None, 3))])", "m", (None, 32, 32, 3)),
        (HOLDER, "m", (None, 32, 32, 3)),
        (NET, None, (None, 32, 32, 3)),
        (NET, "Net", (None, 32, 32, 3)),
        (NET + "net = Net()\nnet(load())", "net", (None, 32, 32, 3)),
        (LAYER, "Net", (None, 32, 32, 3)),
    ],
)  # fmt: skip
def test_an_open_input_has_the_shape_that_is_given(
    tmp_path: Path, text: str, name: str | None, shape: tuple[int | None, ...]
) -> None:
    model = read(tmp_path, text, (name, (32, 32, 3)))
    assert model.layers[0].input_shapes == (shape,)
    assert model.answered == (() if name is None else (name,))
    assert not model.notes


def test_a_sequential_model_takes_the_shape_of_as_many_sizes_as_its_first_layer(tmp_path: Path) -> None:
    text = "m = keras.Sequential([layers.Conv2D(64, 3), layers.Flatten(), layers.Dense(8)])"
    model = read(tmp_path, text, (None, (64,)), (None, (8, 8, 3)))
    assert [layer.input_shapes for layer in model.layers] == [
        ((None, 8, 8, 3),),
        ((None, 6, 6, 64),),
        ((None, 2304),),
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("layers.Dense(7)(keras.Input((784,)))", None),
        ("m = keras.Sequential([keras.Input((784,)), layers.Dense(7)])", None),
        ("m = keras.Sequential([layers.Dense(7)])\nm(keras.Input((784,)))", None),
        (LAYER + "Net()(keras.Input((784,)))", "Net"),
    ],
)
def test_what_the_code_tells_stays(tmp_path: Path, text: str, name: str | None) -> None:
    assert read(tmp_path, text, (name, (50,))).layers[0].input_shapes == ((None, 784),)


def test_a_shape_for_all_is_not_for_layers_of_the_users_own(tmp_path: Path) -> None:
    assert read(tmp_path, LAYER, (None, (50,))).layers[0].input_shapes == ()


def test_each_name_has_its_own_shape_and_all_others_that_without_a_name(tmp_path: Path) -> None:
    text = "".join(f"{n} = keras.Input((None,), name='{n}')\nlayers.Dense(7)(layers.Flatten()({n}))\n" for n in "abc")
    model = read(tmp_path, text, (None, (5,)), ("b", (6,)))
    shapes = [layer.input_shapes for layer in model.layers if layer.kind == "Dense"]
    assert shapes == [((None, 5),), ((None, 6),), ((None, 5),)]
    assert model.inputs == ("a", "b", "c")


@pytest.mark.parametrize(
    ("open_", "given", "remark"),
    [
        ("(None, None, 3)", (32, 32, 1), "--input-shape 32,32,1 is not taken for x: its shape is ?,?,3 in the code"),
        ("(None, None, 3)", (32, 32), "--input-shape 32,32 is not taken for x: its shape is ?,?,3 in the code"),
        ("(8, 8, 3)", (32, 32, 3), "--input-shape 32,32,3 is not taken for x: its shape is 8,8,3 in the code"),
    ],
)
def test_what_contradicts_the_code_is_said(tmp_path: Path, open_: str, given: tuple[int, ...], remark: str) -> None:
    model = read(tmp_path, f"x = keras.Input({open_})\nlayers.Conv2D(64, 3)(x)", ("x", given))
    assert model.layers[0].input_shapes[0] != (None, *given)
    assert model.notes == (remark,)


def test_a_shape_of_another_rank_is_for_other_inputs(tmp_path: Path) -> None:
    text = "a = keras.Input((None,))\nb = keras.Input((None, None, 3))\nlayers.Conv2D(64, 3)(b)"
    model = read(tmp_path, text, (None, (32, 32, 3)), (None, (9,)))
    assert model.layers[0].input_shapes == ((None, 32, 32, 3),)
    assert not model.notes


def test_a_name_that_no_input_has_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + "words = keras.Input((None,))\nlayers.Embedding(9, 8)(words)", encoding="utf-8")
    with pytest.raises(UsageError, match="no input, model or class has this name") as refused:
        audit(AuditOptions((str(path),), mode="source", input_shapes=(InputShape("word", (9,)),)), lambda _: None)
    assert refused.value.hint == "inputs without a shape: words"
