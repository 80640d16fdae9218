"""A run with phases is reported per phase; of a run of one, nothing new is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.report.run.tables import written
from tcprobe.schema.profile import Profile
from tests.report.builders import PROFILES, phases_profile, rendered, run, table, texts


def one_phase() -> Profile:
    profile = phases_profile()
    return profile.with_tables(profile.require("phases").take(np.array([1])))


def cells(profile: Profile) -> tuple[tuple[str, ...], ...]:
    (section,) = (s for s in run(profile, by=("phase",)).screen() if getattr(s, "name", "") == "Phases of the run")
    return texts(section)  # type: ignore[arg-type]


def test_each_phase_has_a_row_and_says_how_to_profile_it() -> None:
    first, second, third = cells(phases_profile())
    # Of 512 x 512 on 64 samples: 33.6 MFLOP; twice, then 5 + at least 12 times, then 1 + 12.
    assert first == (
        "1",
        "0 to 39",
        "part_0 x 2",
        "5.00 ms",
        "67.1 MFLOP",
        "1",
        "no, its kernels are unknown: --iter-start 2",
    )
    assert second == ("2", "40 to 99", "part_1 x 5, part_2", "20.0 ms", "at least 570 MFLOP", "2", "yes")
    assert third[-1] == "no, its kernels are unknown: --iter-start 102 --iter-stop 114", "it ends before a window does"


def test_what_is_unknown_of_a_phase_is_never_0() -> None:
    parts = json.dumps([{"key": 4, "name": "", "calls_per_step": None}])
    rows = [
        {"phase": i, "first_step": 10 * i, "last_step": 10 * i + 9, "steps": 10, "parts": parts, "in_window": i == 1}
        for i in range(2)
    ]
    shown = cells(phases_profile().with_tables(table("phases", *rows)))
    assert shown == (("1", "0 to 9", "part 4"), ("2", "10 to 19", "part 4")), "columns without any figure are not shown"


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_one_phase_prints_nothing_new(format_: str) -> None:
    one = one_phase()
    without = replace(one, tables={name: t for name, t in one.tables.items() if name != "phases"})
    assert rendered(format_, run(one)) == rendered(format_, run(without))


def test_programs_get_the_phases_of_a_run_with_several() -> None:
    data = json.loads(rendered("json", run(phases_profile())))
    assert [row["phase"] for row in data["tables"]["phases"]] == [0, 1, 2]
    assert "phases" not in json.loads(rendered("json", run(one_phase())))["tables"]
    assert "phases" not in {t.spec.name for t in written(PROFILES["gpu"]())}
    assert rendered("csv", run(phases_profile(), by=("phase",))).startswith("phase,first_step,last_step,steps,parts,")
