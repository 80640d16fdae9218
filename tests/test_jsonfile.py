"""JSON objects of files that may be missing or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcprobe.jsonfile import DEEPEST, parse, read_object, whole


@pytest.mark.parametrize(
    ("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", {}), ('{"a"', {}), ("", {}), ('{"a": ' + "[" * 200_000, {})]
)
def test_what_a_file_holds(tmp_path: Path, text: str, found: dict[str, int]) -> None:
    assert read_object(tmp_path / "absent.json") == {}
    (tmp_path / "found.json").write_text(text, encoding="utf-8")
    assert read_object(tmp_path / "found.json") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("9" * 5000, None),
        ("-" + "9" * 4000, None),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("-" + str(2**63 - 1), 1 - 2**63),
        ("-0", 0),
        ("1e999", None),
        ("-1e999", None),
        ("NaN", None),
        ("-Infinity", None),
        ("1e308", 1e308),
        ("0." + "1" * 5000, 1 / 9),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("\ufeff[1]", [1]),
        ('"\\u0000"', "\0"),
    ],
)
def test_a_number_that_no_column_holds_is_unknown(text: str, found: object) -> None:
    assert parse(text) == found
    json.dumps(parse(text), allow_nan=False)


@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deep_is_damaged(start: str, end: str) -> None:
    for levels in (DEEPEST + 1, 10_000, 200_000):
        with pytest.raises(ValueError, match=f"deeper than {DEEPEST} levels"):
            parse(start * levels + "1" + end * levels)
    assert parse(start * DEEPEST + "1" + end * DEEPEST)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", 0), ("007", 7), ("9" * 5000, None), ("", None), ("-1", None), ("²", None), ("٣", None), (" 1", None)],
)
def test_digits_of_a_foreign_text(text: str, found: int | None) -> None:
    assert whole(text) == found
