"""The phases of a run as probe.json has them, and which parts of training its graph says that a step calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.readers.run_folder.graph import read_graph, read_phases
from tcprobe.schema.op import Part
from tests.readers.run_folder.test_folder import OP, codes, make_run, read

FIRST = {
    "first_step": 0,
    "last_step": 9,
    "parts": [{"key": 3, "name": "pretrain", "calls_per_step": 2}],
    "basis": "period",
}
SECOND = {
    "first_step": 10,
    "last_step": 29,
    "parts": [{"key": 4, "name": "train", "calls_per_step": 1}],
    "basis": "period",
}


def test_phases_are_numbered_from_0_with_their_steps_and_parts() -> None:
    table = read_phases({"phases": [FIRST, SECOND]})
    assert table is not None
    assert table.values("phase") == [0, 1]
    assert table.values("steps") == [10, 20]  # 0 to 9, 10 to 29
    assert json.loads(str(table.values("parts")[0])) == FIRST["parts"]
    assert table.values("basis") == ["period", "period"]
    assert table.values("in_window") == table.values("profiled") == [None, None], "the analysis tells"


def test_parts_that_were_not_recorded_are_marked() -> None:
    for unrecorded, recorded in (([4], [True, False]), (None, [True, True]), ("4", [True, True])):
        table = read_phases({"phases": [FIRST, SECOND]}, {"unrecorded": unrecorded})
        assert table is not None
        assert [part.recorded for text in table.values("parts") for part in Part.all_of(text)] == recorded


@pytest.mark.parametrize(
    "phases",
    [
        None, [], "two", {"0": FIRST}, [FIRST, "next"], [FIRST, {**SECOND, "first_step": 9}], [SECOND, FIRST],
        [{**FIRST, "last_step": -1}], [{**FIRST, "last_step": None}], [{**FIRST, "first_step": True}],
        [{**FIRST, "last_step": 2**60}],
    ],
)  # fmt: skip
def test_damaged_phases_are_none(phases: Any) -> None:
    assert read_phases({"phases": phases}) is None


def test_a_part_without_a_number_is_none_and_an_unknown_count_is_unknown() -> None:
    parts = [
        {"name": "step"},
        "step",
        {"key": 1, "calls_per_step": None},
        {"key": 2, "name": 5, "calls_per_step": True},
    ]
    table = read_phases({"phases": [{**FIRST, "parts": parts}]})
    assert table is not None
    assert json.loads(str(table.values("parts")[0])) == [
        {"key": 1, "name": "", "calls_per_step": None},
        {"key": 2, "name": "", "calls_per_step": None},
    ]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIRST, "key", "name", "phases"]), inner, max_size=4)
)))  # fmt: skip
def test_any_json_is_phases_or_none(value: Any) -> None:
    table = read_phases({"phases": value})
    assert table is None or table.numbers("steps").min() >= 1


def function(name: str, key: int | None, calls: float | None, **op: Any) -> dict[str, Any]:
    """A function that trains, of one op."""
    return {
        "name": f"__inference_{name}_7", "python_name": f"train.{name}", "training": True, "key": key,
        "calls_per_step": calls, "ops": [{**OP, **op}],
    }  # fmt: skip


def write_graph(folder: Path, *functions: dict[str, Any]) -> Path:
    path = folder / "graph.json"
    path.write_text(json.dumps({"schema": 1, "functions": functions}))
    return path


def test_ops_know_their_part_and_how_often_they_run(tmp_path: Path) -> None:
    path = write_graph(
        tmp_path,
        function("train", 4, 1, repeats=20, at_least=True, calls_per_step=20),
        function("pretrain", 3, 0, calls_per_step=7),
        function("old", None, None, calls_per_step=None),
    )
    table, notes = read_graph(path)
    assert table is not None
    assert notes == ()
    assert table.values("part") == [4, 3, None]
    assert table.values("repeats") == [20.0, None, None]
    assert table.values("at_least") == [True, False, False]
    assert table.values("calls_per_step") == [20.0, 0.0, None], "never called is never run, whatever the op says"


def test_what_a_phase_calls_is_training_whatever_its_function_is_said_to_do(tmp_path: Path) -> None:
    untrained = [{**function(name, key, 0), "training": False} for name, key in (("pretrain", 3), ("validate", 9))]
    path = write_graph(tmp_path, *untrained, function("train", 4, 1))
    (tmp_path / "probe.json").write_text(json.dumps({"phases": [FIRST, SECOND]}))
    table, _ = read_graph(path)
    assert table is not None
    assert table.values("part") == [3, 4]


def test_a_run_folder_has_the_table_of_phases(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    (folder / "probe" / "probe.json").write_text(json.dumps({"schema": 1, "phases": [FIRST, SECOND]}))
    profile = read(folder)
    assert profile.require("phases").values("last_step") == [9, 29]
    assert profile.metadata.source_of("phases", "steps") == "run_folder"


def test_an_older_run_folder_has_no_phases_and_says_nothing_of_them(tmp_path: Path) -> None:
    profile = read(make_run(tmp_path / "run"))
    assert profile.table("phases") is None
    assert "phases" not in profile.absent
    assert not [code for code in codes(profile) if "phase" in code]
