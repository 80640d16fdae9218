"""The layer stack and the lines of construction, on a small imitation of Keras."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.hooks.layers import LayerHooks

LIBRARY = """
class Layer:
    def __init__(self, name=None):
        self.name = name
    def __call__(self, x):
        return self.call(x)
    def call(self, x):
        return x

class Attention(Layer):
    def call(self, x):
        self.query = Layer("query")
        return self.query(x)
"""


@pytest.fixture
def library(tmp_path: Any) -> SimpleNamespace:
    """Return classes whose code lies in a framework, as Keras' own layers do."""
    scope: dict[str, Any] = {"__name__": "keras.layers"}
    path = tmp_path / "site-packages" / "keras" / "layers.py"
    exec(compile(LIBRARY, str(path), "exec"), scope)
    return SimpleNamespace(Layer=scope["Layer"], Attention=scope["Attention"])


@pytest.fixture
def hooks(library: SimpleNamespace) -> LayerHooks:
    made = LayerHooks(Gaps())
    made.install(SimpleNamespace(layers=library))
    made.eager = lambda: False
    return made


def seen_by(layer: Any, hooks: LayerHooks) -> Callable[[], Any]:
    """Let the layer's call note the stack; returns what reads the note."""
    found: list[Any] = []
    layer.call = lambda x: found.append(hooks.current())
    return lambda: found[-1]


def test_the_stack_names_the_layers_around(library: SimpleNamespace, hooks: LayerHooks) -> None:
    inner, outer = library.Layer("dense"), library.Layer("model")
    seen = seen_by(inner, hooks)
    outer.call = inner
    outer(0)
    assert (seen().path, seen().layer_class) == ("model/dense", "Layer")
    assert hooks.current() is None


def test_an_exception_leaves_the_stack_clean(library: SimpleNamespace, hooks: LayerHooks) -> None:
    layer = library.Layer("dense")
    layer.call = lambda x: 1 / x
    with pytest.raises(ZeroDivisionError):
        layer(0)
    assert hooks.current() is None


def test_eager_calls_are_left_alone_but_while_a_step_is_sampled(library: SimpleNamespace, hooks: LayerHooks) -> None:
    layer = library.Layer("dense")
    seen = seen_by(layer, hooks)
    hooks.eager = lambda: True
    layer(0)
    assert seen() is None
    hooks.sampling = True
    layer(0)
    assert seen().path == "dense"


def test_a_layer_has_the_line_that_constructs_it(library: SimpleNamespace, hooks: LayerHooks) -> None:
    class Block(library.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__("block")

    line = sys._getframe().f_lineno + 1
    block = Block()
    seen = seen_by(block, hooks)
    block(0)
    assert seen().source == f"{__file__}:{line}"


def test_a_layer_that_a_library_makes_while_it_runs_has_its_parents_line(
    library: SimpleNamespace, hooks: LayerHooks
) -> None:
    line = sys._getframe().f_lineno + 1
    attention = library.Attention("attention")
    attention(0)
    assert hooks.line(attention.query) == f"{__file__}:{line}"


def test_removed_hooks_leave_the_class_as_it_was(library: SimpleNamespace) -> None:
    before = (library.Layer.__init__, library.Layer.__call__)
    hooks = LayerHooks(Gaps())
    hooks.install(SimpleNamespace(layers=library))
    assert library.Layer.__call__ is not before[1]
    hooks.install(SimpleNamespace(layers=library))  # the same Keras under a second name
    hooks.remove()
    assert (library.Layer.__init__, library.Layer.__call__) == before


def test_a_keras_without_these_methods_is_a_named_gap() -> None:
    gaps = Gaps()
    bare = type("Layer", (), {})
    LayerHooks(gaps).install(SimpleNamespace(layers=SimpleNamespace(Layer=bare)))
    assert {gap["hook"] for gap in gaps.gaps} <= {"keras Layer.__call__", "keras Layer.__init__"}
    assert gaps.gaps


def test_a_layer_that_cannot_be_hashed_is_no_obstacle(library: SimpleNamespace, hooks: LayerHooks) -> None:
    class Equal(library.Layer):  # type: ignore[misc, name-defined]
        __hash__ = None  # type: ignore[assignment]

    layer = Equal("odd")
    seen = seen_by(layer, hooks)
    layer(0)
    assert (seen().path, seen().source) == ("odd", None)
