"""The phases of a run as probe.json has them, and which parts of training its graph says that a step calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.readers.run_folder.periods import phase_of, read_phases, with_recorded
from tcprobe.schema.columns import Table
from tcprobe.schema.op import Part
from tests.readers.run_folder.test_folder import OP, codes, graph_ops, make_run, read

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


@pytest.mark.parametrize(
    ("graph", "recorded"),
    [
        ({"unrecorded": [4]}, [True, False]),  # as probes wrote it themselves
        ({"unrecorded": None}, [True, True]),
        ({"unrecorded": "4"}, [True, True]),
        ({"functions": [{"key": 4}, {"key": [3]}, "x"]}, [False, True]),
        ({"functions": "x"}, [True, True]),
        ({}, [True, True]),
    ],
)
def test_parts_that_were_not_recorded_are_marked(graph: dict[str, Any], recorded: list[bool]) -> None:
    """An eager part that has no function in the graph; one that no step begins with multiplies nothing."""
    seen = {"phases": [FIRST, SECOND], "parts": [{"key": 3, "eager": True}, {"key": 4, "eager": True}, 7]}
    table = read_phases(seen)
    assert table is not None
    marked = with_recorded(table, seen, graph)
    assert [part.recorded for text in marked.values("parts") for part in Part.all_of(text)] == recorded
    follows = {**seen, "parts": [{"key": 3, "eager": True, "begins": False}, {"key": 4, "eager": False}]}
    assert with_recorded(table, follows, {"functions": []}).values("parts") == table.values("parts")


@pytest.mark.parametrize(
    ("window", "row"),
    [({"first_step": 9}, 0), ({"first_step": 10}, 1), ({"first_step": 99}, 1), (None, 1), ({"first_step": "9"}, 1)],
)
def test_the_window_lies_in_a_phase_and_without_one_the_last_counts(window: Any, row: int) -> None:
    table = read_phases({"phases": [FIRST, SECOND]})
    assert table is not None
    assert phase_of(table, window) == row


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
    table, notes = graph_ops(path)
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
    table, _ = graph_ops(path)
    assert table is not None
    assert table.values("part") == [3, 4]


def raw(name: str, key: int, calls: Any = None, **more: Any) -> dict[str, Any]:
    """A function as the probe leaves it to be divided, of one op."""
    op = {"repeats": 3.0, "at_least": False, "in_steps_loop": False, **more.pop("op", {})}
    made = function(name, key, calls, **op)
    del made["ops"][0]["calls_per_step"]
    return {**made, **more}


def divided(folder: Path, *functions: dict[str, Any], row: int = -1, **first: Any) -> Table:
    """Return the graph of a probe that leaves the division to the reader; `first` changes the first phase."""
    path = write_graph(folder, *functions)
    phases = [{**FIRST, **first}, SECOND]
    (folder / "probe.json").write_text(json.dumps({"phases": phases, "parts": [{"key": 3}, {"key": 4}]}))
    table, notes = graph_ops(path, row)
    assert table is not None and notes == ()
    return table


def test_calls_in_a_step_are_those_of_the_parts(tmp_path: Path) -> None:
    """Two calls in a step of the first phase, one in a step of the second; three executions in a call."""
    functions = raw("pretrain", 3), raw("train", 4), raw("other", 9)
    table = divided(tmp_path, *functions, row=0)
    assert table.values("calls_per_step") == [6.0, 0.0, 0.0]
    assert table.values("calls_in_phases") == ["[2.0, 0.0]", "[0.0, 1.0]", "[0.0, 0.0]"]
    assert divided(tmp_path, *functions).values("calls_per_step") == [0.0, 3.0, 0.0], "the last phase"


def test_a_function_counts_by_itself_and_as_often_as_eager_parts_call_it(tmp_path: Path) -> None:
    """By hand: 2 calls of part 3 call it 1.5 times each; part 4 calls it once, beside one call of its own."""
    shared = raw("shared", 4, callers=[{"key": 3, "calls": 1.5}, {"key": 4, "calls": 1}, {"key": "x"}])
    half = raw("half", 3, share=0.5)
    table = divided(tmp_path, shared, half)
    assert table.values("calls_in_phases") == ["[3.0, 2.0]", "[1.0, 0.0]"]
    assert table.values("calls_per_step") == [6.0, 0.0]


@pytest.mark.parametrize("first", [{"parts": []}, {"parts": [{"key": 3, "calls_per_step": None}]}])
def test_calls_of_a_phase_whose_parts_are_not_known_are_unknown(first: dict[str, Any], tmp_path: Path) -> None:
    table = divided(tmp_path, raw("pretrain", 3), row=0, **first)
    assert (table.values("calls_in_phases"), table.values("calls_per_step")) == (["[null, 0.0]"], [None])


@pytest.mark.parametrize(
    ("calls", "repeats", "a_step", "at_least"),
    [(0.125, 24.0, 3.0, False), (1, 3.0, 3.0, True), (0, 3.0, 0.0, True), (None, 3.0, None, True)],
)
def test_a_loop_that_makes_the_steps_turns_as_often_as_a_call_makes_steps(
    calls: float | None, repeats: float, a_step: float | None, at_least: bool, tmp_path: Path
) -> None:
    op = {"op": {"in_steps_loop": True}}
    table = divided(tmp_path, raw("pretrain", 3, **op), row=0, parts=[{"key": 3, "calls_per_step": calls}])
    found = [table.values(column)[0] for column in ("repeats", "calls_per_step", "at_least")]
    assert found == [repeats, a_step, at_least]
    unknown = divided(tmp_path, raw("pretrain", 3, op={"in_steps_loop": True, "repeats": None}), row=0)
    assert [unknown.values(column)[0] for column in ("repeats", "calls_per_step", "at_least")] == [None, None, False]


def test_what_knows_its_steps_has_divided(tmp_path: Path) -> None:
    """The API counts the calls in the steps of a notebook."""
    assert divided(tmp_path, raw("step", 7, 2.0)).values("calls_per_step") == [6.0]


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
