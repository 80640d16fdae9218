"""What the catalogue of Keras tells of layers in source code: old and new classes, other names, what feeds what."""

from __future__ import annotations

import ast

import pytest

from tcprobe.audit.source.read import parse_source, read_model
from tcprobe.schema.model import Model

HEAD = "import keras\nfrom keras import layers\nx = keras.Input((8, 8, 64))\n"
END = "\nmodel = keras.Model(x, y)\n"


def read(text: str) -> Model:
    (model,) = read_model(parse_source(text, "/model.py"))
    return model


@pytest.mark.parametrize(
    ("made", "kind", "shape"),
    [
        ("ThresholdedReLU(1.0)", "ThresholdedReLU", (None, 8, 8, 64)),
        ("LocallyConnected2D(9, 3)", "LocallyConnected2D", (None, 6, 6, 9)),
        ("experimental.SyncBatchNormalization()", "SyncBatchNormalization", (None, 8, 8, 64)),
        ("AvgPool2D()", "AveragePooling2D", (None, 4, 4, 64)),
    ],
)
def test_old_classes_and_other_names(made: str, kind: str, shape: tuple[int | None, ...]) -> None:
    (layer,) = read(f"{HEAD}y = layers.{made}(x){END}").layers
    assert (layer.kind, layer.output_shape) == (kind, shape)


def test_attention_with_grouped_queries_is_a_layer_with_products() -> None:
    model = read("import keras\nx = keras.Input((16, 64))\ny = keras.layers.GroupQueryAttention(8, 4, 2)(x, x)" + END)
    (layer,) = model.layers
    assert layer.kind == "GroupedQueryAttention"
    assert {name: layer.config[name] for name in ("head_dim", "num_query_heads", "num_key_value_heads")} == {
        "head_dim": 8, "num_query_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    assert model.products


@pytest.mark.parametrize(
    "between",
    ["AdaptiveMaxPooling2D(2)", "GlobalMaxPool2D()", "RMSNormalization()", "CenterCrop(4, 4)", "Dropout(0.1)"],
)
def test_features_arrive_through_what_keeps_them(between: str) -> None:
    model = read(f"{HEAD}y = layers.Conv2D(9, 3, name='a')(x)\ny = layers.{between}(y)\ny = layers.Dense(4)(y){END}")
    assert {p.inputs_from for p in model.products if p.layer == "dense" and p.record.pass_ == "forward"} == {("a",)}


@pytest.mark.parametrize("merge", ["Add", "Minimum", "Maximum"])
def test_features_arrive_through_every_merge(merge: str) -> None:
    text = f"a = layers.Dense(9, name='a')(x)\nb = layers.Dense(9, name='b')(x)\ny = layers.{merge}()([a, b])\n"
    model = read(f"{HEAD}{text}y = layers.Dense(4)(y){END}")
    assert {p.inputs_from for p in model.products if p.layer == "dense" and p.record.pass_ == "forward"} == {("a", "b")}


@pytest.mark.parametrize(("keras", "filled"), [("keras", "output_padding"), ("tf_keras", "data_format")])
def test_positional_arguments_are_those_of_the_keras_that_is_imported(keras: str, filled: str) -> None:
    text = f"from {keras} import layers\nlayers.Conv3DTranspose(8, 3, 2, 'same', None, None)\n"
    (call,) = parse_source(text, "/model.py").calls()
    assert list(call.arguments)[-1] == filled


def test_a_layer_of_a_star_import_can_be_inherited_from() -> None:
    source = parse_source("from keras.layers import *\nclass Block(Layer):\n    pass\n", "/model.py")
    (block,) = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    assert source.name_of(block.bases[0]) == "keras.layers.Layer"


def test_a_layer_of_one_rank_tells_the_rank_of_its_input() -> None:
    text = "import keras\ndef build(shape):\n    x = keras.Input(shape)\n    y = keras.layers.Cropping2D(1)(x)\n"
    (layer,) = read(text + "    return keras.Model(x, y)\n").layers
    assert layer.input_shapes == ((None, None, None, None),) or layer.output_shape == (None, None, None, None)
