"""Two models of keras.applications through the command line, each finding checked against the layers themselves.

Each TC101, TC103 and TC105 names a layer with a setting or input of that size, which breaks the rule of 8, and one
above a note breaks the rule of 16 bytes too; every layer whose filters or units break the rule of 8 is found.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.support import needs_tensorflow

traced = [
    pytest.mark.tensorflow,
    needs_tensorflow,
]
MODELS = ("EfficientNetB0", "MobileNetV2")
SCRIPT = """
import json
import keras


def build(name, told):
    model = getattr(keras.applications, name)(weights=None)
    found = {}
    for layer in model._flatten_layers(include_self=False):
        own = {n: getattr(layer, n, None) for n in ("filters", "units", "groups")}
        own = {n: v for n, v in own.items() if isinstance(v, int)}
        if own and "Depthwise" not in type(layer).__name__:
            found[layer.name] = {**own, "taken": layer.input.shape[-1]}
    with open(told, "w") as file:
        json.dump(found, file)
    return model
"""
QUIET = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
SIZED = ("TC101", "TC103", "TC105")
OUTPUTS, INPUTS = ("filters", "units"), ("channels", "inputs")
ELEMENTS = {None: 4, "float32": 4, "float16": 8, "bfloat16": 8}  # per 16 bytes; TF32 is stored in 4 bytes
Sizes = dict[str, dict[str, int]]


@cache
def audited(name: str, folder: Path) -> tuple[dict[str, Any], Sizes]:
    script, told = folder / "applications.py", folder / f"{name}.json"
    script.write_text(SCRIPT)
    command = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--mode", "traced", f"{script}:build"]
    command += ["--python", warm.python()]
    command += ["--arg", f"name={name}", "--arg", f"told={told}", "--format", "json"]
    done = subprocess.run(command, env=QUIET, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    (model,) = json.loads(done.stdout)["audited"]
    return model, json.loads(told.read_text())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("applications")


@pytest.mark.parametrize(
    "name", [pytest.param(MODELS[0], marks=[*traced, pytest.mark.long]), pytest.param(MODELS[1], marks=traced)]
)
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


def wrong(findings: list[dict[str, Any]], layers: Sizes, dtype: str | None = None) -> list[str]:
    """Return what contradicts the layers: false findings, and bad sizes that were missed.

    Args:
        findings: from the JSON document.
        layers: settings and input features of each layer that multiplies matrices.
        dtype: dtype that the audit was run with; None for TF32.
    """
    sized = [f for f in findings if f["code"] in SIZED]
    problems = [text for finding in sized for text in _wrong(finding, layers, ELEMENTS[dtype])]
    listed = {(_name(f), f["dimension"]) for f in sized} | {(_name(f), "") for f in findings if f["code"] == "TC104"}
    for name, own in layers.items():
        missed = [d for d in OUTPUTS if own.get(d, 8) % 8 and not {(name, d), (name, "")} & listed]
        problems += [f"missed {name} {d}={own[d]}" for d in missed]
    return problems


def _wrong(finding: dict[str, Any], layers: Sizes, elements: int) -> list[str]:
    name, dimension, size = _name(finding), str(finding["dimension"]), finding["size"]
    own = layers.get(name)
    if own is None:
        return [f"{finding['code']} {name}: no such layer"]
    groups = own.get("groups", 1)
    has = own.get(dimension, own["taken"] if dimension in INPUTS else size)
    problems = [] if size in (has, has // groups) else [f"{name} {dimension}={size}: the layer has {has}"]
    if size % 8 == 0:
        problems.append(f"{name} {dimension}={size} is a multiple of 8")
    if finding["severity"] != "note" and size % elements == 0:
        problems.append(f"{name} {dimension}={size} is a multiple of 16 bytes, and no note")
    return problems


def _name(finding: dict[str, Any]) -> str:
    return str(finding["layer"]).rpartition("/")[2]


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
