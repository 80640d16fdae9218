"""Whole models of keras.applications: every shape and every GEMM of a training step, from the settings alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tcprobe.keras.shapes import output_shape
from tests.keras.test_traced import derived, keras, own, sizes, traced

pytestmark = pytest.mark.tensorflow


def layers_of(model: Any) -> list[Any]:
    """Return the layers of a functional model, those of nested ones in their place, without its inputs."""
    found = []
    for layer in model.layers:
        found += layers_of(layer) if getattr(layer, "layers", None) else [layer]
    return [layer for layer in found if type(layer).__name__ != "InputLayer"]


@pytest.mark.parametrize("name", ["VGG16", "MobileNetV3Small"])
def test_a_model_from_its_settings(name: str) -> None:
    model = getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3))
    found: Counter[Any] = Counter()
    for layer in layers_of(model):
        node = layer._inbound_nodes[0]
        inputs = [tuple(tensor.shape) for tensor in node.input_tensors]
        given = inputs[0] if len(inputs) == 1 else inputs
        assert output_shape(type(layer).__name__, layer.get_config(), given) == tuple(node.outputs[0].shape), layer.name
        found += sizes(derived(own(layer, inputs)))
    assert found == sizes(traced(model, [(4, 64, 64, 3)], lambda inner, x: inner(x, training=True)))
