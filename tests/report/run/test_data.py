"""A run as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tcprobe import __version__
from tcprobe.schema.tables import TABLES
from tests.report.builders import PROFILES, gpu_profile, rendered, run


def document(name: str = "gpu", top: int | None = None, by: tuple[str, ...] = ()) -> dict[str, Any]:
    text = rendered("json", run(PROFILES[name](), top, by))
    parsed: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return parsed


@pytest.mark.parametrize("name", PROFILES)
def test_it_is_json_with_a_schema(name: str) -> None:
    found = document(name)
    first = ["schema", "tcprobe", "metadata", "summary", "tables", "advice"]
    later = ("waiting", "loss_scale_need", "tuning", "start_up", "verdict", "bar", "absent", "no_what_if", "notes")
    assert list(found) == [*first, *later]
    assert (found["schema"], found["tcprobe"]) == (1, __version__)


@pytest.mark.parametrize("name", PROFILES)
def test_rows_have_the_columns_of_the_contract(name: str) -> None:
    for table, rows in document(name)["tables"].items():
        for row in rows:
            assert list(row) == [c.name for c in TABLES[table].columns]


def test_missing_is_null_and_figures_are_whole() -> None:
    found = document()
    assert {row["metric"]: row["value"] for row in found["summary"]}["tc_pipe_active_pct"] is None
    assert found["tables"]["kernels"][0]["sum_ns"] == 42_000_000
    assert found["tables"]["iterations"][3]["duration_ns"] is None
    assert found["notes"][0] == {
        "code": "lost-events",
        "message": "7 events were lost",
        "remedy": "profile fewer steps: --iter-stop",
        "level": "warning",
    }


def test_tables_and_rows_can_be_chosen() -> None:
    assert {name: len(rows) for name, rows in document(by=("op", "layer"), top=2)["tables"].items()} == {
        "ops": 2,
        "layers": 2,
    }


def test_what_json_cannot_hold_is_null() -> None:
    odd = gpu_profile(run={"a": [float("nan"), {"b": float("inf")}], "c": 1})
    assert json.loads(rendered("json", run(odd)))["metadata"]["run"] == {"a": [None, {"b": None}], "c": 1}
