"""A run folder is read whole, in part and damaged: a file that is missing costs its tables and nothing else."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import UsageError
from tcprobe.jsonfile import read_object
from tcprobe.readers import READERS
from tcprobe.readers.open import open_profile
from tcprobe.readers.run_folder import folder as run_folder
from tcprobe.readers.run_folder.graph import load_graph, read_graph
from tcprobe.readers.run_folder.periods import read_phases
from tcprobe.readers.run_folder.steps import TableAndNotes, read_metrics, read_steps
from tcprobe.schema.profile import HalfOutput, Policy, Profile
from tests.fixtures.xplane.make import serialise
from tests.support import ROOT

OP = {
    "op": "dense/MatMul",
    "op_type": "MatMul",
    "executed_op": "dense/Relu",
    "executed_type": "_FusedMatMul",
    "executes": "yes",
    "pass": "forward",
    "layer": "model/dense",
    "layer_class": "Dense",
    "input_shapes": [[None, 60], [60, 63]],
    "input_dtypes": ["float32", "float32"],
    "output_shapes": [[None, 63]],
    "output_dtypes": ["float32"],
    "attributes": {"transpose_a": False},
    "calls_per_step": 2,
    "source": "train.py:9",
    "called_from": "train.py:20",
    "alias_of": ["dense/BiasAdd"],
}
STEPS = "step,start_ns,kind\n0,100,warm-up\n1,400,profiled\n2,600,after\n"
METRICS = "step,name,value,unit\n-1,loss,3.5,\n0,throughput,1e3,img/s\n1,loss,nan,\n"


def graph(*ops: Any, training: bool = True) -> dict[str, Any]:
    return {"schema": 1, "functions": [{"name": "__inference_step_9", "training": training, "ops": list(ops)}]}


def make_run(folder: Path, **changed: Any) -> Path:
    (folder / "raw").mkdir(parents=True)
    (folder / "probe").mkdir()
    run = {
        "schema": 1, "tcprobe": "0.1.0", "command": ["train.py", "--x"],
        "profiler": {"name": "tensorflow", "version": "2"},
        "exit_code": 0, "partial": False, "interrupted": False, "host": "node7", "tensorflow": "2.21.0",
        "precision": "tf32", "xla": None, "gpu_used": False, "target_gpu": "t4", "notes": [], "gaps": [], **changed,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "probe" / "config.json").write_text("{}")
    (folder / "probe" / "graph.json").write_text(json.dumps(graph(OP)))
    (folder / "probe" / "steps.csv").write_text(STEPS)
    (folder / "probe" / "metrics.csv").write_text(METRICS)
    return folder


def read(folder: Path) -> Profile:
    return open_profile(folder)


def codes(profile: Profile) -> list[str]:
    return [n.code for n in profile.metadata.notes]


def test_it_is_the_first_reader() -> None:
    assert READERS[0] is run_folder


def test_a_folder_its_record_and_the_folder_of_all_runs_are_found(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "runs" / name) / "run.json" for name in ("a", "b", ".partial-c")]
    assert run_folder.finds(runs[0].parent) == [runs[0]]
    assert run_folder.finds(runs[0]) == [runs[0]]
    assert run_folder.finds(tmp_path / "runs") == runs[:2]
    assert run_folder.finds(runs[2].parent) == [runs[2]]


def test_runs_further_down_are_offered_and_read_as_runs(tmp_path: Path) -> None:
    """Neither the profile in a run nor one that is not sealed yet is what a folder above holds."""
    (tmp_path / "old" / "deep").mkdir(parents=True)
    one = make_run(tmp_path / "project" / "tcprobe-runs" / "a-20261121T050102Z")
    shutil.copy(ROOT / "tests/fixtures/xplane/cpu_graph.xplane.pb", one / "raw")
    make_run(tmp_path / "project" / "tcprobe-runs" / ".partial-c")
    assert run_folder.finds(tmp_path) == [one / "run.json"]
    assert read(tmp_path).metadata.paths == (str(one),)
    other = make_run(tmp_path / "project" / "tcprobe-runs" / "b-20261122T050102Z")
    with pytest.raises(UsageError, match="2 profiles below this directory") as refused:
        read(tmp_path)
    assert f"{other}, {one}" in refused.value.message
    assert refused.value.hint == f"name one of them, as in: tcprobe report {other}"


def test_runs_that_never_ended_are_named_beside_those_that_did(tmp_path: Path) -> None:
    one, begun = make_run(tmp_path / "runs" / "a"), make_run(tmp_path / "runs" / ".partial-c")
    (note,) = [n for n in read(tmp_path / "runs").metadata.notes if n.code == "unended-runs"]
    assert note.message == f"{tmp_path / 'runs'}: besides 1 whose run did not end, or goes on: {begun}"
    assert note.remedy == f"name one of them, as in: tcprobe report {begun}"
    assert "unended-runs" not in codes(read(one)) + codes(read(begun))
    make_run(tmp_path / "runs" / "b")
    with pytest.raises(UsageError, match=f"; besides 1 whose run did not end, or goes on: {begun}"):
        read(tmp_path / "runs")
    shutil.rmtree(one)
    shutil.rmtree(tmp_path / "runs" / "b")
    assert "unended-runs" not in codes(read(tmp_path / "runs"))


def test_a_foreign_run_json_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"name": "wandb"}')
    assert run_folder.finds(tmp_path) == run_folder.finds(tmp_path / "run.json") == []
    assert run_folder.finds(tmp_path / "nothing") == []


def test_the_metadata_come_from_the_record(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    metadata = read(made).metadata
    assert (metadata.format, metadata.paths, metadata.command) == ("run_folder", (str(made),), ("train.py", "--x"))
    assert (metadata.framework, metadata.host) == ("tensorflow 2.21.0", "node7")
    assert metadata.profiler is None, "nothing was recorded"
    assert (metadata.precision, metadata.xla, metadata.gpu_used) == ("tf32", None, False)
    assert (metadata.target_gpu, metadata.partial, metadata.run["tcprobe"]) == ("t4", False, "0.1.0")


def test_the_policy_is_that_of_the_probe(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", precision=None)
    output = {
        "layer": "net/head",
        "layer_class": "Dense",
        "activation": "softmax",
        "dtype": "float16",
        "source": "a.py:7",
    }
    policy = {"name": "mixed_float16", "set_by": "script", "layers": {"mixed_float16": 3}, "outputs": [output]}
    (made / "probe" / "probe.json").write_text(json.dumps({"policy": policy}))
    metadata = read(made).metadata
    expected = Policy("mixed_float16", "script", {"mixed_float16": 3}, outputs=(HalfOutput(*output.values()),))
    assert (metadata.policy, metadata.computes_in) == (expected, "mixed_float16")
    assert metadata.xla is None
    (made / "probe" / "probe.json").write_text(json.dumps({"policy": {"clustered_by": "script"}}))
    assert read(made).metadata.xla is True  # whatever --no-xla asked for
    for odd in ({"policy": 7}, {"policy": {"outputs": [7], "layers": {"a": -0.5}, "set_by": "me"}}, {}):
        (made / "probe" / "probe.json").write_text(json.dumps(odd))
        assert read(made).metadata.policy in (None, Policy())


def test_a_framework_that_is_installed_and_was_not_imported_is_none_of_the_runs(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", exit_code=None)  # tcprobe was killed
    (made / "probe" / "probe.json").write_text(json.dumps({"finished": True, "tensorflow": None}))
    assert read(made).metadata.framework is None


def test_graph_ops_are_as_the_probe_recorded_them(tmp_path: Path) -> None:
    (row,) = read(make_run(tmp_path / "run")).require("graph_ops").rows()
    assert row["function"] == "__inference_step_9"
    assert (row["op"], row["executed_op"], row["executes"]) == ("dense/MatMul", "dense/Relu", "yes")
    assert (row["pass"], row["layer"], row["layer_class"]) == ("forward", "model/dense", "Dense")
    assert (row["input_shapes"], row["output_shape"]) == ("[[null, 60], [60, 63]]", "[null, 63]")
    assert (row["input_dtypes"], row["output_dtype"]) == ('["float32", "float32"]', "float32")
    assert json.loads(str(row["attributes"])) == {"transpose_a": False, "aliases": ["dense/BiasAdd"]}
    assert row["at_least"] is False
    assert (row["calls_per_step"], row["source"], row["called_from"]) == (2.0, "train.py:9", "train.py:20")


@pytest.mark.parametrize(
    ("op", "period", "more", "calls"),
    [
        ({}, 1, (), 1.0),
        ({"op": "rnn/while/cell/MatMul"}, 1, (), None),
        ({"repeats": None}, 1, (), None),
        ({}, 2, (), None),
        ({}, 1, ({"name": "__inference_other_2", "python_name": "other", "training": True, "ops": []},), None),
    ],
)
def test_a_function_that_is_the_step_runs_once_in_it(
    tmp_path: Path, op: dict[str, Any], period: int, more: tuple[dict[str, Any], ...], calls: float | None
) -> None:
    made = make_run(tmp_path / "run")
    document = graph({**OP, "calls_per_step": None, **op})
    document["functions"][0] |= {"python_name": "step", "calls_per_step": None}
    document["functions"] += more
    (made / "probe" / "graph.json").write_text(json.dumps(document))
    (made / "probe" / "probe.json").write_text(json.dumps({"steps": {"period": period, "functions": ["step"]}}))
    assert read(made).require("graph_ops").values("calls_per_step") == [calls]


def test_scopes_of_layers_are_as_the_probe_recorded_them(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    assert "recorded no scope" in read(made).absent["scopes"]
    scopes = {"m_1/pool_1": "m/pool", "": "m", "m_1": 3, "m_1/fc_1": ""}
    (made / "probe" / "graph.json").write_text(json.dumps({**graph(OP), "scopes": scopes}))
    assert list(read(made).require("scopes").rows()) == [{"scope": "m_1/pool_1", "layer": "m/pool"}]


def test_what_says_that_an_op_executes_is_kept(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    document = graph(OP, {**OP, "executes": "unknown"}, {**OP, "executes": "no"})
    document["functions"][0]["executed_basis"] = "traced"
    (made / "probe" / "graph.json").write_text(json.dumps(document))
    assert read(made).require("graph_ops").values("executes_basis") == ["traced", "traced", "liveness"]


def test_what_the_modules_of_xla_multiply_stands_beside_what_was_traced(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    shutil.copy(ROOT / "tests/fixtures/xplane/xla.xplane.pb", made / "raw")
    profile = open_profile(made)
    functions = profile.require("graph_ops").values("function")
    assert functions[0] == "__inference_step_9"
    assert set(functions[1:]) == {"a_inference_train_7__.5(36)"}


def graph_ops(path: Path, row: int = -1) -> TableAndNotes:
    """Read graph.json, its calls divided by the phases of the probe.json beside it."""
    probe = read_object(path.with_name("probe.json"))
    held, notes = load_graph(path)
    table, more = read_graph(path, held, probe, read_phases(probe), row)
    return table, (*notes, *more)


def test_functions_that_do_not_train_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph(OP, training=False)))
    assert graph_ops(path) == (None, ())


def test_steps_run_from_start_to_start(tmp_path: Path) -> None:
    steps = read(make_run(tmp_path / "run")).require("steps")
    # 400 - 100, 600 - 400, and nothing follows the last.
    assert steps.values("duration_ns") == [300, 200, None]
    assert steps.values("kind") == ["warm-up", "profiled", "after"]


def test_steps_of_one_call_share_its_length(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("step,start_ns,kind\n0,100,warm-up\n5,600,measured\n10,1600,measured\n11,1500,measured\n")
    table, notes = read_steps(path, {})
    assert table is not None
    assert (table.values("duration_ns"), notes) == ([100, 200, None, None], ())


def test_a_lost_line_is_no_length(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("step,start_ns,kind\n0,100,warm-up\n1,?,other\n2,400,other\n3,300,measured\n")
    table, notes = read_steps(path, {})
    assert table is not None
    assert (table.values("duration_ns"), table.values("kind")[1]) == ([None, None, None], "measured")
    assert len(notes) == 1


@pytest.mark.parametrize("cut", ["2,60", "2,600,", "2,600,aft"])
def test_a_last_line_that_was_cut_off_is_dropped(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text("step,start_ns,kind\n0,100,warm-up\n1,400,profiled\n" + cut)
    table, notes = read_steps(path, {})
    assert table is not None
    assert (table.values("step"), table.values("duration_ns"), notes) == ([0, 1], [300, None], ())


def test_metrics_are_figures_with_units(tmp_path: Path) -> None:
    rows = list(read(make_run(tmp_path / "run")).require("metrics").rows())
    assert [(r["step"], r["name"], r["unit"]) for r in rows] == [
        (None, "loss", None), (0, "throughput", "img/s"), (1, "loss", None)
    ]  # fmt: skip
    assert rows[1]["value"] == 1000.0
    assert math.isnan(float(rows[2]["value"]))  # a loss that is none, not a missing one


def test_infinity_is_a_figure_and_digits_past_a_double_are_none(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,name,value,unit\n0,loss,-inf,\n1,loss,1{'0' * 400},\n2,loss,1e999,\n")
    table, (note,) = read_metrics(path)
    assert table is not None and table.values("value") == [-math.inf]
    assert note.code == "damaged-metrics" and "2 lines" in note.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"exit_code": 7, "partial": True}, "failed with exit code 7"),
        ({"exit_code": 137, "partial": True}, "ended by SIGKILL"),
        ({"exit_code": 255, "partial": True}, "failed with exit code 255"),
        ({"exit_code": 130, "partial": True, "interrupted": True}, "was interrupted"),
        ({"exit_code": None, "partial": True}, "how the workload ended was not recorded"),
    ],
)
def test_a_run_that_did_not_end_well_says_how(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    profile = read(make_run(tmp_path / "run", **changed))
    assert profile.metadata.partial
    assert [said in n.message for n in profile.metadata.notes if n.code == "partial-run"] == [True]


@pytest.mark.parametrize(
    ("pauses", "lengths"),
    [
        ([{"start_ns": 12, "stop_ns": 48}], [10, None, 10]),  # seen from a moment before until a moment after
        ([{"start_ns": 2, "stop_ns": 8}], [None, 30, 10]),
        ([{"start_ns": 55, "stop_ns": 90}], [10, 30, 10]),  # in the last step, which has no length
        ([{"start_ns": 48, "stop_ns": 12}, {"start_ns": "a"}, 3, {"start_ns": 12, "stop_ns": 10**400}], [10, 30, 10]),
        ("no list", [10, 30, 10]),
    ],
)
def test_a_step_in_which_the_process_stood_still_has_no_length(
    tmp_path: Path, pauses: object, lengths: list[float | None]
) -> None:
    made = make_run(tmp_path / "run")
    starts = "".join(f"{step},{start},measured\n" for step, start in enumerate((0, 10, 40, 50)))
    (made / "probe/steps.csv").write_text("step,start_ns,kind\n" + starts)
    (made / "probe/probe.json").write_text(json.dumps({"pauses": pauses}))
    profile = read(made)
    found = [None if math.isnan(each) else each for each in profile.require("steps").numbers("duration_ns")]
    assert found == [*lengths, None]


def test_a_workload_that_outlived_tcprobe_says_how_it_ended(tmp_path: Path) -> None:
    made = make_run(tmp_path / ".partial-train-20261121T050102Z-x1", exit_code=None, partial=True)
    (made / "probe/probe.json").write_text(json.dumps({"finished": True, "exit_code": 0}))
    ended = read(made)
    (made / "probe/probe.json").write_text(json.dumps({"finished": True, "exit_code": 3}))
    failed = read(made)
    assert (codes(ended), ended.metadata.partial) == (["partial-run"], False)
    assert (codes(failed), failed.metadata.partial) == (["partial-run"], True)
    assert "the workload ended well: all of it was recorded" in ended.metadata.notes[0].message
    assert "the workload failed with exit code 3: the figures are" in failed.metadata.notes[0].message
    for profile in (ended, failed):
        assert str(profile.metadata.notes[0].remedy).endswith(f" {tmp_path}/train-20261121T050102Z")


def test_what_probe_and_capture_said_is_passed_on(tmp_path: Path) -> None:
    said = {"code": "no-steps", "message": "none found", "remedy": "mark it", "level": "error"}
    gaps = [{"hook": "NVTX", "reason": "no module named nvtx"}]
    notes = read(make_run(tmp_path / "run", notes=[said, {"code": 3}, "x"], gaps=gaps)).metadata.notes
    assert [(n.code, n.level) for n in notes] == [("no-steps", "error"), ("probe-gap", "note")]
    assert (notes[0].remedy, notes[1].message) == ("mark it", "not recorded: NVTX: no module named nvtx")


def test_a_killed_parent_leaves_what_the_probe_said(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", exit_code=None, partial=True, gpu_used=None)
    said = {"gpu_used": True, "notes": [{"code": "cap", "message": "m"}]}
    (made / "probe" / "probe.json").write_text(json.dumps(said))
    profile = read(made)
    assert profile.metadata.gpu_used is True
    assert codes(profile) == ["partial-run", "cap"]


def test_a_run_without_its_tables_says_why(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    for name in ("graph.json", "steps.csv", "metrics.csv"):
        (made / "probe" / name).unlink()
    profile = read(made)
    assert profile.tables == {}
    assert profile.absent["graph_ops"].startswith("the probe recorded no")
    assert profile.absent["steps"] == "no training step was seen"
    assert profile.absent["launches"] == "the profiler left no file in this run"
    assert codes(profile) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000, b'{"functions": 3}'])
def test_a_damaged_graph_is_a_note(tmp_path: Path, content: bytes) -> None:
    made = make_run(tmp_path / "run")
    (made / "probe" / "graph.json").write_bytes(content)
    profile = read(made)
    assert codes(profile) == ["damaged-graph"]
    assert profile.table("graph_ops") is None
    assert len(profile.require("steps")) == 3


def test_damaged_ops_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph(OP, 3, {"op": "x"})))
    table, notes = graph_ops(path)
    assert table is not None
    assert len(table) == 1
    assert "2 of 3 ops lack a name or type" in notes[0].message


def test_a_damaged_record_leaves_the_tables(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    (made / "run.json").write_text('{"tcprobe": "0.1')
    profile = read(made)
    assert codes(profile) == ["damaged-run"]
    assert profile.metadata.partial
    assert len(profile.require("graph_ops")) == 1


def test_a_damaged_profile_is_a_note_and_the_rest_is_there(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    raw = made / "raw" / "plugins" / "profile" / "x" / "vm.xplane.pb"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(b"\x0a\xff\xff\xff\xff\x0f" + b"\x00" * 40)
    profile = read(made)
    assert len(profile.require("steps")) == 3
    if READERS[1].finds(made / "raw"):
        assert codes(profile) == ["unreadable-profile"]
        assert "cannot be read" in profile.absent["launches"]


def test_two_sessions_below_raw_are_a_note_and_the_rest_is_there(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    for session in ("2026_01_01_00_00_00", "2026_01_02_00_00_00"):
        raw = made / "raw" / "plugins" / "profile" / session / "vm.xplane.pb"
        raw.parent.mkdir(parents=True)
        raw.write_bytes(serialise("two_gpus"))
    profile = read(made)
    (note,) = profile.metadata.notes
    assert (note.code, note.level) == ("unreadable-profile", "error")
    assert str(note.remedy).endswith(f"{made}/raw/plugins/profile/2026_01_02_00_00_00")
    assert len(profile.require("steps")) == 3
    assert profile.table("launches") is None


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, a: bytes, b: bytes, c: bytes) -> None:
    made = make_run(tmp_path_factory.mktemp("fuzz") / "run")
    (made / "probe" / "graph.json").write_bytes(a)
    (made / "probe" / "steps.csv").write_bytes(STEPS.encode() + b)
    (made / "probe" / "metrics.csv").write_bytes(METRICS.encode() + c)
    profile = read(made)
    assert len(profile.require("steps")) >= 3
    assert len(profile.require("metrics")) >= 3


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=3) | st.integers() | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(OP)), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(OP)), VALUES))
def test_no_value_breaks_an_op(tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("op") / "graph.json"
    path.write_text(json.dumps(graph({**OP, **changed})))
    table, notes = graph_ops(path)
    assert (table is None) == bool(notes)


def test_metrics_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,name,value,unit\n0,loss,high,\n1,loss,2,\n,acc,0.5,%\n3,,1,\n")
    table, notes = read_metrics(path)
    assert table is not None
    assert table.values("step") == [1, None]
    assert "2 lines are damaged" in notes[0].message


def test_an_exceptions_text_is_not_shown(tmp_path: Path) -> None:
    gaps = [{"hook": hook, "reason": "KeyError: 'x'", "raised": True} for hook in ("eager steps", "graph record")]
    notes = read(make_run(tmp_path / "run", gaps=[*gaps, {"hook": "NVTX", "reason": "no module"}])).metadata.notes
    assert [note.message for note in notes] == [
        "not recorded: NVTX: no module",
        "not recorded: eager steps, graph record, which failed here; probe/probe.json says how",
    ]
