"""Say how a figure of one run differs from that of the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tcprobe.analysis.compare.noise import ratio_interval
from tcprobe.analysis.summary.rates import logged_throughput
from tcprobe.analysis.summary.step_time import StepLengths, step_lengths
from tcprobe.schema.changes.comparison import FEWEST_STEPS, Change, DifferenceKind, Interval, Side, StepsCompared, Why
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Profile

SAME: Final = 1e-9
"""Relative difference up to which two figures are the same: sums in another order differ by as much."""


def change_of(first: Side, other: Side) -> Change:
    """Return how a figure differs that is what it is; of ranges that overlap nothing can be told."""
    ends, others = _ends(first), _ends(other)
    if ends is None or others is None:
        return Change("not known")
    delta, pct = _delta(first, other)
    if _is_point(ends) and _is_point(others):
        return Change(_direction(others[0] - ends[0], ends[0]), delta, pct)
    if others[0] <= ends[1] and ends[0] <= others[1]:
        return Change("cannot tell", why="ranges overlap")
    return Change("more" if others[0] > ends[1] else "less")


def _ends(side: Side) -> tuple[float, float] | None:
    """Return the range of a figure; of a bound it is open at one end; None where nothing is known."""
    if side.low is None and side.high is None:
        return None if side.value is None else (side.value, side.value)
    return (-math.inf if side.low is None else side.low, math.inf if side.high is None else side.high)


def _is_point(ends: tuple[float, float]) -> bool:
    return ends[1] - ends[0] <= SAME * max(abs(ends[0]), abs(ends[1]))


def _delta(first: Side, other: Side) -> tuple[float | None, float | None]:
    if first.value is None or other.value is None:
        return None, None
    delta = other.value - first.value
    if abs(delta) <= SAME * max(abs(first.value), abs(other.value)):
        delta = 0.0
    return delta, 100.0 * delta / first.value if first.value else None


def _direction(delta: float, first: float) -> DifferenceKind:
    if abs(delta) <= SAME * max(abs(first), abs(first + delta)):
        return "same"
    return "more" if delta > 0 else "less"


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of all runs that are held against one another.

    Attributes:
        steps: where they stand; None where the first run and another one do not have enough of one kind.
        lengths: of each run; empty where it has too few of them.
        why: of each run, what it lacks; None where it lacks nothing.
        known: of how many steps of each run the length is known, of the kind of which there are more.
    """

    steps: StepsCompared | None
    lengths: tuple[FloatArray, ...]
    why: tuple[Why | None, ...]
    known: tuple[int, ...] = ()


def comparable_steps(profiles: Sequence[Profile]) -> Steps:
    """Return the steps to compare: of the kind that most runs have `FEWEST_STEPS` of, the first run among them.

    Steps outside the profiler rather than under it, which slows them; never the ones with the others.
    """
    known = [step_lengths(profile) for profile in profiles]
    kinds: dict[StepsCompared, list[FloatArray]] = {
        "outside the profiler": [one.outside for one in known],
        "under the profiler": [one.profiled for one in known],
    }
    enough = {kind: [len(one) >= FEWEST_STEPS for one in lengths] for kind, lengths in kinds.items()}
    usable = [kind for kind, found in enough.items() if found[0] and any(found[1:])]
    chosen = max(usable, key=lambda kind: sum(enough[kind]), default=None)
    lengths = kinds[chosen] if chosen else []
    why = [_lacking(profile, one, chosen) for profile, one in zip(profiles, known, strict=True)]
    used = (one if len(one) >= FEWEST_STEPS else np.zeros(0) for one in lengths)
    most = tuple(max(len(one.outside), len(one.profiled)) for one in known)
    return Steps(chosen, tuple(used) if chosen else tuple(np.zeros(0) for _ in profiles), tuple(why), most)


def _lacking(profile: Profile, known: StepLengths, chosen: StepsCompared | None) -> Why | None:
    """Return why the steps of a run cannot be compared: there are too few, or of another kind, or one figure alone."""
    most = max(len(known.outside), len(known.profiled))
    if not most:
        row = profile.figure("step_time_ns")
        return "no steps" if row is None or row["value"] is None else "one figure"
    if most < FEWEST_STEPS:
        return "few steps"
    mine = {"outside the profiler": known.outside, "under the profiler": known.profiled}
    return None if chosen is not None and len(mine[chosen]) >= FEWEST_STEPS else "steps differ"


def step_change(found: Steps, number: int, sides: Sequence[Side]) -> Change:
    """Return how the length of a step of a run differs from the first one's, and whether noise explains it."""
    delta, pct = _delta(sides[0], sides[number])
    if delta is None:
        return Change("not known", why="no steps")
    one, other = found.lengths[0], found.lengths[number]
    if found.steps is None or not len(other):
        lacking = [one for one in (found.why[0], found.why[number]) if one not in ("steps differ", None)]
        why: Why = min(lacking, key=str, default="steps differ")
        few = (found.known[0], found.known[number]) if why == "few steps" and found.known else None
        return Change("cannot tell", delta, pct, why=why, steps=few)
    change = _judged(delta, pct, ratio_interval(one, other), ("faster", "slower"))
    return replace(change, interval=None if change.interval is None else replace(change.interval, steps=found.steps))


def throughput_change(first: Profile, other: Profile, sides: tuple[Side, Side]) -> Change:
    """Return how the throughput differs that the workload logged, and whether noise explains it."""
    delta, pct = _delta(*sides)
    if delta is None:
        return Change("not known")
    one, two = logged_throughput(first), logged_throughput(other)
    if one is None or two is None or not (one.quiet and two.quiet):
        return Change("cannot tell", delta, pct, why="steps differ")
    if min(len(one.values), len(two.values)) < FEWEST_STEPS:
        return Change("cannot tell", delta, pct, why="few steps")
    return _judged(delta, pct, ratio_interval(one.values, two.values, rounded=True), ("less", "more"))


def _judged(
    delta: float, pct: float | None, interval: Interval | None, names: tuple[DifferenceKind, DifferenceKind]
) -> Change:
    """Return the change with what the interval says: below 0, above it, or neither."""
    if interval is None:
        return Change("cannot tell", delta, pct, why="no ratio")
    if interval.low_pct <= 0.0 <= interval.high_pct:
        return Change("within noise", delta, pct, interval)
    return Change(names[0] if interval.high_pct < 0.0 else names[1], delta, pct, interval)
