"""Collect the iterations of a profile, and tell which launches are of those that the figures count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import Codes, count_by, distinct_numbers, positions_in, sum_by
from tcprobe.probe.constants import STEP_MARK
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Profile, Window


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

    @property
    def last_steps(self) -> IntArray:
        """The last step that each iteration holds."""
        return self.numbers + self.steps - 1

    def of(self, values: FloatArray) -> Codes:
        """Return the row of each iteration number; -1 for NaN and for numbers that are not here."""
        return _rows(self.numbers, values)


def _rows(numbers: IntArray, values: FloatArray) -> Codes:
    unknown = np.isnan(values)
    rows = positions_in(np.where(unknown, 0, values).astype(np.int64), numbers)
    rows[unknown] = -1
    return rows


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
    if len(known) < 2 or not is_probed(profile):
        return held
    jumps = np.diff(known)
    jumps = np.append(jumps, jumps[-1])
    row = np.searchsorted(known, numbers).clip(max=len(known) - 1)
    return np.where((known[row] == numbers) & (jumps[row] > 0), jumps[row], held)


def is_probed(profile: Profile) -> bool:
    """Return whether the iterations are the steps that tcprobe's own probe numbered."""
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


def counted(window: Window, iterations: FloatArray) -> NDArray[np.bool_]:
    """Return which launches or copies count, by their iterations: those of the window, all of a whole capture."""
    if window.basis == "whole capture" or window.first is None or window.last is None:
        return np.ones(len(iterations), np.bool_)
    with np.errstate(invalid="ignore"):
        return (iterations >= window.first) & (iterations <= window.last)
