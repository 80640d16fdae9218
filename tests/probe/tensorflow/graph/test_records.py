"""Attributes and the file itself."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tcprobe.probe.tensorflow.graph.records import attributes, json_value, write_json


def test_attributes_are_those_that_shape_the_arithmetic() -> None:
    values = {"transpose_a": False, "strides": [1, 2, 2, 1], "padding": b"SAME", "T": object(), "explicit_paddings": []}
    definition = SimpleNamespace(attr=[SimpleNamespace(name=name) for name in values])
    found = attributes(SimpleNamespace(op_def=definition, get_attr=values.get))
    assert found == {"transpose_a": False, "strides": [1, 2, 2, 1], "padding": "SAME"}


def test_what_json_cannot_hold_is_left_out() -> None:
    assert json_value([b"a", (1, 2.5), True, object()]) == ["a", [1, 2.5], True, None]


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    write_json(str(path), {"a": 1})
    with pytest.raises(TypeError):
        write_json(str(path), {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json"]
