"""Several sources in one report: formats that tcprobe does not have yet, from `open_profile` to what a person reads."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.readers import READERS
from tcprobe.readers.base import Reader
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile, ProfileSource
from tests.fixtures.gpu_run.make import PROFILE, RUN
from tests.readers.toys import Counted, Ranged, write_counted, write_ranged
from tests.report.builders import rendered, run

ALL: tuple[Reader, ...] = (*READERS, Ranged(), Counted())


def shown(profile: Profile, form: str = "text") -> str:
    return rendered(form, run(profile, 0))


def reported(path: Path, readers: tuple[Reader, ...] = ALL) -> Any:
    return json.loads(shown(analyse(open_profile(path, readers)), "json"))


def rows(report: Any, table: str, column: str) -> dict[str, Any]:
    return {row[column]: row for row in report["tables"][table]}


@pytest.fixture
def ranged(tmp_path: Path) -> Path:
    return write_ranged(tmp_path / "a.ranges.json")


def test_ranges_become_steps_layers_and_ops(ranged: Path) -> None:
    report = reported(ranged)
    steps = rows(report, "iterations", "iteration")
    assert list(steps) == [10, 11, 12, 13, 14, 15]
    assert {(s["launches"], s["sum_ns"], s["memory_ns"]) for s in steps.values()} == {(3, 100_000, 3_000)}
    assert {s["duration_ns"] for s in steps.values()} == {1_000_000, None}
    layers = rows(report, "layers", "layer")
    assert {name: layer["sum_ns"] for name, layer in layers.items()} == {
        "critic/dense": 240_000, "critic/norm": 60_000, "(no layer)": 300_000,
    }  # fmt: skip
    assert layers["critic/dense"]["forward_ns"] == layers["critic/dense"]["tc_ns"] == 240_000
    ops = rows(report, "ops", "op")
    assert set(ops) == {"critic/dense/linear", "critic/norm", "AddmmBackward"}
    assert (ops["critic/dense/linear"]["tc_capable"], ops["AddmmBackward"]["layer"]) == ("yes", None)
    (gemm,) = report["tables"]["gemms"]
    assert (gemm["m"], gemm["n"], gemm["k"], gemm["dtype"]) == (64, 63, 60, "float16")
    assert {(bad["layer"], bad["size"]) for bad in report["tables"]["bad_sizes"]} >= {("critic/dense", 63)}


def test_a_person_reads_them(ranged: Path) -> None:
    text = shown(analyse(open_profile(ranged, ALL)))
    for said in ("the toy", "critic/dense", "critic/dense/linear", "Iterations", "10 to 15"):
        assert said in text, said


def test_a_counter_beside_a_profile_decides(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    kernels = rows(reported(tmp_path / "run"), "kernels", "kernel")
    named = {u: next(k for k, row in kernels.items() if row["uses_tc"] == u) for u in ("yes", "no", "unknown")}
    write_counted(tmp_path / "run/raw/counters.csv", (named["yes"], 0), (named["unknown"], 0))
    report = reported(tmp_path / "run")
    found = rows(report, "kernels", "kernel")
    assert (found[named["yes"]]["uses_tc"], found[named["yes"]]["basis"]) == ("no", "counter")
    assert found[named["unknown"]]["evidence"] == "sm__inst_executed_pipe_tensor.sum 0 inst"
    assert found[named["no"]] == kernels[named["no"]]
    share = {row["metric"]: row for row in report["summary"]}
    assert share["coverage_pct"]["value"] > 97.8
    (note,) = [n for n in report["notes"] if n["code"] == "counters-contradict-names"]
    assert named["yes"] in note["message"]
    text = shown(analyse(open_profile(tmp_path / "run", ALL)), "markdown")
    assert "hardware counters class 9 kernels (9.0 % of the time) otherwise than their names" in text
    assert report["tables"]["kernel_counters"][0]["metric"] == "sm__inst_executed_pipe_tensor.sum"
    assert "kernel_counters" not in report["absent"]


def test_what_was_taken_from_which_is_said(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    write_counted(tmp_path / "run/raw/counters.csv", ("k", 0))
    metadata = open_profile(tmp_path / "run", ALL).metadata
    assert metadata.format == "xplane"
    assert metadata.paths == (str(tmp_path / "run"),)
    record, xplane, counted = metadata.sources
    assert (record.format, record.tables) == ("run_folder", ("graph_ops", "steps", "metrics"))
    assert xplane == ProfileSource(
        "xplane",
        (str(tmp_path / "run" / PROFILE),),
        ("launches", "launch_configs", "op_details", "memory_ops", "host_ops", "host_events", "step_marks", "devices"),
    )
    assert (counted.format, counted.tables) == ("counted", ("kernel_counters",))
    assert metadata.source_of("kernel_counters", "value") == "counted"
    assert metadata.source_of("graph_ops", "layer") == "run_folder"
    assert metadata.source_of("gemms", "m") is None


def session(folder: Path) -> Path:
    place = folder / "plugins/profile/2026_01_01_00_00_00"
    place.mkdir(parents=True)
    shutil.copy(RUN / PROFILE, place / "node1.xplane.pb")
    return place


def test_files_of_one_session_are_joined(tmp_path: Path) -> None:
    place = session(tmp_path)
    write_counted(place / "counters.csv", ("k", 0))
    profile = open_profile(tmp_path, ALL)
    assert [s.format for s in profile.metadata.sources] == ["xplane", "counted"]
    assert profile.metadata.notes == open_profile(place / "node1.xplane.pb", ALL).metadata.notes
    assert len(profile.require("kernel_counters")) == 1


def test_two_runs_are_never_mixed(tmp_path: Path) -> None:
    place = session(tmp_path)
    write_counted(tmp_path / "counters.csv", ("k", 0))
    profile = open_profile(tmp_path, ALL)
    assert profile.table("kernel_counters") is None
    assert [n.code for n in profile.metadata.notes][-1] == "other-formats-present"
    xplane, counted = profile.metadata.sources
    assert (xplane.paths, xplane.unread) == ((str(place / "node1.xplane.pb"),), None)
    assert counted.unread == "nothing tells that it is of the same run"


def test_of_two_captures_the_richer_gives_clock_and_rows(tmp_path: Path) -> None:
    place = session(tmp_path)
    write_ranged(place / "a.ranges.json")
    profile = open_profile(tmp_path, ALL)
    alone = open_profile(place / "node1.xplane.pb", ALL)
    assert len(profile.require("launches")) == len(alone.require("launches"))
    assert profile.table("ranges") is None
    _, ranged = profile.metadata.sources
    assert ranged.tables == ()
    assert ranged.left_out["launches"] == ranged.left_out["ranges"]
    assert "another capture" in ranged.left_out["ranges"]
    assert ranged.left_out["devices"] == "xplane gives it"


def test_a_source_that_cannot_be_read_costs_its_tables_alone(tmp_path: Path) -> None:
    place = session(tmp_path)
    (place / "a.ranges.json").write_text("{")
    profile = open_profile(tmp_path, ALL)
    assert len(profile.require("launches"))
    (note,) = [n for n in profile.metadata.notes if n.code == "unreadable-profile"]
    assert "no JSON" in note.message
    assert profile.metadata.sources[1].unread == note.message


def test_one_source_is_told_too(tmp_path: Path) -> None:
    (only,) = open_profile(RUN / PROFILE).metadata.sources
    assert (only.format, only.paths, only.columns) == ("xplane", (str(RUN / PROFILE),), {})
    assert "launches" in only.tables


def test_the_hint_names_every_reader(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    with pytest.raises(Exception, match="not a profile") as caught:
        open_profile(tmp_path / "x", ALL)
    hint = str(getattr(caught.value, "hint", ""))
    nsys = "the CSV of Nsight Systems (nsys stats --format csv)"
    ncu = "the CSV of Nsight Compute (ncu --csv --page raw)"
    assert hint.endswith(f"the CSV or JSON reports of DLProf, {nsys}, {ncu}, *.ranges.json, or a CSV of counters")
