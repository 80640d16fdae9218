"""TC102 to TC105: the batch, groups, images and tiny heads, vocabularies."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.audit.source.read import parse_source
from tcprobe.report.audit.words import message, why
from tcprobe.rules.base import Subject
from tcprobe.schema.finding import Finding
from tests.rules.builders import FILE, Network, check, dense, found, step_of, tc101, tc102, tc103, tc104, tc105


def one(findings: list[Finding]) -> Finding:
    assert len(findings) == 1
    return findings[0]


def test_the_batch_is_a_note_with_what_was_measured() -> None:
    finding = one(check(tc102, dense(64, 64, batch=4090)))
    assert (finding.severity, finding.size, finding.suggested) == ("note", 4090, None)
    assert why(finding) == (
        "it does not matter, as no pass has the batch innermost in memory (only cuBLAS before 11 asks for it)"
    )
    assert not check(tc102, dense(64, 64, batch=4096))


def test_a_batch_that_nobody_told_is_no_finding() -> None:
    assert not check(tc102, replace(dense(64, 64, batch=1023), batch_known=False))


def test_old_libraries_do_ask_for_the_batch() -> None:
    finding = one(check(tc102, dense(64, 64, batch=4090), "v100-sxm2", library="cublas10"))
    assert (finding.severity, finding.suggested) == ("note", 4096)
    assert "cuBLAS 10 uses Tensor Cores only where it is a multiple of 8" in message(finding)


def test_the_batch_stands_where_the_source_gives_it() -> None:
    text = "import keras\nmodel = keras.Sequential()\nkeras.utils.fit(x, y, batch_size=4090)\n"
    model = dense(64, 64, batch=4090)
    finding = one(list(tc102.check(Subject(model, step_of(model), {FILE: parse_source(text, FILE)}))))
    assert finding.place is not None
    assert finding.place.line == 3


def grouped(filters: int, groups: int, channels: int = 128) -> Network:
    network = Network(256)
    image = network.add("Conv2D", {"filters": channels, "kernel_size": 1}, network.input(28, 28, 64), name="before")
    network.add("Conv2D", {"filters": filters, "kernel_size": 3, "groups": groups}, image, name="grouped")
    return network


def test_channels_of_a_group_are_told_of_once() -> None:
    model = grouped(128, 32).model()
    finding = one(check(tc103, model))
    assert (finding.layer, finding.dimension, finding.size) == ("grouped", "channels per group", 4)
    assert "channels per group=4 (32 groups) is not a multiple of 8" in message(finding)
    assert "XLA does not pad it" in message(finding)
    assert finding.suggested is None
    assert finding.saving_ns is not None
    assert not check(tc101, model)


def test_groups_of_8_or_more_are_fine() -> None:
    assert not check(tc103, grouped(128, 16).model())


def test_filters_of_a_group_count_as_well() -> None:
    finding = one(check(tc103, grouped(96, 8).model()))
    assert (finding.dimension, finding.size) == ("filters per group", 12)


def test_one_channel_a_group_is_a_depthwise_convolution() -> None:
    finding = one(check(tc103, grouped(128, 128).model()))
    assert "a depthwise convolution, which memory bounds" in message(finding)
    assert (finding.severity, finding.saving_ns) == ("note", None)
    network = Network(256)
    network.add("DepthwiseConv2D", {"kernel_size": 3}, network.input(28, 28, 63))
    model = network.model()
    assert not check(tc103, model)
    assert not check(tc101, model)


def test_a_grouped_convolution_is_free_where_no_size_matters() -> None:
    assert one(check(tc103, grouped(128, 32).model(), "p100")).severity == "note"


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_channels_of_an_image_are_left_alone(channels: int) -> None:
    network = Network(256)
    network.add("Conv2D", {"filters": 64, "kernel_size": 7}, network.input(224, 224, channels), name="stem")
    finding = one(check(tc104, network.model()))
    assert (finding.severity, finding.size, finding.suggested) == ("note", channels, None)
    assert "to 8 ran slower where it was measured (1 and 3 channels, V100 and T4)" in message(finding)
    assert not check(tc101, network.model())


def test_five_channels_are_no_image() -> None:
    network = Network(256)
    network.add("Conv2D", {"filters": 64, "kernel_size": 3}, network.input(64, 64, 5), name="stem")
    assert not check(tc104, network.model())
    assert found(check(tc101, network.model())) == [("stem", "channels", 5, 8)]


def test_a_tiny_head_is_left_alone() -> None:
    model = dense(784, 512, 10)
    finding = one(check(tc104, model))
    assert (finding.layer, finding.dimension, finding.size, finding.suggested) == ("dense_1", "units", 10, None)
    assert "bound by memory and launches" in message(finding)
    assert not check(tc101, model)
    assert not check(tc104, dense(784, 512, 16))
    assert not check(tc104, dense(784, 512, 100, 16))


def test_what_a_tiny_layer_takes_from_another_is_the_others() -> None:
    """10 units feed a layer of 64: the 10 inputs there are no second finding."""
    model = dense(64, 10, 64)
    assert [f.layer for rule in (tc101, tc104) for f in check(rule, model)] == ["dense_0"]


def test_a_vocabulary_grows_to_a_multiple_of_64() -> None:
    model = dense(768, 768, 50257, batch=4096)
    finding = one(check(tc105, model))
    assert (finding.size, finding.suggested) == (50257, 50304)
    assert message(finding).endswith("; no label uses the entries added")
    assert "keep the first" not in message(finding)
    assert finding.saving_pct is not None
    assert finding.saving_pct.mid > 5
    assert not check(tc101, model)
    assert not check(tc105, dense(768, 768, 50304, batch=4096))


def test_few_classes_grow_to_a_multiple_of_8() -> None:
    finding = one(check(tc105, dense(768, 1001, batch=4096)))
    assert (finding.suggested, finding.severity) == (1008, "note")  # the labels set how many there are
    assert not check(tc105, dense(768, 998, batch=4096))


def test_wide_units_in_the_middle_are_no_vocabulary() -> None:
    model = dense(768, 4090, 64)
    assert not check(tc105, model)
    assert len(check(tc101, model)) == 1


def test_a_projection_tied_to_an_embedding_is_a_vocabulary() -> None:
    network = Network(64)
    words = network.add("Embedding", {"input_dim": 30522, "output_dim": 256}, network.input(128), name="words")
    logits = network.add("Dense", {"units": 30522}, words, name="logits")
    network.add("Dense", {"units": 64}, logits, name="after")
    assert found(check(tc105, network.model())) == [("logits", "units", 30522, 30528)]


def test_classes_before_an_activation_of_its_own_are_a_vocabulary() -> None:
    """Mixed precision puts the softmax into a layer of its own, in float32."""
    network = Network(4096)
    logits = network.add("Dense", {"units": 1001}, network.input(768), name="logits")
    network.add("Activation", {"activation": "softmax"}, logits, name="softmax")
    model = network.model()
    layers = (model.layers[0], replace(model.layers[1], inputs_from=("logits",)))
    assert found(check(tc105, replace(model, layers=layers))) == [("logits", "units", 1001, 1008)]


def test_what_a_model_puts_out_is_not_its_last_layers_to_choose() -> None:
    network = Network(4096)
    last = network.add("Dense", {"units": 100}, network.input(768), name="last")
    network.add("Activation", {"activation": "tanh"}, last, name="tanh")
    model = network.model()
    layers = (model.layers[0], replace(model.layers[1], inputs_from=("last",)))
    assert not check(tc101, replace(model, layers=layers))
    finding = one(check(tc104, replace(model, layers=layers)))
    assert (finding.severity, finding.suggested) == ("note", None)
    assert "what the model is trained to put out has this size" in message(finding)
