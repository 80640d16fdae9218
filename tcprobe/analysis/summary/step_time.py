"""Tell how long a step takes, from the best source that a profile has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.epochs import steps_with_ends
from tcprobe.analysis.iterations import Iterations, marked_step
from tcprobe.analysis.phases import steps_by_phase, window_phase
from tcprobe.analysis.summary.reported import Reported
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import StepLength

UNDER_PROFILER: Final = "steps under the profiler, which slows them"
RATE_KINDS: Final = {
    "measured": "steps that no profiler slowed",
    "after": "steps after the profiled window, none before it was left to measure",
    "profiled": UNDER_PROFILER,
    "warm-up": "steps before the profiled window, which the profiler may slow",
}
AVERAGE: Final = "iterations / average iteration time (ns)"


@dataclass(frozen=True, slots=True)
class EpochEnds:
    """Steps that hold an epoch's end, which are no part of a step's typical length.

    Attributes:
        lengths_ns: of each, all steps of its call together; at least one.
        mean_ns: length of a step where these count too, so what a step of a whole epoch takes.
        steps: how many steps that is the mean of.
    """

    lengths_ns: FloatArray
    mean_ns: float
    steps: int


@dataclass(frozen=True, slots=True)
class StepTime:
    """Length of a step.

    Attributes:
        ns: the length; of several steps the median.
        length: what it rests on.
        why: which steps, in words.
        spread: percentiles 10 and 90; None for a single step or figure.
        profiled: whether the profiler ran, which slows steps.
        ends: epoch ends among the same steps, else among all of the phase; None if there are none.
        kind: of these steps, as in `steps`; None where the length rests on another table.
        count: how many they are.
    """

    ns: float
    length: StepLength
    why: str
    spread: tuple[float, float] | None = None
    profiled: bool = True
    ends: EpochEnds | None = None
    kind: str | None = None
    count: int = 1

    @property
    def basis(self) -> str:
        """Return the basis of the figure, as in `summary`."""
        return "reported" if self.length == "reported" else "measured"


def step_time(profile: Profile, found: Iterations) -> StepTime | None:
    """Return the length of a step: of steps that no profiler slowed, else of those there are; None if none is known.

    All are of one phase of the run, that of the window.
    """
    mine = window_phase(profile)
    if (timed := phase_step_time(profile, steps_by_phase(profile)[mine or 0], steps_with_ends(profile))) is not None:
        return timed
    under = profiled_lengths(profile)
    if len(known := under[~np.isnan(under)]):
        return _between(known, UNDER_PROFILER, None, None)
    if told := Reported(profile).get(AVERAGE):
        return StepTime(told, "reported", f"mean of {UNDER_PROFILER}")
    only = marked_step(profile, found)
    if only is None:
        return None
    return StepTime(float(only[1] - only[0]), "marked step", "the length of the one marked step, under the profiler")


def phase_step_time(profile: Profile, mine: NDArray[np.bool_], ends: NDArray[np.bool_]) -> StepTime | None:
    """Return the length of a step of one phase, by what the workload's own clock says; None if that is unknown.

    Args:
        profile: with its steps.
        mine: which rows of `steps` are of the phase.
        ends: which of them hold an epoch's end.
    """
    steps = profile.require("steps")
    lengths, known = steps.numbers("duration_ns"), mine & ~np.isnan(steps.numbers("duration_ns"))
    for kind, typical in typical_steps(profile, mine, ends):
        alike = known & steps.names("kind").among(kind)
        pool = alike if (alike & ends).any() else known
        return _between(lengths[typical], RATE_KINDS[kind], _epoch_ends(steps, pool, ends), kind)
    return None


def typical_steps(
    profile: Profile, mine: NDArray[np.bool_], ends: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield each kind of steps, those that tell most of a step's length first, and its rows of known, typical length.

    Args:
        profile: with its steps.
        mine: which rows of `steps` are of the phase.
        ends: which of them hold an epoch's end.
    """
    steps = profile.require("steps")
    kinds, known = steps.names("kind"), mine & ~np.isnan(steps.numbers("duration_ns"))
    for kind in RATE_KINDS:
        if (typical := known & kinds.among(kind) & ~ends).any():
            yield kind, typical


@dataclass(frozen=True, slots=True)
class StepLengths:
    """Lengths of steps of the window's phase, in the order in which they ran.

    Attributes:
        outside: of steps outside the profiler: those that the headline rests on, where it rests on such.
        profiled: of steps under the profiler.
    """

    outside: FloatArray
    profiled: FloatArray


def step_lengths(profile: Profile) -> StepLengths:
    """Return the lengths of single steps, epoch ends and warm-up apart; none where only a sum of them is known."""
    mine = steps_by_phase(profile)[window_phase(profile) or 0]
    steps = profile.require("steps")
    lengths = steps.numbers("duration_ns")[order := np.argsort(steps.numbers("step"), kind="stable")]
    found = {kind: lengths[rows[order]] for kind, rows in typical_steps(profile, mine, steps_with_ends(profile))}
    under = found.get("profiled")
    if under is None:
        under = profiled_lengths(profile)
        under = under[~np.isnan(under)]
    return StepLengths(found.get("measured", found.get("after", np.zeros(0))), under)


def _epoch_ends(steps: Table, among: NDArray[np.bool_], ends: NDArray[np.bool_]) -> EpochEnds | None:
    """Return the epoch ends among some steps; where one call makes several, the call is as long as all of them."""
    if not (among & ends).any():
        return None
    held = np.nan_to_num(np.diff(steps.numbers("step"), append=np.nan), nan=1.0)
    whole = steps.numbers("duration_ns") * held
    count = int(held[among].sum())
    return EpochEnds(whole[among & ends], float(whole[among].sum()) / count, count)


def _between(known: FloatArray, which: str, ends: EpochEnds | None, kind: str | None) -> StepTime:
    """Return the median of the lengths of some steps, all at least one."""
    count = len(known)
    why = f"median of {count} {which}" if count > 1 else f"1 of the {which}"
    why += f"; {len(ends.lengths_ns)} with an epoch's end left out" if ends else ""
    slowed = kind not in ("measured", "after")
    return StepTime(float(np.median(known)), "between steps", why, spread_of(known), slowed, ends, kind, count)


def profiled_lengths(profile: Profile) -> FloatArray:
    """Return the length of each profiled step of the window, start to start; NaN where the next one is not marked."""
    table = profile.require("iterations")
    if not len(table) or profile.is_unprofiled:
        return np.zeros(0)
    each: FloatArray = (table.numbers("duration_ns") / table.numbers("steps"))[table.numbers("in_window")]
    return each


def spread_of(values: FloatArray) -> tuple[float, float]:
    """Return percentiles 10 and 90, interpolated: a step that stalled moves them less than it moves the extremes."""
    low, high = np.percentile(values, [10, 90])
    return float(low), float(high)
