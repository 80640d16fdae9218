"""Three models of keras.applications through the command line, each finding checked against the layers themselves.

`bench/applications.py` checks all of them the same way.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.applications import SCRIPT, Sizes, timed, wrong
from tests import warm
from tests.support import needs_tensorflow

traced = [
    pytest.mark.tensorflow,
    needs_tensorflow,
]
MODELS = ("EfficientNetB0", "MobileNetV2")  # more in the bench


@cache
def audited(name: str, folder: Path) -> tuple[dict[str, Any], Sizes]:
    script, told = folder / "applications.py", folder / f"{name}.json"
    script.write_text(SCRIPT)
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--mode", "traced", f"{script}:build"]
    command += ["--python", warm.python()]
    done, _ = timed([*command, "--arg", f"name={name}", "--arg", f"told={told}", "--format", "json"])
    assert done.returncode in (0, 1), done.stderr
    (model,) = json.loads(done.stdout)["audited"]
    return model, json.loads(told.read_text())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("applications")


@pytest.mark.parametrize("name", [pytest.param(name, marks=traced) for name in MODELS])
def test_no_false_alarm_no_missed_layer_and_every_product_costed(name: str, folder: Path) -> None:
    model, layers = audited(name, folder)
    assert wrong(model["findings"], layers) == []
    assert model["products"] == model["costed"] > 2 * len(layers)
    assert not [f for f in model["findings"] if f["severity"] != "note"]
    assert model["unseen"] == []


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        pytest.param("EfficientNetB0", [4, 6, 6, 10, 10, 20, 20, 20, 28, 28, 28], marks=traced),
        pytest.param("MobileNetV2", [], marks=traced),
    ],
)
def test_the_squeezed_channels_of_se_blocks_are_notes_and_nothing_else_is_found(
    name: str, sizes: list[int], folder: Path
) -> None:
    model, _ = audited(name, folder)
    assert sorted(f["size"] for f in model["findings"] if f["code"] == "TC101") == sizes
    assert all(f["layer"].endswith("_se_reduce") for f in model["findings"] if f["code"] == "TC101")


@pytest.mark.parametrize("name", [pytest.param("MobileNetV2", marks=traced)])
def test_depthwise_convolutions_are_no_products(name: str, folder: Path) -> None:
    model, layers = audited(name, folder)
    assert len(layers) == 36  # 35 convolutions and the classes
    assert model["products"] == 3 * 36 - 1  # no gradient of the images
    assert model["layers"] > 150


def finding(**changes: Any) -> dict[str, Any]:
    named = {"code": "TC101", "layer": "net/conv", "dimension": "filters", "size": 30, "severity": "warning"}
    return {**named, **changes}


LAYERS: Sizes = {"conv": {"filters": 30, "groups": 1, "taken": 63}, "head": {"units": 10, "taken": 64}}


def test_the_check_itself_accepts_what_is_so() -> None:
    head = finding(layer="net/head", dimension="units", size=10, severity="note")
    channels = finding(dimension="channels", size=63)
    assert wrong([finding(), channels, head], LAYERS) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"size": 31}, "the layer has 30"),
        ({"dimension": "channels", "size": 62}, "the layer has 63"),
        ({"layer": "net/other"}, "no such layer"),
    ],
)
def test_the_check_itself_finds_false_alarms(changes: dict[str, Any], says: str) -> None:
    head = finding(layer="net/head", dimension="units", size=10, severity="note")
    (problem,) = [p for p in wrong([finding(), head, finding(**changes)], LAYERS) if "missed" not in p]
    assert says in problem


def test_the_check_itself_finds_missed_layers_and_a_warning_without_cause() -> None:
    assert wrong([], LAYERS) == ["missed conv filters=30", "missed head units=10"]
    even: Sizes = {"conv": {"filters": 36, "groups": 1, "taken": 64}}
    assert wrong([finding(size=36)], even) == ["conv filters=36 is a multiple of 16 bytes, and no note"]
    assert wrong([finding(size=36)], even, "float16") == []
    assert wrong([finding(size=32)], {"conv": {"filters": 32, "taken": 64}}, "float16") == [
        "conv filters=32 is a multiple of 8",
        "conv filters=32 is a multiple of 16 bytes, and no note",
    ]
