"""Word which steps the tables of a report are of: how many they add up, and whether any is known."""

from __future__ import annotations

from typing import Final

from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile

OF_AN_EXECUTION: Final = "FLOP/execution"
FEWEST_PHASES: Final = 2  # of a run of one phase all figures are, and none of this is said


def step_known(profile: Profile) -> bool:
    """Say whether FLOPs are those of a step; else they are of one execution of the graph, each of its programs once."""
    row = profile.figure("flops_per_step")
    return row is None or row["reason_kind"] != "no_step"


def of_a_step(profile: Profile) -> str:
    """Return the heading of a column of FLOPs."""
    return "FLOP/step" if step_known(profile) else OF_AN_EXECUTION


def summed(profile: Profile) -> str:
    """Return which steps a table's kernel times add up, in words; empty if the steps are unknown."""
    steps = profile.counted_steps
    if steps is None:
        return ""
    tuned = " with autotuning" if profile.tuning else ""
    return f"kernel time of 1 step{tuned}" if steps == 1 else f"kernel time: sum of {steps:,} steps{tuned}"


def counted_phase(profile: Profile) -> tuple[str, Row] | None:
    """Return which phase the figures are of, as ``phase 2 of 2``, and its row; None where the run has but one."""
    phases = list(profile.require("phases").rows())
    mine = next((row for row in phases if row["in_window"]), None)
    if mine is None or len(phases) < FEWEST_PHASES:
        return None
    return f"phase {int(mine['phase'] or 0) + 1} of {len(phases)}", mine


def phase_steps(row: Row) -> str:
    """Return the first and last step of a phase."""
    return f"{row['first_step']} to {row['last_step']}"
