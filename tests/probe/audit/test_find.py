"""Which names of a file may make a model, without a Keras: stand-ins whose module is called so."""

from __future__ import annotations

import types
from typing import Any

import pytest

from tcprobe.probe.audit.models import (
    NothingToAudit,
    at_module_level,
    candidates,
    classes,
    from_functions,
    named,
    own_steps,
    parse_argument,
)

CODE = """
def build_model(): return keras.Model()
def get_data(): return [1]
def create(units, depth=2): return keras.Model(units)
def discriminator() -> "keras.Model": return keras.Model()
def tiny(): return keras.Sequential()
def helper(x): return keras.layers(x)
def purge(): return os
def main(): return build_model()
def train_model(): return build_model()
def test_model(): return build_model()
def run(): return build_model()
def _model(): return build_model()
"""


class Model:
    def __init__(self, *parts: Any) -> None:
        self.parts, self.name = parts, "part"

    def call(self) -> None: ...

    def _flatten_layers(self) -> list[Any]:
        return [self, *self.parts]


Model.__module__ = "keras.src.models.model"


class Own(Model):
    def call(self) -> None: ...


def module(code: str = "", **names: Any) -> types.ModuleType:
    found = types.ModuleType("file")
    found.__dict__["keras"] = types.SimpleNamespace(Model=Own, Sequential=Own)
    exec(compile(code, "/home/me/file.py", "exec"), found.__dict__)
    found.__dict__.update(names)
    return found


def test_makers_come_first_and_what_trains_or_runs_never() -> None:
    names = [name for name, _ in candidates(module(CODE), "/home/me/file.py")]
    assert names == ["build_model", "get_data", "create", "discriminator", "tiny"]


def test_makers_are_called_and_those_that_need_arguments_named() -> None:
    found, failed = from_functions(module(CODE), "/home/me/file.py", lambda function: function())
    assert [item.label for item in found] == ["build_model", "discriminator", "tiny"]
    assert [(item.what, item.reason, item.example) for item in failed] == [
        ("create()", "needs units", "--arg units=VALUE")
    ]


def test_a_maker_that_raises_is_told() -> None:
    made = module("def build():\n    return keras.Modell()\n")
    found, (failed,) = from_functions(made, "/home/me/file.py", lambda function: function())
    assert found == []
    assert failed.reason.startswith("AttributeError")
    assert failed.line == 1


def test_models_at_module_level_once_and_without_their_parts() -> None:
    inner, other = Own(), Own()
    outer = Own(inner)
    found = at_module_level(module(a=inner, b=outer, c=outer, many=[other, {"x": outer}], number=3))
    assert [(item.label, item.model) for item in found] == [("b", outer), ("many", other)]


def test_a_model_that_only_trains_its_parts_gives_way_to_them() -> None:
    part = Own()

    class Trainer(Model):
        pass

    (found,) = at_module_level(module(gan=Trainer(part)))
    assert (found.label, found.model) == ("gan.part", part)


def test_a_training_step_of_a_models_own_is_told_of() -> None:
    class Trainer(Own):
        def train_step(self) -> None: ...

    assert own_steps(module(plain=Own(), gan=Trainer(), kind=Trainer)) == ["gan"]


def test_a_factory_takes_literals_and_text() -> None:
    made = module("def build(units, name='x', **rest): return keras.Model(units, name, rest)")
    (found,) = named(made, "build", {"units": "(1, 2)", "name": "gan", "extra": "None"})
    assert found.model.parts == ((1, 2), "gan", {"extra": None})
    assert parse_argument("1e-3") == 0.001
    assert parse_argument("relu") == "relu"


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("nothing", {}, "it has no 'nothing'"),
        ("create", {}, "create needs units"),
        ("create", {"units": "1", "size": "2"}, "create takes no argument size"),
        ("get_data", {}, "get_data gives a value of type list, no Keras model"),
        ("number", {}, "number is a value of type int, neither a model nor a function"),
    ],
)
def test_what_a_factory_cannot_do_is_one_line(name: str, args: dict[str, str], says: str) -> None:
    with pytest.raises(NothingToAudit) as raised:
        named(module(CODE, number=3), name, args)
    assert str(raised.value) == says
    assert raised.value.kind == "usage"


def test_a_class_is_told_of_where_nothing_is_made_of_it() -> None:
    made = module("class A(keras.Model): pass\nclass B(keras.Model): pass\nb = B()\n")
    made.__dict__["A"].__module__ = made.__dict__["B"].__module__ = "file"
    assert classes(made) == [("A", False), ("B", True)]
