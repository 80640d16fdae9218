"""Open and analyse in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import MissingInput
from tcprobe.flows.report import make_report
from tests.support import shared


def test_a_missing_path_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(MissingInput):
        make_report(tmp_path / "none.xplane.pb")


def test_a_profile_gains_the_derived_tables() -> None:
    profile = make_report(shared("samples/xplane/tf24_t4_alexnet_fp32.xplane.pb"))
    assert {"summary", "kernels", "ops", "devices"} <= set(profile.tables)
    assert len(profile.require("launches")) > 0
    assert profile.require("kernels").numbers("calls").sum() == len(profile.require("launches"))
