"""Attributes, groups and the file itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcprobe.probe.tensorflow.graph.records import attributes, groups, json_value, write_json


@pytest.mark.parametrize(
    ("kind", "data_format", "inputs", "outputs", "expected"),
    [
        ("Conv2D", "NHWC", [[8, 9, 9, 16], [3, 3, 8, 4]], [[8, 9, 9, 4]], 2),
        ("Conv2D", "NCHW", [[8, 16, 9, 9], [3, 3, 16, 4]], [[8, 4, 9, 9]], 1),
        ("Conv2DBackpropInput", "NHWC", [[4], [3, 3, 8, 4], [8, 9, 9, 4]], [[8, 9, 9, 16]], 2),
        ("Conv2DBackpropFilter", "NHWC", [[8, 9, 9, 16], [4], [8, 9, 9, 4]], [[3, 3, 8, 4]], 2),
        ("Conv3D", "NDHWC", [[8, 9, 9, 9, 16], [3, 3, 3, 16, 4]], [[8, 9, 9, 9, 4]], 1),
        ("Conv2D", "NHWC", [[8, 9, 9, None], [3, 3, 8, 4]], [None], None),
        ("Conv2D", "NHWC", [None, [3, 3, 8, 4]], [None], None),
        ("DepthwiseConv2dNative", "NHWC", [[8, 9, 9, 16], [3, 3, 16, 1]], [[8, 9, 9, 16]], None),
        ("MatMul", "NHWC", [[8, 16], [16, 4]], [[8, 4]], None),
    ],
)
def test_groups(kind: str, data_format: str, inputs: Any, outputs: Any, expected: int | None) -> None:
    assert groups(kind, data_format, inputs, outputs) == expected


def test_attributes_are_those_that_shape_the_arithmetic() -> None:
    values = {"transpose_a": False, "strides": [1, 2, 2, 1], "padding": b"SAME", "T": object(), "explicit_paddings": []}
    found = attributes("Conv2D", values.get, list(values), [[8, 9, 9, 16], [3, 3, 8, 4]], [None])
    assert found == {"transpose_a": False, "strides": [1, 2, 2, 1], "padding": "SAME", "groups": 2}


def test_what_json_cannot_hold_is_left_out() -> None:
    assert json_value([b"a", (1, 2.5), True, object()]) == ["a", [1, 2.5], True, None]


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):
        write_json(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
