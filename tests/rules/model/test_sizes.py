"""tcprobe/rules/model/sizes.py, bad.py, words.py: whose a size is, and what is said of a GPU."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.hardware import find_gpu, load_gpus
from tcprobe.report.audit.words import message, related
from tcprobe.rules.words import listed, with_article
from tests.rules.builders import Network, check, dense, found, step_of, tc101, tc104, tc105


def test_layers_tell_who_feeds_whom_where_no_product_does() -> None:
    """A trace names nothing before a transposed convolution, whose forward op has its features second."""
    network = Network(64)
    image = network.add("Conv2D", {"filters": 126, "kernel_size": 3}, network.input(8, 8, 64), name="a")
    network.add("Conv2DTranspose", {"filters": 64, "kernel_size": 3}, image, name="b")
    model = network.model()
    untold = replace(model, products=tuple(replace(p, inputs_from=()) for p in model.products))
    norm = replace(model.layers[0], name="norm", kind="BatchNormalization", inputs_from=("a",), config={})
    layers = (model.layers[0], norm, replace(model.layers[1], inputs_from=("norm",), is_first=False))
    known = replace(untold, layers=layers)
    assert step_of(known).sizes.feeds == {"b": ("a",)}
    assert found(check(tc101, known)) == [("a", "filters", 126, 128)]
    strange = replace(norm, kind="MyOwnLayer")
    assert step_of(replace(known, layers=(layers[0], strange, layers[2]))).sizes.feeds == {}


def test_a_transposed_convolution_has_its_sizes_the_right_way_round() -> None:
    network = Network(64)
    image = network.add("Conv2DTranspose", {"filters": 60, "kernel_size": 3}, network.input(8, 8, 64), name="a")
    network.add("Conv2DTranspose", {"filters": 64, "kernel_size": 3}, image, name="b")
    findings = check(tc101, network.model())
    assert found(findings) == [("a", "filters", 60, 64)]
    assert [text for _, text in related(findings[0])] == ["Conv2DTranspose 'b' takes: channels 60 -> 64"]


def test_a_narrow_table_is_left_alone() -> None:
    model = dense(13, 256, 256)
    assert found(check(tc104, model)) == [("dense_0", "inputs", 13, None)]
    assert not check(tc101, model)


def test_few_filters_inside_a_model_are_no_image() -> None:
    """A block that squeezes to 4 channels: both sides are told of, as notes, and none is to be padded."""
    network = Network(64)
    image = network.add("Conv2D", {"filters": 64, "kernel_size": 3}, network.input(8, 8, 64), name="before")
    small = network.add("Conv2D", {"filters": 4, "kernel_size": 1}, image, name="squeeze")
    network.add("Conv2D", {"filters": 64, "kernel_size": 1}, small, name="expand")
    note = check(tc104, network.model())
    assert found(note) == [("expand", "channels", 4, None)]
    assert "padding so few input channels to 8 ran slower" in message(note[0])


def test_a_reversible_embedding_puts_out_its_width_and_projects_onto_its_words() -> None:
    network = Network(64)
    words = network.input(128)
    width = network.add("ReversibleEmbedding", {"input_dim": 30522, "output_dim": 300}, words, name="words")
    network.features[width] = ("words",)
    network.add("Dense", {"units": 256}, width, name="dense")
    model = network.model()
    assert step_of(model).sizes.output("words") is not None
    assert found(check(tc101, model)) == [("words", "output_dim", 300, 304)]
    assert not check(tc105, model)


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        ("a100-sxm-40", "an A100"),
        ("h100-nvl", "an H100"),
        ("v100-sxm2", "a Tesla V100"),
        ("rtx2080ti", "a GeForce RTX 2080 Ti"),
        ("rtx-a6000", "an RTX A6000"),
        ("gtx1650", "a GeForce GTX 1650"),
        ("b200", "a B200"),
    ],
)
def test_a_gpu_has_its_article_and_no_form(gpu: str, name: str) -> None:
    assert with_article(find_gpu(gpu).name) == name


def test_every_gpu_has_a_short_name() -> None:
    assert all(3 < len(with_article(gpu.name)) < 40 and "(" not in with_article(gpu.name) for gpu in load_gpus())


def test_words_are_listed_with_an_and() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"]) == "a, b and c"
