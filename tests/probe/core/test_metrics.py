"""Figures in the lines that a script logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.script.tee import LONGEST_PRINTED, Patterns


def found(line: str, *user: str) -> list[tuple[str, float, str]]:
    return [tuple(figure) for figure in Patterns(list(user)).find(line)]


GAN = "(0, 12), G Loss: 0.699, D Loss: 0.612, step_time: 0.129, throughput: 63603.233 img/s."


@pytest.mark.parametrize("head", ["", "2026-11-21 05:01:02,123 - INFO - "])
def test_gan_line(head: str) -> None:
    assert found(head + GAN) == [
        ("g_loss", 0.699, ""),
        ("d_loss", 0.612, ""),
        ("step_time", 0.129, "s"),
        ("throughput", 63603.233, "img/s"),
    ]


def test_the_batch_here_and_on_a_gpu() -> None:
    assert found("no GPU: cpu_batch=60, gpu_batch=4090") == [("cpu_batch", 60.0, ""), ("gpu_batch", 4090.0, "")]


def test_mnist_line() -> None:
    line = "(0, 46), Loss: 0.11277, step_time: 0.00532, throughput: 1.93e+05 img/s."
    assert found(line) == [("loss", 0.11277, ""), ("step_time", 0.00532, "s"), ("throughput", 1.93e5, "img/s")]


def test_keras_lines() -> None:
    bar = "\x1b[1m12/20\x1b[0m \x1b[32m━━━━\x1b[0m \x1b[1m0s\x1b[0m 5ms/step - accuracy: 0.1250 - loss: 2.3026"
    assert found(bar) == [("accuracy", 0.125, ""), ("loss", 2.3026, "")]
    line = "20/20 - 0s - loss: 0.1670 - val_loss: 0.1398"
    assert found(line) == [("loss", 0.167, ""), ("val_loss", 0.1398, "")]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("loss=nan", "nan"),
        ("loss: inf", "inf"),
        ("loss: -Infinity acc", "-inf"),
        ("loss: -1.5e-3", "-0.0015"),
        ("Loss:.5", "0.5"),
    ],
)
def test_odd_numbers(line: str, value: str) -> None:
    assert [str(figure[1]) for figure in found(line)] == [value]


@pytest.mark.parametrize(
    "line",
    ["", "loss", "no loss at all: none", "loss: 1e999", "loss: infinite", "glossary: 3", "x" * (LONGEST_PRINTED + 1)],
)
def test_lines_without_figures(line: str) -> None:
    assert found(line) == []


def test_user_patterns() -> None:
    assert found("ppl 12.5 at 3", r"ppl (?P<perplexity>[\d.]+) at (?P<rank>\d)") == [
        ("perplexity", 12.5, ""),
        ("rank", 3.0, ""),
    ]
    assert found("lr is 0.1 Hz", r"(?P<name>\w+) is (?P<value>[\d.]+) (?P<unit>\w+)") == [("lr", 0.1, "Hz")]
    assert found("score 7", r"score (\d)") == [("metric", 7.0, "")]
    assert found("score seven", r"score (\w+)") == []


@given(st.text(max_size=300))
def test_any_line_gives_numbers_or_nothing(line: str) -> None:
    for name, value, unit in found(line):
        assert name
        assert isinstance(value, float)
        assert isinstance(unit, str)
