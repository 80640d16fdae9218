"""Programs as tutorials write them: every product is known, and its sizes are those that the program runs with."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.read import parse_source, read_model, read_source
from tcprobe.schema.model import Model

SCRIPTS = sorted((Path(__file__).parent / "tutorials").glob("*.py"))
GAN = Path(__file__).parent / "tutorials" / "tutorial_gan.py"
RUN = [path for path in SCRIPTS if "datasets.mnist" not in path.read_text(encoding="utf-8")]
"""Those that need no data from elsewhere."""
NOISE = (
    "tf.random.uniform([1, 100], -1, 1)",
    "tf.random.normal(shape=(1, 100))",
    "np.random.normal(0, 1, size=(1, 100))",
    "np.random.normal(0, 1, [1, 100])",
    "np.random.randn(1, 100)",
    "np.random.rand(1, 100)",
    "np.random.default_rng().uniform(-1, 1, [1, 100])",
)
BATCH = 3


def products(model: Model) -> list[tuple[str, Any, float]]:
    """Return layer, shapes and calls of every product."""
    return [(p.layer, p.record.input_shapes, p.calls) for p in model.products]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_every_product_is_known(path: Path) -> None:
    (model,) = read_model(read_source(path))
    assert model.products
    assert not [p.name for p in model.products for s in p.record.input_shapes if s is None or None in s]
    assert not model.unseen


def test_the_tutorials_gan() -> None:
    """Calls that make weights, in one loop and another, are no calls of a step: it has one of the generator's."""
    (model,) = read_model(read_source(GAN))
    shapes = {layer.name: (layer.input_shapes[0], layer.output_shape, layer.calls) for layer in model.layers}
    assert shapes["dense"] == ((None, 100), (None, 3087), 1)
    assert shapes["conv2d_3"] == ((None, 28, 28, 7), (None, 28, 28, 1), 1)
    assert shapes["conv2d_4"] == ((None, 28, 28, 1), (None, 28, 28, 24), 2)
    assert shapes["dense_1"] == ((None, 1152), (None, 1), 2)
    assert model.policy == "mixed_float16"


@pytest.mark.parametrize("noise", NOISE)
def test_noise_is_the_same_whoever_draws_it(noise: str) -> None:
    text = GAN.read_text(encoding="utf-8")
    drawn = "np.random.uniform(-1, 1, [1, 100])"
    assert text.count(drawn) == 1
    (model,), (other,) = (read_model(parse_source(t, str(GAN))) for t in (text, text.replace(drawn, noise)))
    assert products(other) == products(model)


def run_inputs(path: Path) -> dict[str, tuple[int, ...]]:
    """Return what layers take where a script runs, and where its model then takes so many samples, by name."""
    keras = pytest.importorskip("keras")
    tensorflow = pytest.importorskip("tensorflow")
    found: dict[str, tuple[int, ...]] = {}
    call = keras.layers.Layer.__call__

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        shape = getattr(args[0], "shape", None)
        if shape is not None and None not in shape and type(self).__module__.startswith("keras.src.layers"):
            found.setdefault(self.name, tuple(shape))
        return call(self, *args, **kwargs)

    keras.utils.clear_session()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras.layers.Layer, "__call__", noted)
        space = runpy.run_path(str(path), run_name="script")
        if "model" in space:
            found.clear()
            given = space["model"].inputs[0]
            space["model"](tensorflow.zeros((BATCH, *given.shape[1:]), given.dtype))
    return found


@pytest.mark.tensorflow
@pytest.mark.parametrize("path", RUN, ids=lambda p: p.stem)
def test_sizes_are_those_that_run(path: Path) -> None:
    ran = run_inputs(path)
    (model,) = read_model(read_source(path))
    batches = {BATCH} if "model = keras.Model" in path.read_text(encoding="utf-8") else {1, 64}
    compared = 0
    for layer in model.layers:
        if layer.name not in ran or not layer.input_shapes or layer.input_shapes[0] is None:
            continue
        first, *rest = layer.input_shapes[0]
        firsts = {first} if first is not None else {b * (layer.samples or 0) for b in batches}
        assert ran[layer.name][1:] == tuple(rest), layer.name
        assert ran[layer.name][0] in firsts, layer.name
        compared += 1
    assert compared >= 5
