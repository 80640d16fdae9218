"""Open and analyse in one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcprobe.analysis import Options
from tcprobe.errors import MissingInput, UsageError
from tcprobe.flows.report import make_report
from tests.readers.nsys.made import small
from tests.support import ROOT, shared


def test_a_missing_path_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(MissingInput):
        make_report(tmp_path / "none.xplane.pb")


@pytest.mark.parametrize(
    ("recorded", "asked", "judged"),
    [(None, None, "a100-sxm-40"), ("v100-sxm2", None, "v100-sxm2"), ("v100-sxm2", "t4", "t4")],
)
def test_a_run_without_a_gpu_is_judged_for_the_one_it_was_meant_for(
    recorded: str | None, asked: str | None, judged: str, tmp_path: Path
) -> None:
    run = {"schema": 1, "tcprobe": "0.1.0", "gpu_used": False, "target_gpu": recorded}
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert make_report(tmp_path, Options(target_gpu=asked)).metadata.target_gpu == judged


def test_a_gpu_that_nobody_knows_is_refused_where_one_ran_too() -> None:
    with pytest.raises(UsageError, match="no GPU called 'a100-xsm'") as refused:
        make_report(ROOT / "tests/fixtures/gpu_run/run", Options(target_gpu="a100-xsm"))
    assert "a100-sxm-40" in str(refused.value.hint)


def test_a_recorded_gpu_that_nobody_knows_costs_nothing_but_a_note(tmp_path: Path) -> None:
    run = {"schema": 1, "tcprobe": "9.0.0", "gpu_used": False, "target_gpu": "b999"}
    (tmp_path / "run.json").write_text(json.dumps(run))
    metadata = make_report(tmp_path).metadata
    assert metadata.target_gpu == "a100-sxm-40"
    assert [note.message for note in metadata.notes if note.code == "target-unknown"] == [
        "the target GPU of the run, 'b999', is not in gpus.csv and does not count"
    ]


def test_a_profile_gains_the_derived_tables() -> None:
    profile = make_report(shared("samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"))
    assert {"summary", "kernels", "ops", "devices"} <= set(profile.tables)
    assert len(profile.require("launches")) > 0
    assert profile.require("kernels").numbers("calls").sum() == len(profile.require("launches"))


@pytest.mark.parametrize("level", ["warning", "error"])
def test_steps_that_a_run_asked_for_in_vain_cost_a_warning_and_nothing_beside_an_error(
    level: str, tmp_path: Path
) -> None:
    said = {"code": "no-tensorflow", "message": "no step", "remedy": "name the ranges: --step-range", "level": level}
    run = {
        "schema": 1,
        "tcprobe": "0.1.0",
        "profiler": {"name": "nsys"},
        "exit_code": 0,
        "partial": False,
        "step_range": "none such",
    }
    (tmp_path / "run.json").write_text(json.dumps({**run, "notes": [said]}))
    (tmp_path / "raw/nsys").mkdir(parents=True)
    small().write(tmp_path / "raw/nsys/report.sqlite")
    notes = {note.code: note for note in make_report(tmp_path).metadata.notes}
    assert ("iterations-not-there" in notes) == (level == "warning")
    assert notes["no-tensorflow"].remedy is None


def test_settings_that_cannot_be_read_cost_a_report_nothing_but_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "tests" / "fixtures" / "xplane" / "two_gpus.xplane.pb"
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pyproject.toml"
    file.write_text("[tool.tcprobe")
    (note,) = (one for one in make_report(path).metadata.notes if one.code == "settings-not-read")
    assert note.level == "warning" and "pyproject.toml" in note.message
    file.write_text("[tool.other]\n")
    assert not [one for one in make_report(path).metadata.notes if one.code == "settings-not-read"]
    file.write_text("[tool.tcprobe]\nselekt = 3\n")
    with pytest.raises(UsageError, match="selekt"):
        make_report(path)
