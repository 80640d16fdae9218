"""Choose the window: the iterations that the figures count, and what the reader must know about the choice."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.epochs import FEWEST, LONG, steps_with_ends
from tcprobe.analysis.iterations import Iterations, is_probed, whole_capture
from tcprobe.analysis.options import Options
from tcprobe.analysis.phases import phase_rows
from tcprobe.errors import UsageError
from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.columns import IntArray
from tcprobe.schema.kinds import WindowBasis
from tcprobe.schema.profile import Note, Profile, Window

FEWEST_TO_DETECT: Final = 4  # below, no half of the run is left to compare the first steps with
LAUNCHES_OFF: Final = 0.10  # autotuning and half-recorded steps change the number of kernels by far more
TIME_OFF: Final = 0.50  # DLProf's own warning of uneven iterations fires on a tail of 2.5 times the rest
ENOUGH: Final = 10  # steps in a window
TUNED: Final = (
    "autotuning-left-out",
    "the window leaves out what is before or after autotuning, in iteration {}",
)
STOPPED: Final = (
    "stop-left-out",
    "the workload stood still in iteration {}: the window is the longest stretch without",
)


def choose_window(
    profile: Profile, found: Iterations, options: Options, tuned: frozenset[int] = frozenset()
) -> tuple[Window, tuple[Note, ...]]:
    """Return the iterations that count, and what the reader must know about the choice.

    Asked-for bounds go first, then the window in which the probe profiled, then detection: the first
    iterations are left out while their kernels or length differ from the later ones' median (autotuning,
    compilation), and the last where it is incomplete. Of what is not asked for, the longest part of one phase of the
    run counts, and of that the longest without autotuning and epoch ends, if there is one. One iteration or none is
    counted whole.

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
    if options.iter_start is None and options.iter_stop is None:
        first, last, basis, notes = _chosen(profile, found, tuned)
        notes += _few(profile, found, first, last)
    else:
        first, last = _given(profile, found, options)
        basis, notes = "given", _mixed(profile, found, first, last)
    return _window(profile, found, first, last, basis), notes


def _given(profile: Profile, found: Iterations, options: Options) -> tuple[int, int]:
    """Return the iterations asked for; an end that is not given is where the profiled or settled ones end."""
    first, last = _probed(profile, found) or _detected(profile, found)
    stop = int(found.last_steps[last]) if options.iter_stop is None else options.iter_stop
    start = min(int(found.numbers[first]), stop) if options.iter_start is None else options.iter_start
    stop = max(start, stop)
    inside = np.flatnonzero((found.last_steps >= start) & (found.numbers <= stop))
    if not len(inside):
        raise UsageError(f"no iteration was recorded from {start} to {stop}", f"recorded: {_listed(found)}")
    return int(inside[0]), int(inside[-1])


def _chosen(
    profile: Profile, found: Iterations, tuned: frozenset[int]
) -> tuple[int, int, WindowBasis, tuple[Note, ...]]:
    """Return the first and last iteration that count where nobody asks for others, and what was left out."""
    probed = _probed(profile, found)
    if probed is None:
        first, last = _detected(profile, found)
        basis: WindowBasis = "detected" if len(found.numbers) >= FEWEST_TO_DETECT else "all steps"
        return *_without(first, last, tuned), basis, _left_out(found, (first, last), tuned, *TUNED)
    first, last, notes = _of_one_phase(profile, found, probed)
    kept = _complete(found, first, last)
    notes += _cut(found, kept, last)
    stops = _stops(profile, found)
    ends = _epoch_ends(profile, found, first, kept) - stops
    return (
        *_without(first, kept, tuned | ends | stops),
        "profiled by the probe",
        (
            *notes,
            *_left_out(found, (first, kept), tuned, *TUNED),
            *_ends_left_out(profile, found, (first, kept), ends),
            *_left_out(found, (first, kept), stops, *STOPPED),
        ),
    )


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


def _held(bounds: tuple[int, int], rows: frozenset[int]) -> list[int]:
    """Return which of these iterations a window held and leaves out; none where no other would be left."""
    held = sorted(row for row in rows if bounds[0] <= row <= bounds[1])
    return held if len(held) <= bounds[1] - bounds[0] else []


