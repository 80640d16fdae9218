"""Names of other frameworks: what counts as a layer, product or model that is not judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.keras.catalogue import LAYER_CLASSES
from tcprobe.source.frameworks import _TABLE, ELSEWHERE, foreign, foreign_base, foreign_layer


@pytest.mark.parametrize(
    ("name", "library", "kind"),
    [
        ("torch.nn.Linear", "PyTorch", "layer"),
        ("torch.nn.functional.linear", "PyTorch", "product"),
        ("sonnet.src.conv.Conv2D", "Sonnet", "layer"),
        ("torch.matmul", "PyTorch", "product"),
        ("flax.linen.Dense", "Flax", "layer"),
        ("flax.nnx.Linear", "Flax", "layer"),
        ("haiku.Conv2D", "Haiku", "layer"),
        ("sonnet.Linear", "Sonnet", "layer"),
        ("sonnet.nets.MLP", "Sonnet", "model"),
        ("equinox.nn.Linear", "Equinox", "layer"),
        ("tensorflow.layers.dense", "TensorFlow 1", "layer"),
        ("tensorflow.contrib.slim.conv2d", "TensorFlow 1", "layer"),
        ("tensorflow.contrib.layers.fully_connected", "TensorFlow 1", "layer"),
        ("tensorflow.matmul", "TensorFlow", "product"),
        ("tensorflow.nn.conv2d", "TensorFlow", "product"),
        ("keras.ops.einsum", "Keras", "product"),
        ("jax.numpy.dot", "JAX", "product"),
        ("tensorflow_hub.KerasLayer", "TensorFlow Hub", "model"),
        ("tensorflow_addons.layers.Maxout", "TensorFlow Addons", "layer"),
        ("keras_nlp.layers.TransformerEncoder", "KerasNLP", "layer"),
        ("my_package.nn.SparseLinear", "my_package", "layer"),
        ("keras.layers.NotYetKnown", "Keras", "layer"),
        ("transformers.TFBertModel.from_pretrained", "Transformers", "model"),
    ],
)
def test_what_is_not_judged(name: str, library: str, kind: str) -> None:
    found = foreign(name)
    assert found is not None and (found.library, found.kind) == (library, kind)


@pytest.mark.parametrize(
    "name",
    [
        "torch.nn.ReLU", "torch.nn.Sequential", "torch.zeros", "flax.linen.relu", "tensorflow.reshape", "numpy.dot",
        "keras.Input", "keras.layers.Layer", "keras.Model", "keras.layers.add", "tfa.layers.GroupNormalization",
        "keras_nlp.layers.TransformerEncoder.from_config.x", "transformers.AutoTokenizer.from_pretrained", "print", "",
        "mylib.layers.build_model",
    ],
)  # fmt: skip
def test_what_is_no_reason_to_speak_up(name: str) -> None:
    assert foreign(name) is None


def test_no_layer_of_the_catalogue_is_foreign() -> None:
    for row in LAYER_CLASSES:
        assert foreign(row.path) is None and foreign_layer(row.path) is None, row.path


def test_only_models_are_extended() -> None:
    assert foreign_base("torch.nn.Module") is not None
    assert foreign_base("torch.nn.Linear") is None


def test_the_table_names_nothing_twice_and_knows_its_libraries() -> None:
    listed = [(m, n) for _, _, modules, names in _TABLE for m in modules.split() for n in names.split()]
    assert len(listed) == len(set(listed))
    assert {library for library, *_ in _TABLE} >= ELSEWHERE


@given(st.text(st.sampled_from("abL._0"), max_size=12))
def test_any_text_is_a_name(name: str) -> None:
    found = foreign(name)
    assert found is None or found.name == name.rpartition(".")[2] or found.kind == "model"
