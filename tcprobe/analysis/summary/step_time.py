"""Tell how long a step takes, from the best source that a profile has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.iterations import Iterations, marked_step
from tcprobe.analysis.summary.reported import Reported
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import StepLength

UNDER_PROFILER: Final = "steps under the profiler, which slows them"
RATE_KINDS: Final = {
    "measured": "steps outside the profiled window",
    "after": "steps after the profiled window, none before it was left to measure",
    "profiled": UNDER_PROFILER,
}
AVERAGE: Final = "iterations / average iteration time (ns)"


@dataclass(frozen=True, slots=True)
class StepTime:
    """Length of a step.

    Attributes:
        ns: the length; of several steps the median.
        length: what it rests on.
        why: which steps, in words.
        spread: percentiles 10 and 90; None for a single step or figure.
        profiled: whether the profiler ran, which slows steps.
    """

    ns: float
    length: StepLength
    why: str
    spread: tuple[float, float] | None = None
    profiled: bool = True

    @property
    def basis(self) -> str:
        """Return the basis of the figure, as in `summary`."""
        return "reported" if self.length == "reported" else "measured"


def step_time(profile: Profile, found: Iterations) -> StepTime | None:
    """Return the length of a step: of steps that no profiler slowed, else of those there are; None if none is known."""
    steps = profile.require("steps")
    kinds, lengths = steps.names("kind"), steps.numbers("duration_ns")
    candidates = [(lengths[kinds.among(kind)], which) for kind, which in RATE_KINDS.items()]
    for each, which in (*candidates, (profiled_lengths(profile), UNDER_PROFILER)):
        if count := len(known := each[~np.isnan(each)]):
            why = f"median of {count} {which}" if count > 1 else f"1 of the {which}"
            return StepTime(float(np.median(known)), "between steps", why, spread_of(known), UNDER_PROFILER in which)
    if told := Reported(profile).get(AVERAGE):
        return StepTime(told, "reported", f"mean of {UNDER_PROFILER}")
    only = marked_step(profile, found)
    if only is None:
        return None
    return StepTime(float(only[1] - only[0]), "marked step", "the length of the one marked step, under the profiler")


def profiled_lengths(profile: Profile) -> FloatArray:
    """Return the length of each step of the window, start to start; NaN where the next one is not marked."""
    table = profile.require("iterations")
    if not len(table):
        return np.zeros(0)
    each: FloatArray = (table.numbers("duration_ns") / table.numbers("steps"))[table.numbers("in_window")]
    return each


def spread_of(values: FloatArray) -> tuple[float, float]:
    """Return percentiles 10 and 90, interpolated: a step that stalled moves them less than it moves the extremes."""
    low, high = np.percentile(values, [10, 90])
    return float(low), float(high)
