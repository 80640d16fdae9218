"""What a report says of launches that repeat."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.report.run.about import facts
from tcprobe.report.run.tables import view_section
from tcprobe.report.run.views import STEP_RANGE_VIEW
from tcprobe.report.run.words import start_text, step_text, unit_text
from tcprobe.schema.profile import Metadata, Profile, Window
from tcprobe.schema.waits import StartUp
from tests.report.builders import gpu_profile, table, texts

UNIT = {
    "device": 1, "kernels": 1119, "repeats": 16, "start_ns": 0, "end_ns": 300, "unit_ns": 16_700_000.0,
    "kernel_ns": 1e7, "share_pct": 95.0, "is_step": "unknown",
}  # fmt: skip


def captured(*units: dict[str, Any]) -> Profile:
    return Profile(Metadata("nsys", window=Window(basis="whole capture"))).with_tables(table("units", *units))


def test_a_unit_has_its_kernels_its_repeats_and_its_time_and_is_called_no_step() -> None:
    text = "a unit of 1,119 kernels 16 times, 16.7 ms each: nothing says whether that is a step"
    assert unit_text(captured(UNIT)) == text
    assert ("repeats", text) in facts(captured(UNIT))
    assert "16 times: nothing" in unit_text(captured({**UNIT, "unit_ns": None}))


def test_gpus_that_repeat_alike_are_counted_and_others_are_not() -> None:
    others = ({**UNIT, "device": 0}, {**UNIT, "device": 2, "repeats": 15})
    assert "16 times on each of 2 GPUs, 16.7 ms each" in unit_text(captured(UNIT, *others))


@pytest.mark.parametrize(
    ("is_step", "basis", "said"),
    [
        ("yes", "updates", "each a step, by its update"), ("no", "updates", "no step: what updates"),
        ("no", "marks", "no step: those that the profile marks"),
    ],
)  # fmt: skip
def test_what_says_whether_it_is_a_step_is_said(is_step: str, basis: str, said: str) -> None:
    assert said in unit_text(captured({**UNIT, "is_step": is_step, "basis": basis}))


def test_where_steps_are_counted_or_nothing_repeats_nothing_is_said() -> None:
    assert unit_text(captured()) == ""
    profile = gpu_profile().with_tables(table("units", UNIT))
    assert profile.counted_steps and unit_text(profile) == "" and "repeats" not in dict(facts(profile))


RANGE = {
    "pattern": r"^iteration (\d+)$", "thread": 1, "calls": 30, "numbers": "rising", "median_ns": 5e6, "kernels": 40.0,
    "share_pct": 97.5,
}  # fmt: skip


def listed(*ranges: dict[str, Any]) -> Profile:
    return captured().with_tables(table("step_ranges", *ranges))


def test_ranges_that_count_though_nobody_says_so_are_named_with_what_speaks_for_them() -> None:
    text = step_text(listed(RANGE))
    assert r"ranges ^iteration (\d+)$ count: their number rises" in text and "97.5 %" in text
    assert ("steps", text) in facts(listed(RANGE))
    assert "they come one after the other" in step_text(listed({**RANGE, "numbers": "none"}))
    assert step_text(listed({**RANGE, "why_not": "few"})) == "" == step_text(captured())


def test_candidates_are_listed_as_they_are_typed() -> None:
    section = view_section(listed({**RANGE, "why_not": "part"}), STEP_RANGE_VIEW, None)
    assert section is not None
    ((typed, *_, why),) = [row[:6] for row in texts(section)]
    assert typed == r"--step-range '^iteration (\d+)$'" and why == "its name is that of a part of a step or of a run"


def test_a_start_up_that_was_cut_off_is_said_first() -> None:
    cut = replace(captured(), start_up=StartUp(2_020_000_000, 1060, 1271, "units"))
    text = "the first 2.02 s (1,060 kernels, 1,271 copies and sets) are left out: "
    text += "it ends where what repeats begins, and keeps its pace"
    assert start_text(cut) == text and ("start-up", text) in facts(cut)
    assert "a long pause" in start_text(replace(cut, start_up=StartUp(5, 0, 0, "pause")))
    assert start_text(captured()) == ""
