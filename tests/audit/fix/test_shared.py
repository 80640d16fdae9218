"""Helpers that several models share: changed where all of them were audited and fit, else left alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.text import apply
from tcprobe.audit.fix.source.units import seen_lines
from tcprobe.audit.source.read import parse_source
from tcprobe.keras.products.layers import records_of
from tcprobe.report.audit.words import why
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.source.calls import Call
from tcprobe.source.source import Source
from tests.audit.fix.fixes.reading import a_layer, finding, step_of
from tests.audit.fix.refusing import refuses

HEAD = "import keras\nfrom keras import layers\n"
HELPER = "def block(x):\n    return layers.Dense(510)(x)\n"
BUILDER = "def {name}():\n    x = block(keras.Input((512,)))\n    x = layers.{last}(x)\n    return keras.Model(x)\n"
OTHER = BUILDER.format(name="other", last="Reshape((17, 30))")


def models(text: str, *builders: str) -> tuple[Source, list[Model]]:
    """Return a source and one model per builder: the helper's layer, and the builder's own behind it."""
    source = parse_source(text, "/model.py")
    calls = [c for c in source.calls() if c.name.startswith("keras.layers.")]
    return source, [_model(source, [c for c in calls if c.scope in ("block", name)]) for name in builders]


def _model(source: Source, calls: list[Call]) -> Model:
    layers: list[Layer] = []
    products: list[Product] = []
    for call in calls:
        shape = layers[-1].output_shape if layers else (64, 512)
        config = {name: a.known.value for name, a in call.arguments.items() if a.known}
        layer = a_layer(call, call.name.rpartition(".")[2], config, shape, layers)
        feeds = tuple(x.name for x in layers)
        products += [Product(r, layer.name, n, f"{layer.name}/{r.pass_}", feeds) for r, n in records_of(layer, 64)]
        layers.append(layer)
    layers[-1] = replace(layers[-1], is_last=True)
    return Model("traced", "m", source.path, tuple(layers), tuple(products), 64, True)


def mended(source: Source, model: Model, *beside: Model) -> tuple[Finding, str]:
    given = finding(model.layers[0], "units", 510, 512)
    steps = [step_of(other) for other in beside]
    (found,) = with_fixes([given], model, step_of(model), {source.path: source}, steps)
    return found, apply([found], {source.path: source}).get(source.path, source.text)


def test_a_helper_of_one_builder_is_changed() -> None:
    text = HEAD + HELPER + BUILDER.format(name="build", last="Dense(64)") + "model = build()\n"
    source, (model,) = models(text, "build")
    assert mended(source, model)[1] == text.replace("510", "512")


def test_a_helper_that_another_builder_uses_stays() -> None:
    text = HEAD + HELPER + BUILDER.format(name="build", last="Dense(64)") + OTHER
    source, (model,) = models(text, "build")
    found, after = mended(source, model)
    assert after == text
    assert why(found) == "no fix: other() uses it too, and is no part of this model"


def test_a_helper_of_two_audited_builders_is_changed_for_both() -> None:
    text = HEAD + HELPER + BUILDER.format(name="build", last="Dense(64)") + BUILDER.format(name="two", last="Dense(8)")
    source, (model, two) = models(text, "build", "two")
    assert mended(source, model)[0].fix is None
    assert mended(source, model, two)[1] == text.replace("510", "512")
    assert mended(source, two, model)[0].fix == mended(source, model, two)[0].fix


def test_the_other_audited_builder_must_fit_too() -> None:
    text = HEAD + HELPER + BUILDER.format(name="build", last="Dense(64)") + OTHER
    source, (model, other) = models(text, "build", "other")
    found, after = mended(source, model, other)
    assert after == text
    assert why(found) == "no fix: 15360 is no multiple of 510"  # 17 x 30 units cannot become 512


CASES = {
    "constant of one": ("N = 510\ndef a():\n    layers.Dense(N)\ndef b():\n    layers.Dense(8)\n", None),
    "constant of both": ("N = 510\ndef a():\n    layers.Dense(N)\ndef b():\n    layers.Dense(N)\n", "b()"),
    "default of a helper": (
        "def h(n=510):\n    layers.Dense(n)\n"
        "def a():\n    layers.Dense(8)\n    h()\ndef b():\n    layers.LSTM(8)\n    h()\n",
        "b()",
    ),
    "given by each builder": (
        "def h(n):\n    layers.Dense(n)\n"
        "def a():\n    layers.Dense(8)\n    h(510)\ndef b():\n    layers.LSTM(8)\n    h(64)\n",
        None,
    ),
    "a class that extends another": (
        "class A(layers.Layer):\n    def __init__(self, n=510):\n        self.d = layers.Dense(n)\n"
        "class B(A):\n    def build(self, s):\n        self.e = layers.Dense(8)\n",
        "B()",
    ),
    "builders without layers": (
        "def h():\n    layers.Dense(510)\ndef a():\n    keras.Model(h())\ndef b():\n    keras.Model(h())\n",
        "a()",
    ),
    "a builder without layers": ("def h():\n    layers.Dense(510)\ndef a():\n    keras.Model(h())\n", None),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_literal_reaches(case: str) -> None:
    """The first function or class, and the helper, were audited."""
    text, refused = CASES[case]
    source = parse_source(HEAD + text, "/model.py")
    own = [c for c in source.calls() if c.name.startswith("keras.layers.")]
    seen = frozenset(("/model.py", c.place.line) for c in own if c.scope.partition(".")[0] in ("", "a", "h", "A"))
    (literal,) = [p for p in Files({"/model.py": source}).tree("/model.py").resting if source.segment(p) == "510"]
    units = Files({"/model.py": source}).units("/model.py")
    if refused is None:
        units.refuse_unseen([literal], seen)
        return
    with refuses(f"^{re.escape(refused)}"):
        units.refuse_unseen([literal], seen)


def test_lines_of_a_models_layers() -> None:
    _, (model,) = models(HEAD + HELPER + BUILDER.format(name="build", last="Dense(64)"), "build")
    assert seen_lines([model]) == {("/model.py", 4), ("/model.py", 7)}
