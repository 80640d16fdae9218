"""Collect the iterations of a profile, and choose the window: those that the figures count."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import Codes, count_by, distinct_numbers, positions_in, sum_by
from tcprobe.analysis.options import Options
from tcprobe.errors import UsageError
from tcprobe.probe.constants import STEP_MARK
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.kinds import WindowBasis
from tcprobe.schema.profile import Note, Profile, Window

FEWEST_TO_DETECT: Final = 4  # below, no half of the run is left to compare the first steps with
LONG_ENOUGH: Final = 20  # steps of a run that had room for warm-up and a window
LAUNCHES_OFF: Final = 0.10  # autotuning and half-recorded steps change the number of kernels by far more
TIME_OFF: Final = 0.50  # DLProf's own warning of uneven iterations fires on a tail of 2.5 times the rest


@dataclass(frozen=True, slots=True)
class Iterations:
    """What each iteration holds, in order of its number.

    Attributes:
        numbers: of the iterations.
        start_ns, end_ns: on the host; NaN where unknown.
        launches, sum_ns: kernels and their time; NaN where the profile has no launches.
        steps: training steps that each holds, several where one call makes them (steps_per_execution).
        of_launch: row of each launch of the profile here; -1 where no step is known to have launched it.
    """

    numbers: IntArray
    start_ns: FloatArray
    end_ns: FloatArray
    launches: FloatArray
    sum_ns: FloatArray
    steps: IntArray
    of_launch: Codes

    @property
    def duration_ns(self) -> FloatArray:
        """Start to start of the following iteration; NaN for the last and before a gap in the numbers."""
        gap = np.diff(self.start_ns)
        following = np.diff(self.numbers) == self.steps[:-1]
        lengths: FloatArray = np.full(len(self.numbers), np.nan)
        lengths[: len(gap)] = np.where(following & (gap >= 0), gap, np.nan)
        return lengths

    def of(self, values: FloatArray) -> Codes:
        """Return the row of each iteration number; -1 for NaN and for numbers that are not here."""
        return _rows(self.numbers, values)


def _rows(numbers: IntArray, values: FloatArray) -> Codes:
    missing = numbers[0] - 1 if len(numbers) else 0
    return positions_in(np.where(np.isnan(values), missing, values).astype(np.int64), numbers)


def collect_iterations(profile: Profile) -> Iterations:
    """Return the iterations that step marks or launches name; none where neither does."""
    marks, launches = profile.require("step_marks"), profile.require("launches")
    stored = launches.numbers("iteration")
    marked = marks.numbers("iteration")
    named = distinct_numbers(stored[~np.isnan(stored)].astype(np.int64))
    numbers = distinct_numbers(np.concatenate([marked, named]))
    row, count = _rows(numbers, stored), len(numbers)
    start, end = _bounds(count, row, launches, _rows(numbers, marked), marks)
    counts = sums = np.full(count, np.nan)
    if profile.table("launches") is not None:
        counts = count_by(row, count).astype(np.float64)
        sums = sum_by(row, launches.numbers("duration_ns"), count).astype(np.float64)
    return Iterations(numbers, start, end, counts, sums, _steps_held(profile, numbers), row)


def _steps_held(profile: Profile, numbers: IntArray) -> IntArray:
    """Return the steps of each iteration: the distance to the next number where the probe numbered them, else 1.

    The last call of a run is taken to make as many steps as the one before it.
    """
    known = profile.require("steps").numbers("step").astype(np.int64)
    held = np.ones(len(numbers), np.int64)
    if len(known) < 2 or not _is_probed(profile):
        return held
    jumps = np.diff(known)
    jumps = np.append(jumps, jumps[-1])
    row = np.searchsorted(known, numbers).clip(max=len(known) - 1)
    return np.where((known[row] == numbers) & (jumps[row] > 0), jumps[row], held)


def _is_probed(profile: Profile) -> bool:
    return STEP_MARK in profile.require("step_marks").values("name")


def _bounds(count: int, row: Codes, launches: Table, marked: Codes, marks: Table) -> tuple[FloatArray, FloatArray]:
    """Return start and end of each iteration: its mark's, else its first launch and last kernel.

    Args:
        count: number of iterations.
        row, marked: iteration of each launch, and of each mark.
    """
    start, end = np.full(count + 1, np.inf), np.full(count + 1, -np.inf)  # the last is that of no iteration
    if not count_by(marked, count).all():
        begun, called = launches.numbers("start_ns"), launches.numbers("launch_ns")
        np.minimum.at(start, row, np.where(np.isnan(called), begun, called))
        np.maximum.at(end, row, (begun + launches.numbers("duration_ns")).astype(np.float64))
    start[marked], end[marked] = np.inf, -np.inf
    np.minimum.at(start, marked, marks.numbers("start_ns").astype(np.float64))
    np.maximum.at(end, marked, marks.numbers("end_ns").astype(np.float64))
    return np.where(np.isfinite(start), start, np.nan)[:count], np.where(np.isfinite(end), end, np.nan)[:count]


def choose_window(
    profile: Profile, found: Iterations, options: Options, tuned: frozenset[int] = frozenset()
) -> tuple[Window, tuple[Note, ...]]:
    """Return the iterations that count, and what the reader must know about the choice.

    Asked-for bounds go first, then the window in which the probe profiled, then detection: the first
    iterations are left out while their kernels or length differ from the later ones' median (autotuning,
    compilation), and the last where it is incomplete. Of what is not asked for, the longest part without autotuning
    counts, if there is one. One iteration or none is counted whole.

    Args:
        profile: as read.
        found: its iterations.
        options: the bounds asked for.
        tuned: rows of the iterations that hold autotuning.

    Raises:
        UsageError: a bound lies outside the iterations of the profile.
    """
    _check(found, options)
    if len(found.numbers) <= 1 and options.iter_start is None and options.iter_stop is None:
        return whole_capture(profile, found), _without_window(profile, found)
    given = options.iter_start is not None or options.iter_stop is not None
    probed = _probed(profile, found)
    first, last, basis = probed or _detected(profile, found)
    kept = _complete(found, first, last) if probed and not given else last
    notes = _cut(found, kept, last)
    last = kept
    if not given:
        first, last, more = _untuned(found, first, last, tuned)
        notes += more
    if given:
        basis = "given"
        stop = int(found.numbers[last]) if options.iter_stop is None else options.iter_stop
        start = min(int(found.numbers[first]), stop) if options.iter_start is None else options.iter_start
        stop = max(start, stop)
        inside = np.flatnonzero((found.numbers >= start) & (found.numbers <= stop))
        if not len(inside):
            raise UsageError(f"no iteration was recorded from {start} to {stop}", f"recorded: {_listed(found)}")
        first, last = int(inside[0]), int(inside[-1])
    return _window(profile, found, first, last, basis), (*notes, *_few(profile, found, last - first + 1, basis))


def _complete(found: Iterations, first: int, last: int) -> int:
    """Return the last iteration that has about as many kernels as those before it; at least two stay."""
    while last - first >= 2:
        usual = float(np.median(found.launches[first:last]))
        if not found.launches[last] < (1.0 - LAUNCHES_OFF) * usual:
            break
        last -= 1
    return last


def _cut(found: Iterations, kept: int, last: int) -> tuple[Note, ...]:
    if kept == last:
        return ()
    left = ", ".join(f"{found.numbers[i]} ({found.launches[i]:.0f} kernels)" for i in range(kept + 1, last + 1))
    message = f"the window ends before iteration {left}: the steps before have {found.launches[kept]:.0f} kernels"
    return (Note("incomplete-steps", message, "profile fewer steps"),)


def _untuned(found: Iterations, first: int, last: int, tuned: frozenset[int]) -> tuple[int, int, tuple[Note, ...]]:
    """Return the longest part of a window, the last of equal ones, whose iterations hold no autotuning."""
    ends = [first - 1, *sorted(row for row in tuned if first <= row <= last), last + 1]
    parts = [(start + 1, stop - 1) for start, stop in pairwise(ends)]
    best = max(parts, key=lambda part: (part[1] - part[0], part[0]))
    if best == (first, last) or best[1] < best[0]:
        return first, last, ()
    listed = ", ".join(str(found.numbers[row]) for row in ends[1:-1])
    message = f"the window leaves out what is before or after autotuning, in iteration {listed}"
    return *best, (Note("autotuning-left-out", message, level="note"),)


def _check(found: Iterations, options: Options) -> None:
    for name, value in (("--iter-start", options.iter_start), ("--iter-stop", options.iter_stop)):
        if value is None:
            continue
        if not len(found.numbers):
            raise UsageError(f"{name} {value}: this profile has no iterations to choose from", f"leave {name} out")
        low, high = int(found.numbers[0]), int(found.numbers[-1])
        if not low <= value <= high:
            raise UsageError(
                f"{name} {value} is outside the iterations of this profile, {low} to {high}",
                f"give a number from {low} to {high}",
            )
    start, stop = options.iter_start, options.iter_stop
    if start is not None and stop is not None and start > stop:
        raise UsageError(f"--iter-start {start} comes after --iter-stop {stop}", "swap the two")


def _listed(found: Iterations) -> str:
    return ", ".join(str(n) for n in found.numbers[:10]) + (", ..." if len(found.numbers) > 10 else "")


def _without_window(profile: Profile, found: Iterations) -> tuple[Note, ...]:
    if profile.table("launches") is None:
        return ()
    held = "one step" if len(found.numbers) else "no step"
    return (
        Note(
            "one-step-only",
            f"the profile marks {held}, so there is no window: warm-up may be inside",
            "record several steps (tcprobe profile does) and compare",
        ),
    )


def _few(profile: Profile, found: Iterations, kept: int, basis: WindowBasis) -> tuple[Note, ...]:
    if basis == "given" or kept >= FEWEST_TO_DETECT - 1:
        return ()
    said = f"the window holds {kept} of {len(found.numbers)} iterations"
    chosen, steps = profile.metadata.run.get("window"), profile.require("steps").numbers("step")
    if basis == "profiled by the probe" and isinstance(chosen, dict) and chosen.get("reason") and len(steps):
        ran = int(steps.max()) + 1
        remedy = "train for at least 10 steps after warm-up" if ran < LONG_ENOUGH else None
        return (Note("few-steps", f"{said}, in a run of {ran} steps: {chosen['reason']}", remedy),)
    why = "too few to tell warm-up from the rest" if kept == len(found.numbers) else "the others deviate"
    return (Note("few-steps", f"{said}: {why}", "record at least 10 steps after warm-up"),)


def _probed(profile: Profile, found: Iterations) -> tuple[int, int, WindowBasis] | None:
    """Return the probe's own window, as far as its marks are in the profile."""
    chosen = profile.metadata.run.get("window")
    if not isinstance(chosen, dict) or not _is_probed(profile):
        return None
    first, last = chosen.get("first_step"), chosen.get("last_step")
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    inside = np.flatnonzero((found.numbers >= first) & (found.numbers <= last))
    return (int(inside[0]), int(inside[-1]), "profiled by the probe") if len(inside) else None