def _left_out(
    found: Iterations, bounds: tuple[int, int], rows: frozenset[int], code: str, said: str
) -> tuple[Note, ...]:
    """Say which of these iterations the window leaves out; `said` has a place for their numbers."""
    held = _held(bounds, rows)
    listed = ", ".join(str(found.numbers[row]) for row in held)
    return (Note(code, said.format(listed), level="note"),) if held else ()


def _ends_left_out(
    profile: Profile, found: Iterations, bounds: tuple[int, int], ends: frozenset[int]
) -> tuple[Note, ...]:
    rows = _held(bounds, ends)
    if not rows:
        return ()
    listed = ", ".join(_lasting(profile, found, row) for row in rows)
    holds = "iteration {} holds" if len(rows) == 1 else "iterations {} hold"
    held = f"{holds.format(listed)} an epoch's end (validation, a checkpoint)"
    message = f"{held}: the window is the longest stretch of the profiled ones without"
    return (Note("epoch-end-left-out", message, level="note"),)


def _of_one_phase(profile: Profile, found: Iterations, bounds: tuple[int, int]) -> tuple[int, int, tuple[Note, ...]]:
    """Return the longest part of a window in one phase of the run, the last of equal ones."""
    phases = profile.require("phases")
    if not len(phases):
        return *bounds, ()
    parts = _alike(phase_rows(phases, found.numbers), bounds)
    if len(parts) == 1:
        return *bounds, ()
    first, last = max(parts, key=lambda part: (part[1] - part[0], part[0]))
    begins = ", ".join(str(found.numbers[start]) for start, _ in parts[1:])
    message = f"the window is of one phase of the run: another begins at iteration {begins}"
    return first, last, (Note("phase-left-out", message, level="note"),)


