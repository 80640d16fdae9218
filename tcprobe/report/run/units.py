"""What a report says of steps that nobody marked: ranges that count as some, launches that repeat."""

from __future__ import annotations

from typing import Final

from tcprobe.report import formatting as f
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile

IS_STEP: Final = {
    ("yes", "updates"): "each a step, by its update of the weights",
    ("no", "updates"): "no step: what updates the weights lies outside",
    ("no", "marks"): "no step: those that the profile marks hold several, or parts of one",
}
NOT_KNOWN: Final = "nothing says whether that is a step"


def start_text(profile: Profile) -> str:
    """Return what was cut off at the beginning of a capture; empty where nothing was."""
    cut = profile.start_up
    if cut is None:
        return ""
    held = f"{f.count(cut.kernels)} kernels, {f.count(cut.copies)} copies and sets"
    ends = "it ends where what repeats begins" if cut.basis == "units" else "it ends with a long pause"
    return f"the first {f.duration(cut.length_ns)} ({held}) are left out: {ends}"


def step_text(profile: Profile) -> str:
    """Return which ranges count as steps though nobody says that they are; empty where none do."""
    row = next((row for row in profile.require("step_ranges").rows() if row["why_not"] is None), None)
    if row is None:
        return ""
    why = "their number rises" if row["numbers"] == "rising" else "they come one after the other"
    held = f"each holds about as many kernels, together {f.percent(row['share_pct'])}"
    return f"nobody marks any; ranges {row['pattern']} count: {why}, {held} (--step-range names others)"


def unit_text(profile: Profile) -> str:
    """Return what repeats most: kernels in a unit, how often, how long each; empty where the steps are known."""
    rows = list(profile.require("units").rows())
    if not rows or profile.counted_steps is not None:
        return ""
    first = rows[0]
    alike = {row["device"] for row in rows if _same(row, first)}
    on = f" on each of {len(alike)} GPUs" if len(alike) > 1 else ""
    each = "" if first["unit_ns"] is None else f", {f.duration(first['unit_ns'])} each"
    whether = IS_STEP.get((str(first["is_step"]), str(first["basis"])), NOT_KNOWN)
    return f"a unit of {f.count(first['kernels'])} kernels {f.count(first['repeats'])} times{on}{each}: {whether}"


def _same(row: Row, other: Row) -> bool:
    return all(row[name] == other[name] for name in ("kernels", "repeats", "is_step", "basis"))
