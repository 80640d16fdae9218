"""Open and analyse in one call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcprobe.analysis import Options
from tcprobe.errors import MissingInput
from tcprobe.flows.report import make_report
from tests.support import shared


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


def test_a_profile_gains_the_derived_tables() -> None:
    profile = make_report(shared("samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"))
    assert {"summary", "kernels", "ops", "devices"} <= set(profile.tables)
    assert len(profile.require("launches")) > 0
    assert profile.require("kernels").numbers("calls").sum() == len(profile.require("launches"))
