"""Sizes followed through models made by hand: what changes together, and where nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.audit.fix.links import WantedSize, wanted_by
from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.keras.products.layers import records_of
from tcprobe.keras.shapes.layers import output_shape
from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.place import Place
from tests.audit.fix.fixes.reading import finding, step_of
from tests.audit.fix.refusing import refuses

WEIGHTED = ("Dense", "Conv2D", "LSTM")


def model_of(*rows: tuple[str, str, dict[str, Any], tuple[str, ...]], image: tuple[int, ...] = (8, 8, 16)) -> Model:
    """Return a model of layers (name, kind, settings, what they take); those that take nothing take the data."""
    layers: dict[str, Layer] = {}
    products: list[Product] = []
    taken = {source for _, _, _, sources in rows for source in sources}
    for line, (name, kind, config, sources) in enumerate(rows, 1):
        shapes = tuple(layers[s].output_shape for s in sources) or ((4, *image),)
        out = output_shape(kind, config, shapes if len(shapes) > 1 else shapes[0])
        place = Place("/m.py", config.pop("line", line), 1, line, 2)
        layers[name] = Layer(
            name, kind, kind, place, "float16", "float32", shapes, out, config,
            dict.fromkeys(config, place), sources, not sources, name not in taken, 1, True,
        )  # fmt: skip
        feeds = tuple(dict.fromkeys(f for s in sources for f in _features(layers, s)))
        products += [Product(r, name, c, f"{name}/{r.pass_}", feeds) for r, c in records_of(layers[name], 4)]
    return Model("traced", "m", "/m.py", tuple(layers.values()), tuple(products), 4, True)


def _features(layers: dict[str, Layer], name: str) -> list[str]:
    """Return the layers with weights whose features arrive as those of a layer."""
    layer = layers[name]
    return [name] if layer.kind in WEIGHTED else [f for s in layer.inputs_from for f in _features(layers, s)]


def wanted(model: Model, name: str, size: int, suggested: int) -> set[tuple[str, str, int, int]]:
    layer = model.layer(name)
    assert layer is not None
    dimension = "filters" if layer.kind.startswith("Conv") else "units"
    found = wanted_by(finding(layer, dimension, size, suggested), model, step_of(model))
    return {(w.layer, w.argument, w.old, w.new) for w in found}


def conv(filters: int, **more: Any) -> dict[str, Any]:
    return {"filters": filters, "kernel_size": 3, "padding": "same", **more}


def test_a_layer_alone() -> None:
    model = model_of(("a", "Conv2D", conv(63), ()), ("b", "Conv2D", conv(64), ("a",)))
    assert wanted(model, "a", 63, 64) == {("a", "filters", 63, 64)}


def test_both_branches_of_a_residual_and_what_lies_between() -> None:
    model = model_of(
        ("a", "Conv2D", conv(63), ()),
        ("b", "Conv2D", conv(31), ("a",)),
        ("c", "Conv2D", conv(63), ("b",)),
        ("norm", "BatchNormalization", {}, ("c",)),
        ("add", "Add", {}, ("a", "norm")),
        ("relu", "ReLU", {}, ("add",)),
        ("d", "Conv2D", conv(64), ("relu",)),
    )
    assert wanted(model, "a", 63, 64) == {("a", "filters", 63, 64), ("c", "filters", 63, 64)}
    assert wanted(model, "c", 63, 64) == wanted(model, "a", 63, 64)
    assert wanted(model, "b", 31, 32) == {("b", "filters", 31, 32)}


def test_a_residual_onto_the_data_stays() -> None:
    model = model_of(
        ("a", "Conv2D", conv(15), ()),
        ("norm", "BatchNormalization", {}, ()),
        ("add", "Add", {}, ("a", "norm")),
        ("b", "Conv2D", conv(64), ("add",)),
        image=(8, 8, 15),
    )
    with refuses("what becomes of 'add'"):
        wanted(model, "a", 15, 16)


def test_what_joins_and_what_flattens() -> None:
    model = model_of(
        ("a", "Conv2D", conv(63), ()),
        ("b", "Conv2D", conv(33), ()),
        ("cat", "Concatenate", {}, ("a", "b")),
        ("c", "Conv2D", conv(15), ("cat",)),
        ("flat", "Flatten", {}, ("c",)),
        ("end", "Dense", {"units": 16}, ("flat",)),
    )
    assert wanted(model, "a", 63, 64) == {("a", "filters", 63, 64)}
    assert wanted(model, "c", 15, 16) == {("c", "filters", 15, 16)}


def test_a_reshape_far_behind_and_its_sizes() -> None:
    model = model_of(
        ("a", "Dense", {"units": 3087}, ()),
        ("norm", "BatchNormalization", {}, ("a",)),
        ("shape", "Reshape", {"target_shape": (7, 7, 63)}, ("norm",)),
        ("b", "Conv2D", conv(64), ("shape",)),
        image=(100,),
    )
    both = {("a", "units", 3087, 3136), ("shape", "target_shape", 63, 64)}
    assert wanted(model, "a", 3087, 3136) == both


def test_layers_of_one_place_change_together() -> None:
    model = model_of(
        ("a", "Conv2D", conv(63, line=5), ()),
        ("b", "Conv2D", conv(63, line=5), ("a",)),
        ("c", "Conv2D", conv(64), ("b",)),
    )
    places = [layer.arguments["filters"] for layer in model.layers]
    assert places[0].line == places[1].line
    same = Place("/m.py", 5, 1, 5, 3)
    moved = tuple(_at(layer, same) if layer.name in "ab" else layer for layer in model.layers)
    together = Model("traced", "m", "/m.py", moved, model.products, 4, True)
    assert wanted(together, "a", 63, 64) == {("a", "filters", 63, 64), ("b", "filters", 63, 64)}


def _at(layer: Layer, place: Place) -> Layer:
    from dataclasses import replace

    return replace(layer, arguments=dict.fromkeys(layer.arguments, place))


@pytest.mark.parametrize(
    ("between", "reason"),
    [
        pytest.param(("x", "Permute", {"dims": (2, 1, 3)}, ("a",)), "Permute", id="permute"),
        pytest.param(("x", "Mine", {}, ("a",)), "what", id="a class of the user's"),
        pytest.param(("x", "Reshape", {"target_shape": (64, -1)}, ("a",)), "'x'", id="open reshape"),
        pytest.param(("x", "Reshape", {"target_shape": (63, 8, 8)}, ("a",)), "does not follow", id="reshape apart"),
        pytest.param(("x", "Conv2D", conv(64, groups=63), ("a",)), "grouped", id="groups"),
    ],
)
def test_not_certain(between: tuple[str, str, dict[str, Any], tuple[str, ...]], reason: str) -> None:
    model = model_of(("a", "Conv2D", conv(63), ()), between, ("b", "Dense", {"units": 8}, ("x",)))
    with refuses(reason):
        wanted(model, "a", 63, 64)


def test_a_product_of_the_users_own_stays() -> None:
    from dataclasses import replace

    model = model_of(("a", "Dense", {"units": 63}, ()), ("b", "Dense", {"units": 8}, ("a",)), image=(64,))
    assert wanted(model, "a", 63, 64) == {("a", "units", 63, 64)}
    own = replace(model.products[-1], record=replace(model.products[-1].record, pass_="forward"), layer=None, op="mine")
    with refuses("'mine' works on what changes"):
        wanted(replace(model, products=(*model.products, replace(own, inputs_from=("a",)))), "a", 63, 64)


def test_features_that_do_not_arrive_as_features_stay() -> None:
    """The query of an attention of the user's own: the output's layer comes after it, fed by the values alone."""
    from dataclasses import replace

    model = model_of(
        ("q", "Dense", {"units": 63}, ()),
        ("k", "Dense", {"units": 63}, ()),
        ("v", "Dense", {"units": 63}, ()),
        ("out", "Dense", {"units": 64}, ("v",)),
        image=(10, 64),
    )
    layers = [replace(x, inputs_from=("v", "q", "k")) if x.name == "out" else x for x in model.layers]
    model = replace(model, layers=tuple(replace(x, is_last=x.name == "out") for x in layers))
    with refuses("what becomes of 'q' before 'out' is unknown"):
        wanted(model, "q", 63, 64)
    assert wanted(model, "v", 63, 64) == {("v", "units", 63, 64)}


def test_the_last_layer_and_unknown_wiring_stay() -> None:
    from dataclasses import replace

    model = model_of(("a", "Dense", {"units": 63}, ()), ("b", "Dense", {"units": 10}, ("a",)), image=(64,))
    with refuses("the model's own"):
        wanted(model, "b", 10, 16)
    unknown = tuple(replace(layer, inputs_from=(), is_last=None) for layer in model.layers)
    with refuses("unknown"):
        wanted(replace(model, layers=unknown), "a", 63, 64)


def test_the_size_of_a_head_stands_alone() -> None:
    model = model_of(("a", "MultiHeadAttention", {"num_heads": 4, "key_dim": 25}, ()), image=(10, 100))
    layer = model.layers[0]
    found = wanted_by(finding(layer, "key_dim", 25, 32), model, step_of(model))
    assert found == {WantedSize("a", "key_dim", None, 25, 32)}


@pytest.mark.parametrize("kind", ["RMSNormalization", "ThresholdedReLU", "GaussianDropout", "AdaptiveMaxPooling2D"])
def test_what_keeps_its_features_changes_with_them(kind: str) -> None:
    model = model_of(
        ("a", "Conv2D", conv(63), ()),
        ("kept", kind, {"output_size": 2} if kind.startswith("Adaptive") else {}, ("a",)),
        ("b", "Conv2D", conv(64), ("kept",)),
    )
    assert wanted(model, "a", 63, 64) == {("a", "filters", 63, 64)}


@pytest.mark.parametrize(
    ("kind", "config"), [("GroupNormalization", {"groups": 9}), ("Normalization", {"mean": (1.0,) * 63})]
)
def test_what_fits_one_number_of_features_refuses_another(kind: str, config: dict[str, Any]) -> None:
    model = model_of(
        ("a", "Conv2D", conv(63), ()),
        ("norm", kind, config, ("a",)),
        ("b", "Conv2D", conv(64), ("norm",)),
    )
    with refuses(f"what {kind} makes of another size is unknown"):
        wanted(model, "a", 63, 64)


def test_an_output_that_is_added_to_an_input_of_the_model_stays() -> None:
    text = (
        "import keras\nfrom keras import layers\nx = keras.Input((63,))\ny = layers.Dense(63)(x)\n"
        "keras.Model(x, layers.Dense(64)(layers.Add()([y, {other}])))\n"
    )
    (model,) = read_model(parse_source(text.format(other="x"), "/m.py"))
    with refuses("what 'add' takes is unknown, or the model's input"):
        wanted(model, "dense", 63, 64)
    (model,) = read_model(parse_source(text.format(other="layers.Dense(63)(y)"), "/m.py"))
    assert {w[0] for w in wanted(model, "dense", 63, 64)} == {"dense", "dense_2"}