def _alike(phases: IntArray, bounds: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the parts of a window in which all iterations are of one phase."""
    first, last = bounds
    begins = [first, *(row for row in range(first + 1, last + 1) if phases[row] != phases[row - 1]), last + 1]
    return [(start, stop - 1) for start, stop in pairwise(begins)]


def _without(first: int, last: int, rows: frozenset[int]) -> tuple[int, int]:
    """Return the longest part of a window, the last of equal ones, without these iterations; all if none is left."""
    ends = [first - 1, *sorted(row for row in rows if first <= row <= last), last + 1]
    parts = [(start + 1, stop - 1) for start, stop in pairwise(ends)]
    best = max(parts, key=lambda part: (part[1] - part[0], part[0]))
    return (first, last) if best[1] < best[0] else best


def _epoch_ends(profile: Profile, found: Iterations, first: int, last: int) -> frozenset[int]:
    """Return the iterations that hold an epoch's end: by the lengths of all steps of the run, or by what ran in them.

    An iteration of the probe's is a whole step, so one that is far longer than the others and launches more kernels
    holds what is no training.
    """
    ends = np.isin(found.numbers, profile.require("steps").numbers("step")[steps_with_ends(profile)])
    each, kernels = found.duration_ns / found.steps, found.launches / found.steps
    known = np.flatnonzero(~np.isnan(each[first : last + 1])) + first
    if len(known) >= FEWEST:
        long, more = LONG * np.median(each[known]), (1.0 + LAUNCHES_OFF) * np.median(kernels[known])
        ends[known] |= (each[known] > long) & (kernels[known] > more)
    return frozenset(np.flatnonzero(ends).tolist())


def _stops(profile: Profile, found: Iterations) -> frozenset[int]:
    """Return the iterations in which the workload stood still (Ctrl-Z): their steps have no length."""
    if not any(note.code == "stood-still" for note in profile.metadata.notes):
        return frozenset()
    steps = profile.require("steps")
    unknown = np.isnan(steps.numbers("duration_ns"))[:-1]  # the last step of a run never has one
    return frozenset(np.flatnonzero(np.isin(found.numbers, steps.numbers("step")[:-1][unknown])).tolist())


def _lasting(profile: Profile, found: Iterations, row: int) -> str:
    """Return the number of an iteration, with its length where the workload's own clock tells."""
    steps, number = profile.require("steps"), int(found.numbers[row])
    lengths = steps.numbers("duration_ns")[steps.numbers("step") == number]
    each = " a step" if found.steps[row] > 1 else ""
    if not (len(lengths) and lengths[0] >= 0):
        return str(number)
    took = f"{lengths[0] / 1e9:.2g} s" if lengths[0] >= 1e8 else f"{lengths[0] / 1e6:.2g} ms"
    return f"{number} ({took}{each})"


def _mixed(profile: Profile, found: Iterations, first: int, last: int) -> tuple[Note, ...]:
    """Warn of a window, asked for, that holds several phases: its kernels are of different steps."""
    phases = profile.require("phases")
    if not is_probed(profile) or not len(phases):
        return ()
    held = sorted(set(phase_rows(phases, found.numbers[first : last + 1]).tolist()) - {-1})
    if len(held) < 2:
        return ()
    begins = int(phases.numbers("first_step")[held[1]])
    message = f"the counted iterations are of {len(held)} phases of the run, whose steps differ"
    return (Note("several-phases", message, f"count one: --iter-stop {begins - 1}, or --iter-start {begins}"),)


def _check(found: Iterations, options: Options) -> None:
    for name, value in (("--iter-start", options.iter_start), ("--iter-stop", options.iter_stop)):
        if value is None:
            continue
        if not len(found.numbers):
            raise UsageError(f"{name} {value}: this profile has no iterations to choose from", f"leave {name} out")
        low, high = int(found.numbers[0]), int(found.last_steps[-1])
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


def _few(profile: Profile, found: Iterations, first: int, last: int) -> tuple[Note, ...]:
    """Warn of a window of few iterations: why it has no more, and what would give more in such a run."""
    kept, recorded = last - first + 1, len(found.numbers)
    if kept >= FEWEST_TO_DETECT - 1 or found.steps[first : last + 1].sum() >= ENOUGH:
        return ()
    said, run = f"the window holds {kept} of {recorded} iterations", profile.metadata.run
    chosen = _probed(profile, found)
    if chosen is None:
        why = "too few to tell warm-up from the rest" if kept == recorded else "the others deviate"
        more = (
            "record at least 10 steps after warm-up" if recorded < ENOUGH else "choose with --iter-start, --iter-stop"
        )
        return (Note("few-steps", f"{said}: {why}", more),)
    if chosen != (first, last):
        return (Note("few-steps", f"{said}: the others are left out"),)
    if run.get("iter_stop") is not None:
        return ()  # so few were asked for
    reason = run["window"].get("reason")
    why = f": {reason}" if isinstance(reason, str) and reason else ""
    return (Note("few-steps", f"{said}{why}", _for_more(profile, int(found.numbers[first]))),)


def _for_more(profile: Profile, step: int) -> str:
    """Return how to have at least ten steps in the window, of one step's phase; a short one has to train longer."""
    steps = profile.require("steps").numbers("step")
    start, stop = (0, int(steps.max())) if len(steps) else (step, step)
    if len(phases := profile.require("phases")) and (row := int(phase_rows(phases, np.array([step]))[0])) >= 0:
        start, stop = (int(phases.numbers(name)[row]) for name in ("first_step", "last_step"))
    begin = start + SKIPPED_STEPS
    if stop - begin + 1 < ENOUGH:
        return f"train for at least {SKIPPED_STEPS + ENOUGH} steps: there were {stop - start + 1}"
    return f"profile with --iter-start {begin} --iter-stop {begin + ENOUGH - 1}"


def _probed(profile: Profile, found: Iterations) -> tuple[int, int] | None:
    """Return the probe's own window, as far as its marks are in the profile."""
    chosen = profile.metadata.run.get("window")
    if not isinstance(chosen, dict) or not is_probed(profile):
        return None
    first, last = chosen.get("first_step"), chosen.get("last_step")
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    inside = np.flatnonzero((found.numbers >= first) & (found.numbers <= last))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _detected(profile: Profile, found: Iterations) -> tuple[int, int]:
    """Return the first and last iteration between warm-up and a cut-off tail; all of few."""
    count = len(found.numbers)
    if count < FEWEST_TO_DETECT:
        return 0, count - 1
    deviates = _deviating(found)
    deviates[-1] |= profile.is_unprofiled  # nobody saw it end
    if profile.metadata.format.startswith("dlprof"):
        deviates[0] |= found.numbers[0] == 0  # DLProf counts the start-up of the process into iteration 0
    first = int(np.argmin(deviates[:-1])) if not deviates[:-1].all() else 0
    last = count - 2 if deviates[-1] and first <= count - 2 else count - 1
    return first, last


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
