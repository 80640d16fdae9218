"""What an optimizer is given is read without using it up, and without an error of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.tensorflow.framework import given, optimizer_classes

OWN = SimpleNamespace(_trainable_variables=["v", "w"])


@pytest.mark.parametrize(
    ("name", "args", "kwds", "variables"),
    [
        ("apply_gradients", ([(1, "v"), (None, "w")],), {}, ["v"]),
        ("apply_gradients", (zip([1, 2], ["v", "w"], strict=True), 7), {"name": "x"}, ["v", "w"]),
        ("apply_gradients", (), {"grads_and_vars": iter([(1, "v")])}, ["v"]),
        ("apply_gradients", ({1: "v"}.items(),), {}, ["v"]),
        ("apply", ([1, 2],), {}, ["v", "w"]),
        ("apply", ([1], ["w"]), {}, ["w"]),
        ("apply", ([1],), {"trainable_variables": ("v",)}, ["v"]),
    ],
)
def test_variables_are_those_that_have_a_gradient(
    name: str, args: Any, kwds: dict[str, Any], variables: list[str]
) -> None:
    passed, named, found = given(OWN, name, args, kwds)
    assert found == variables
    pairs = passed[0] if passed else named["grads_and_vars"]
    assert len(list(pairs)) == len(list(pairs)) > 0  # there to be read, as often as one likes
    assert passed[1:] == args[1:]


@pytest.mark.parametrize("wrong", [None, 3, [1, 2], [()], [(1, "v", "w")], "text"])
def test_what_is_wrong_is_left_to_the_optimizer(wrong: Any) -> None:
    assert given(OWN, "apply_gradients", (wrong,), {}) == ((wrong,), {}, [])
    assert given(OWN, "apply", ([1], iter("v")), {})[2] == []


class LossScaleOptimizer:
    """Of Keras 2, which makes one of the other class for a new optimizer."""


class LossScaleOptimizerV3:
    """That of Keras 2.11 and later, in the same module."""


def test_the_wrapper_of_keras_2_that_is_not_exported_is_hooked() -> None:
    optimizers, mixed = SimpleNamespace(Optimizer=int), SimpleNamespace(LossScaleOptimizer=LossScaleOptimizer)
    keras = SimpleNamespace(optimizers=optimizers, mixed_precision=mixed)
    assert optimizer_classes(keras) == [int, LossScaleOptimizer, LossScaleOptimizerV3]
    assert optimizer_classes(SimpleNamespace(optimizers=optimizers)) == [int]
