"""Canonical names of what is imported of Keras, and the order of its arguments."""

from __future__ import annotations

import inspect

import pytest

from tcprobe.keras.catalogue import canonical_name, known, layer_class, positional, public


@pytest.mark.parametrize(
    ("imported", "name"),
    [
        ("tensorflow.compat.v1.keras.layers.CuDNNLSTM", "keras.layers.LSTM"),
        ("keras.layers.GroupQueryAttention", "keras.layers.GroupedQueryAttention"),
        ("tensorflow.keras.layers.experimental.preprocessing.Resizing", "keras.layers.Resizing"),
        ("tensorflow.python.keras.engine.base_layer.Layer", "keras.layers.Layer"),
        ("keras.Layer", "keras.layers.Layer"),
        ("keras.models.Sequential", "keras.Sequential"),
        ("keras.layers.Mine", "keras.layers.Mine"),
        ("keras.mixed_precision.Policy", "keras.mixed_precision.Policy"),
        ("keras.optimizers.LossScaleOptimizer", "keras.optimizers.LossScaleOptimizer"),
        ("mine.layers.MaxPool2D", "mine.layers.MaxPool2D"),
    ],
)
def test_other_names_of_a_class(imported: str, name: str) -> None:
    assert canonical_name(imported) == name


def test_an_import_of_keras_2_has_the_order_of_keras_2() -> None:
    assert positional("keras.layers.Conv3DTranspose")[4:6] == ("data_format", "output_padding")
    assert positional("tf_keras.layers.Conv3DTranspose")[4:6] == ("output_padding", "data_format")
    assert positional("tf_keras.layers.Dense") == positional("keras.layers.Dense")


def test_what_is_known_of_a_module() -> None:
    assert public("tensorflow.keras.layers", "Layer") and public("keras.layers", "Input")
    assert not public("keras.layers", "mine") and not public("mine", "Dense")
    assert known("keras.mixed_precision.global_policy") and not known("keras.mixed_precision.get_layer_policy")
    assert layer_class("keras.layers.Layer") is None and layer_class("keras.mixed_precision.Policy") is None


def test_classes_and_their_parameters() -> None:
    assert layer_class(canonical_name("tensorflow.keras.layers.Convolution2D")) == "Conv2D"
    assert layer_class("keras.Sequential") is None
    assert positional("keras.layers.MultiHeadAttention")[:2] == ("num_heads", "key_dim")


@pytest.mark.tensorflow
def test_the_table_of_parameters_is_that_of_keras() -> None:
    keras = pytest.importorskip("keras")
    for name in dir(keras.layers):
        kind = getattr(keras.layers, name)
        if not inspect.isclass(kind) or name == "Layer" or not issubclass(kind, keras.layers.Layer):
            continue
        assert canonical_name(f"keras.layers.{name}") == f"keras.layers.{kind.__name__}"
        real = [p for p in inspect.signature(kind.__init__).parameters if p != "self"]
        known = positional(f"keras.layers.{kind.__name__}")
        assert tuple(real[: len(known)]) == known, name