def _detected(profile: Profile, found: Iterations) -> tuple[int, int, WindowBasis]:
    count = len(found.numbers)
    if count < FEWEST_TO_DETECT:
        return 0, count - 1, "all steps"
    deviates = _deviating(found)
    if profile.metadata.format.startswith("dlprof"):
        deviates[0] |= found.numbers[0] == 0  # DLProf counts the start-up of the process into iteration 0
    first = int(np.argmin(deviates[:-1])) if not deviates[:-1].all() else 0
    last = count - 2 if deviates[-1] and first <= count - 2 else count - 1
    return first, last, "detected"


def _deviating(found: Iterations) -> NDArray[np.bool_]:
    """Return which iterations differ from the median of the later half (the last one apart)."""
    half = slice(len(found.numbers) // 2, -1)
    result = np.zeros(len(found.numbers), np.bool_)
    for values, allowed in (
        (found.launches, LAUNCHES_OFF), (found.sum_ns, TIME_OFF), (found.duration_ns, TIME_OFF)
    ):  # fmt: skip
        known = values[half][~np.isnan(values[half])]
        if len(known) and (median := float(np.median(known))) > 0:
            result |= np.nan_to_num(np.abs(values / median - 1.0)) > allowed
    return result


def marked_step(profile: Profile, found: Iterations) -> tuple[int, int] | None:
    """Return start and end of the only step of a profile that marks it; None if it marks none or several.

    The step ends with its mark or with the last kernel that it launched while the mark lasted.
    """
    if len(found.numbers) != 1 or len(profile.require("step_marks")) != 1:
        return None
    start, end = found.start_ns[0], found.end_ns[0]
    launches = profile.require("launches")
    called = launches.numbers("launch_ns")
    mine = (found.of_launch == 0) & ((called <= end) | np.isnan(called))
    ends = launches.numbers("start_ns")[mine] + launches.numbers("duration_ns")[mine]
    end = np.fmax(end, ends.max() if len(ends) else np.nan)
    return (int(start), int(end)) if start == start and end > start else None


def whole_capture(profile: Profile, found: Iterations | None = None) -> Window:
    """Return the whole capture, where the reader gives no bounds: the only marked step and all kernels, if there is
    one, else from the first to the last GPU activity.
    """
    given = profile.metadata.window
    if given.start_ns is not None and given.end_ns is not None:
        return given
    numbers = found.numbers if found else np.zeros(0, np.int64)
    first, last = (int(numbers[0]), int(numbers[-1])) if len(numbers) else (None, None)
    step = marked_step(profile, found) if found else None
    starts, ends = _activity(profile, ("launches",) if step else ("launches", "memory_ops"))
    low, high = (int(starts.min()), int(ends.max())) if len(starts) else (None, None)
    if step and low is not None and high is not None:
        low, high = min(low, step[0]), max(high, step[1])
    return Window(first, last, low, high, "whole capture")


def _activity(profile: Profile, names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
    tables = [profile.require(name) for name in names]
    starts = np.concatenate([t.numbers("start_ns") for t in tables])
    return starts, starts + np.concatenate([t.numbers("duration_ns") for t in tables])


def _window(profile: Profile, found: Iterations, first: int, last: int, basis: WindowBasis) -> Window:
    """Return the window: from the first iteration to the one after the last, or to the end of the last kernel."""
    start, numbers = found.start_ns[first], found.numbers
    if last + 1 < len(numbers):
        end = found.start_ns[last + 1]
    else:
        launches = profile.require("launches")
        mine = found.of_launch == last
        ends = launches.numbers("start_ns")[mine] + launches.numbers("duration_ns")[mine]
        end = np.fmax(found.end_ns[last], ends.max() if len(ends) else np.nan)
    known = start == start and end == end and end > start
    low, high = (int(start), int(end)) if known else (None, None)
    return Window(int(numbers[first]), int(numbers[last]), low, high, basis)


def counted(window: Window, iterations: FloatArray) -> NDArray[np.bool_]:
    """Return which launches or copies count, by their iterations: those of the window, all of a whole capture."""
    if window.basis == "whole capture" or window.first is None or window.last is None:
        return np.ones(len(iterations), np.bool_)
    with np.errstate(invalid="ignore"):
        return (iterations >= window.first) & (iterations <= window.last)
