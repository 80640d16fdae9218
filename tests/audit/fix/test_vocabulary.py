"""Vocabularies: fixed where labels are numbers of tokens or classes, and nowhere else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tcprobe.audit.fix.fixes import with_fixes
from tcprobe.audit.fix.source.text import apply
from tcprobe.audit.source.read import parse_source
from tcprobe.report.audit import words
from tcprobe.schema.finding import Finding
from tests.audit.fix.fixes.reading import chain, finding, step_of

HEAD = "import keras\nfrom keras import layers\n"
TOKENS = "inputs = keras.Input((16,))\nx = layers.Embedding({v}, 64)(inputs)\n"
LOGITS = "y = layers.Dense({v}{more})(x)\n"


def judged(text: str) -> tuple[Finding, str]:
    """Return the finding on the last layer's vocabulary, and the text with its fix."""
    source = parse_source(text, "/model.py")
    model = chain(source)
    step = step_of(model)
    dense = [x for x in model.layers if x.kind == "Dense"][-1]
    units = dense.config["units"]
    given = replace(finding(dense, "units", units, units + -units % 64), code="TC105")
    (found,) = with_fixes([given], model, step, {source.path: source})
    return found, apply([found], {source.path: source}).get(source.path, text)


def test_one_constant_grows_for_tokens_and_logits() -> None:
    text = HEAD + "V = 50_257  # tokens\n" + TOKENS.format(v="V") + LOGITS.format(v="V", more="")
    found, mended = judged(text)
    assert mended == text.replace("50_257", "50_304")
    assert found.fix is not None and not found.fix.safe
    assert words.fixing(found.fix) == "change input_dim 50257 to 50304 and units 50257 to 50304 together"
    assert words.why(found) is None


def test_an_embedding_with_its_own_literal_stays() -> None:
    text = HEAD + TOKENS.format(v=50257) + LOGITS.format(v=50257, more=", use_bias=False")
    assert judged(text)[1] == text.replace("Dense(50257", "Dense(50304")


def test_classes_behind_a_softmax_and_a_sparse_loss() -> None:
    image = "inputs = keras.Input((2048,))\nx = layers.Dense(1024)(inputs)\n"
    loss = "keras.Model(inputs, y).compile(loss='{}')\n"
    text = HEAD + image + LOGITS.format(v=1003, more=", activation='softmax'")
    assert judged(text + loss.format("sparse_categorical_crossentropy"))[1].count("Dense(1024") == 2
    assert (
        words.why(judged(text + loss.format("mse"))[0])
        == "no fix: whether its labels are numbers of classes is unknown"
    )


@pytest.mark.parametrize(
    ("more", "after", "why"),
    [
        pytest.param("", "loss = keras.losses.CategoricalCrossentropy()\n", "one-hot", id="a dense loss"),
        pytest.param("", "m.compile(loss='categorical_crossentropy')\n", "one-hot", id="a dense loss by name"),
        pytest.param("", "z = keras.utils.to_categorical(t)\n", "one-hot", id="labels made one-hot"),
        pytest.param("", "z = tf.one_hot(t, V)\n", "one-hot", id="one_hot"),
        pytest.param(", activation='sigmoid'", "", "activation", id="several at once"),
        pytest.param("", "z = layers.Dense(8)(y)\n", "another layer|activation|size", id="something takes it"),
        pytest.param("", "t = tf.random.uniform((8, 16), maxval=V)\n", "shape|something else", id="tokens are drawn"),
        pytest.param("", "z = y[..., :V]\n", "shape|something else", id="cut"),
    ],
)
def test_no_fix_where_something_else_must_fit(more: str, after: str, why: str) -> None:
    text = HEAD + "V = 50257\n" + TOKENS.format(v="V") + LOGITS.format(v="V", more=more) + after
    source = parse_source(text, "/model.py")
    model = chain(source)
    dense = next(x for x in model.layers if x.kind == "Dense")
    given = replace(finding(dense, "units", 50257, 50304), code="TC105")
    (found,) = with_fixes([given], model, step_of(model), {source.path: source})
    assert found.fix is None
    assert re.search(rf"no fix: .*({why})", words.why(found) or "")


def test_the_size_of_a_head_is_mended_alone() -> None:
    text = HEAD + "inputs = keras.Input((16, 64))\nx = layers.MultiHeadAttention(4, key_dim=25)(inputs, inputs)\n"
    source = parse_source(text, "/model.py")
    model = chain(source)
    layer = model.layers[0]
    given = replace(finding(layer, "key_dim", 25, 32), code="TC106")
    (found,) = with_fixes([given], model, step_of(model), {source.path: source})
    assert apply([found], {source.path: source})[source.path] == text.replace("25", "32")
