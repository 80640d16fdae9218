"""Models read from source beside the ones that Keras builds from the same files."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.read import read_model, read_source
from tcprobe.schema.model import Layer

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def keras_layers(path: Path) -> dict[str, Any]:
    """Return the layers of the models that a script builds, by name; models themselves left out."""
    keras = pytest.importorskip("keras")
    keras.utils.clear_session()
    keras.config.set_dtype_policy("float32")
    space = runpy.run_path(str(path), run_name="script")
    keras.config.set_dtype_policy("float32")
    found: dict[str, Any] = {}
    pending = [v for v in space.values() if isinstance(v, keras.Model)]
    while pending:
        layer = pending.pop()
        inner = list(getattr(layer, "_layers", []) or [])
        if type(layer).__module__.startswith("keras.src.layers"):
            found[layer.name] = layer
        else:
            pending.extend(inner)
    return {n: v for n, v in found.items() if type(v).__name__ != "InputLayer"}


@pytest.mark.tensorflow
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_source_mode_derives_what_keras_builds(path: Path) -> None:
    built = keras_layers(path)
    (model,) = read_model(read_source(path))
    read = {layer.name: layer for layer in model.layers}
    assert set(read) == set(built)
    for name, layer in built.items():
        same(read[name], layer)
    assert not model.unseen


def same(read: Layer, built: Any) -> None:
    """Compare class, dtypes, shapes, and those of the weights."""
    assert read.kind == type(built).__name__
    assert (read.dtype, read.variable_dtype) == (built.compute_dtype, built.variable_dtype), read.name
    try:
        output = built.output
    except (AttributeError, ValueError):  # of a model that was not built from symbolic inputs
        output = None
    if output is not None:
        assert read.output_shape is not None
        assert read.output_shape[1:] == tuple(output.shape)[1:], read.name
    if read.kind in ("Dense", "Conv2D", "Conv2DTranspose", "Embedding"):
        shape = tuple(built.weights[0].shape)
        assert weights(read) == shape, read.name


def weights(layer: Layer) -> tuple[int | None, ...]:
    """Return the shape of a layer's first weights, worked from what was read."""
    inputs = layer.input_shapes[0][-1] if layer.input_shapes and layer.input_shapes[0] else None
    config = layer.config
    if layer.kind == "Dense":
        return (inputs, config["units"])
    if layer.kind == "Embedding":
        return (config["input_dim"], config["output_dim"])
    size = config["kernel_size"]
    kernel = (size, size) if isinstance(size, int) else size
    if layer.kind == "Conv2DTranspose":
        return (*kernel, config["filters"], inputs)
    assert inputs is not None
    return (*kernel, inputs // config.get("groups", 1), config["filters"])
