"""Which steps the tables of a report are of: how many they add up, and whether any is known."""

from __future__ import annotations

from typing import Final

from tcprobe.schema.profile import Profile

OF_AN_EXECUTION: Final = "FLOP/execution"


def steps_counted(profile: Profile) -> int | None:
    """Return how many steps the window has; None if the source does not distinguish steps."""
    table = profile.require("iterations")
    if profile.metadata.window.first is None or not len(table):
        return None
    return int(table.numbers("steps")[table.numbers("in_window")].sum()) or None


def step_known(profile: Profile) -> bool:
    """Say whether FLOPs are those of a step; else they are of one execution of the graph, each of its programs once."""
    kinds = {row["metric"]: row["reason_kind"] for row in profile.require("summary").rows()}
    return kinds.get("flops_per_step") != "no_step"


def of_a_step(profile: Profile) -> str:
    """Return the heading of a column of FLOPs."""
    return "FLOP/step" if step_known(profile) else OF_AN_EXECUTION


def summed(profile: Profile) -> str:
    """Return which steps a table's kernel times add up, in words; empty if the steps are unknown."""
    steps = steps_counted(profile)
    if steps is None:
        return ""
    tuned = " with autotuning" if profile.tuning else ""
    return f"kernel time of 1 step{tuned}" if steps == 1 else f"kernel time: sum of {steps:,} steps{tuned}"
