"""How many steps the tables of a report add up."""

from __future__ import annotations

from tcprobe.schema.profile import Profile


def steps_counted(profile: Profile) -> int | None:
    """Return how many steps the window has; None if the source does not distinguish steps."""
    table = profile.require("iterations")
    if profile.metadata.window.first is None or not len(table):
        return None
    return int(table.numbers("steps")[table.numbers("in_window")].sum()) or None


def summed(profile: Profile) -> str:
    """Return which steps a table's kernel times add up, in words; empty if the steps are unknown."""
    steps = steps_counted(profile)
    if steps is None:
        return ""
    tuned = " with autotuning" if profile.tuning else ""
    return f"kernel time of 1 step{tuned}" if steps == 1 else f"kernel time: sum of {steps:,} steps{tuned}"
