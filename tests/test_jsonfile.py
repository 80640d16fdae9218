"""JSON objects of files that may be missing or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.jsonfile import read_object


@pytest.mark.parametrize(
    ("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", {}), ('{"a"', {}), ("", {}), ('{"a": ' + "[" * 200_000, {})]
)
def test_what_a_file_holds(tmp_path: Path, text: str, found: dict[str, int]) -> None:
    assert read_object(tmp_path / "absent.json") == {}
    (tmp_path / "found.json").write_text(text, encoding="utf-8")
    assert read_object(tmp_path / "found.json") == found
