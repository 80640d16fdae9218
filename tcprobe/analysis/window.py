"""Choose the window: the iterations that the figures count, and what the reader must know about the choice."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.context import Options
from tcprobe.analysis.iterations import Iterations, is_probed, whole_capture
from tcprobe.analysis.phases import (
    FEWEST_LENGTHS,
    LONG,
    functions_of,
    is_rare,
    may_compile,
    phase_rows,
    profiled_steps,
    slow_steps,
)
from tcprobe.errors import UsageError
from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.kinds import WindowBasis
from tcprobe.schema.profile import Note, Profile, Window

FEWEST_TO_DETECT: Final = 4  # below, no half of the run is left to compare the first steps with
LAUNCHES_OFF: Final = 0.10  # autotuning and half-recorded steps change the number of kernels by far more
TIME_OFF: Final = 0.50  # DLProf's own warning of uneven iterations fires on a tail of 2.5 times the rest
FEWEST_KINDS: Final = 5  # steps in the later half, below which they are not told apart into kinds
ENOUGH: Final = 10  # steps in a window
TUNED: Final = "the window leaves out what is before or after autotuning, in iteration {}"
STOPPED: Final = "the workload stood still in iteration {}: the window is the longest stretch without"
WITHOUT: Final = "the window is the longest stretch of the profiled ones without"
EPOCH_END: Final = "far longer than the others and rare, as an epoch's end is (validation, a checkpoint)"
COMPILED: Final = ", or a step for which XLA compiles other sizes"
RETRACED: Final = f"iteration {{}} traced {{}} again: {WITHOUT}"
_Bounds = tuple[int, int]
"""First and last row of `Iterations`, both included."""


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
    if options.iter_start is not None or options.iter_stop is not None:
        bounds = _given(profile, found, options)
        return _window(found, bounds, "given"), _mixed(profile, found, bounds)
    if len(found.numbers) <= 1:
        return whole_capture(profile, found), _without_window(profile, found)
    probed = _probed(profile, found)
    if probed is not None:
        bounds, notes = _settled(profile, found, probed, tuned)
        notes += _few(profile, found, bounds, probed)
        return _window(found, bounds, "profiled by the probe"), notes
    detected = _detected(profile, found)
    bounds, notes = _without(detected, tuned), _tuning_left_out(found, detected, tuned)
    basis: WindowBasis = "detected" if len(found.numbers) >= FEWEST_TO_DETECT else "all steps"
    return _window(found, bounds, basis), notes + _few(profile, found, bounds, None)


def _check(found: Iterations, options: Options) -> None:
    start, stop = options.iter_start, options.iter_stop
    for name, value in (("--iter-start", start), ("--iter-stop", stop)):
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
    if start is not None and stop is not None and start > stop:
        raise UsageError(f"--iter-start {start} comes after --iter-stop {stop}", "swap the two")


def _given(profile: Profile, found: Iterations, options: Options) -> _Bounds:
    """Return the iterations asked for; an end that is not given is where the profiled or settled ones end."""
    first, last = _probed(profile, found) or _detected(profile, found)
    stop = int(found.last_steps[last]) if options.iter_stop is None else options.iter_stop
    start = min(int(found.numbers[first]), stop) if options.iter_start is None else options.iter_start
    stop = max(start, stop)
    inside = np.flatnonzero((found.last_steps >= start) & (found.numbers <= stop))
    if not len(inside):
        listed = ", ".join(map(str, found.numbers[:10])) + (", ..." if len(found.numbers) > 10 else "")
        raise UsageError(f"no iteration was recorded from {start} to {stop}", f"recorded: {listed}")
    return int(inside[0]), int(inside[-1])


def _mixed(profile: Profile, found: Iterations, bounds: _Bounds) -> tuple[Note, ...]:
    """Warn of a window, asked for, that holds several phases: its kernels are of different steps."""
    phases = profile.require("phases")
    if not is_probed(profile) or not len(phases):
        return ()
    held = sorted(set(phase_rows(phases, found.numbers[bounds[0] : bounds[1] + 1]).tolist()) - {-1})
    if len(held) < 2:
        return ()
    begins = int(phases.numbers("first_step")[held[1]])
    message = f"the counted iterations are of {len(held)} phases of the run, whose steps differ"
    return (Note("several-phases", message, f"count one: --iter-stop {begins - 1}, or --iter-start {begins}"),)


def _without_window(profile: Profile, found: Iterations) -> tuple[Note, ...]:
    if profile.table("launches") is None:
        return ()
    one = len(found.numbers) > 0
    message = (
        "only one step was recorded: it may include warm-up" if one else "no step is marked: warm-up may be inside"
    )
    return (Note("one-step-only", message, "record several steps (tcprobe profile does) and compare"),)


def _probed(profile: Profile, found: Iterations) -> _Bounds | None:
    """Return the probe's own window, as far as its marks are in the profile."""
    steps = profiled_steps(profile)
    if steps is None or not is_probed(profile):
        return None
    inside = np.flatnonzero((found.numbers >= steps[0]) & (found.numbers <= steps[1]))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def _settled(
    profile: Profile, found: Iterations, bounds: _Bounds, tuned: frozenset[int]
) -> tuple[_Bounds, tuple[Note, ...]]:
    """Return what counts of the probe's window, and what was left out of it."""
    bounds, notes = _of_one_phase(profile, found, bounds)
    whole = _complete(found, bounds)
    notes += _cut(found, whole[1], bounds[1])
    stops = _stops(profile, found)
    ends, traced = (rows - stops for rows in _slow(profile, found, whole))
    lasting, again = ([_lasting(profile, found, row) for row in _held(whole, rows)] for rows in (ends, traced))
    holds = "iteration {} is" if len(lasting) == 1 else "iterations {} are"
    notes += _tuning_left_out(found, whole, tuned)
    compiled = COMPILED if may_compile(profile) else ""
    notes += _left_out("epoch-end-left-out", f"{holds} {EPOCH_END}{compiled}: {WITHOUT}", lasting)
    names = functions_of(profile, slow_steps(profile).retraced) if again else ""
    notes += _left_out("retrace-left-out", RETRACED.format("{}", names.replace("{", "{{").replace("}", "}}")), again)
    notes += _left_out("stop-left-out", STOPPED, found.numbers[_held(whole, stops)])
    return _without(whole, tuned | ends | traced | stops), notes


def _of_one_phase(profile: Profile, found: Iterations, bounds: _Bounds) -> tuple[_Bounds, tuple[Note, ...]]:
    """Return the longest part of a window in one phase of the run, the last of equal ones."""
    phases = profile.require("phases")
    parts = _stretches(phase_rows(phases, found.numbers), bounds) if len(phases) else [bounds]
    if len(parts) == 1:
        return bounds, ()
    begins = ", ".join(str(found.numbers[start]) for start, _ in parts[1:])
    message = f"the window is of one phase of the run: another begins at iteration {begins}"
    return _longest(parts), (Note("phase-left-out", message, level="note"),)


def _stretches(values: NDArray[Any], bounds: _Bounds) -> list[_Bounds]:
    """Return the parts of a window in which all iterations have one value."""
    first, last = bounds
    changes = np.flatnonzero(np.diff(values[first : last + 1])) + first + 1
    return [(start, stop - 1) for start, stop in pairwise([first, *changes.tolist(), last + 1])]


def _longest(parts: Iterable[_Bounds]) -> _Bounds:
    """Return the longest of some windows, the last of equal ones."""
    return max(parts, key=lambda part: (part[1] - part[0], part[0]))


def _without(bounds: _Bounds, rows: frozenset[int]) -> _Bounds:
    """Return the longest part of a window without these iterations; all of it if none is left."""
    held = np.isin(np.arange(bounds[1] + 1), list(rows))
    parts = [part for part in _stretches(held, bounds) if not held[part[0]]]
    return _longest(parts or [bounds])


def _held(bounds: _Bounds, rows: frozenset[int]) -> list[int]:
    """Return which of these iterations a window held and leaves out; none where no other would be left."""
    held = sorted(row for row in rows if bounds[0] <= row <= bounds[1])
    return held if len(held) <= bounds[1] - bounds[0] else []


def _left_out(code: str, message: str, left: Iterable[object]) -> tuple[Note, ...]:
    """Say which iterations the window leaves out; the message has a place for them."""
    listed = ", ".join(map(str, left))
    return (Note(code, message.format(listed), level="note"),) if listed else ()


def _tuning_left_out(found: Iterations, bounds: _Bounds, tuned: frozenset[int]) -> tuple[Note, ...]:
    return _left_out("autotuning-left-out", TUNED, found.numbers[_held(bounds, tuned)])


def _complete(found: Iterations, bounds: _Bounds) -> _Bounds:
    """Return a window without the last iterations that have fewer kernels than those before; at least two stay."""
    first, last = bounds
    while last - first >= 2 and found.launches[last] < (1.0 - LAUNCHES_OFF) * np.median(found.launches[first:last]):
        last -= 1
    return first, last


def _cut(found: Iterations, kept: int, last: int) -> tuple[Note, ...]:
    if kept == last:
        return ()
    left = ", ".join(f"{found.numbers[i]} ({found.launches[i]:.0f} kernels)" for i in range(kept + 1, last + 1))
    message = f"the window ends before iteration {left}: the steps before have {found.launches[kept]:.0f} kernels"
    return (Note("incomplete-steps", message, "profile fewer steps"),)


def _slow(profile: Profile, found: Iterations, bounds: _Bounds) -> tuple[frozenset[int], frozenset[int]]:
    """Return the iterations that hold an epoch's end, and those that trace a function again.

    Told by the lengths of all steps of the run, and ends by what ran too: an iteration of the probe's is a whole step,
    so a rare one that is far longer than the others and launches more kernels holds what is no training.
    """
    slow, steps = slow_steps(profile), profile.require("steps").numbers("step")
    ends, traced, common = (np.isin(found.numbers, steps[rows]) for rows in slow)
    each, kernels = found.duration_ns / found.steps, found.launches / found.steps
    timed = np.flatnonzero(~np.isnan(each[bounds[0] : bounds[1] + 1])) + bounds[0]
    if len(timed) >= FEWEST_LENGTHS:
        long, more = LONG * np.median(each[timed]), (1.0 + LAUNCHES_OFF) * np.median(kernels[timed])
        other = (each[timed] > long) & (kernels[timed] > more) & ~(traced | common)[timed]
        ends[timed] |= other & is_rare(other, each[timed])
    return frozenset(np.flatnonzero(ends).tolist()), frozenset(np.flatnonzero(traced).tolist())


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
    if not (len(lengths) and lengths[0] >= 0):
        return str(number)
    took = f"{lengths[0] / 1e9:.2g} s" if lengths[0] >= 1e8 else f"{lengths[0] / 1e6:.2g} ms"
    return f"{number} ({took}{' a step' if found.steps[row] > 1 else ''})"


def _few(profile: Profile, found: Iterations, bounds: _Bounds, probed: _Bounds | None) -> tuple[Note, ...]:
    """Warn of a window of few iterations: why it has no more, and what would give more in such a run."""
    first, last = bounds
    kept, recorded = last - first + 1, len(found.numbers)
    if kept >= FEWEST_TO_DETECT - 1 or found.steps[first : last + 1].sum() >= ENOUGH:
        return ()
    message, more = f"the window holds {kept} of {recorded} iterations", None
    if probed is None:
        message += ": too few to tell warm-up from the rest" if kept == recorded else ": the others deviate"
        few = recorded < ENOUGH
        more = "record at least 10 steps after warm-up" if few else "choose with --iter-start, --iter-stop"
    elif probed != bounds:
        message += ": the others are left out"
    elif profile.metadata.run.get("iter_stop") is not None:
        return ()  # so few were asked for
    else:
        reason = profile.metadata.run["window"].get("reason")
        message += f": {reason}" if isinstance(reason, str) and reason else ""
        more = _for_more(profile, int(found.numbers[first]))
    return (Note("few-steps", message, more),)


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


def _detected(profile: Profile, found: Iterations) -> _Bounds:
    """Return the first and last iteration between warm-up and a cut-off tail; all of few."""
    last = len(found.numbers) - 1
    if last + 1 < FEWEST_TO_DETECT:
        return 0, last
    deviates = _deviating(found)
    deviates[-1] |= profile.is_unprofiled  # nobody saw it end
    if "key_node" in profile.traits:
        deviates[0] |= found.numbers[0] == 0  # that of the start-up
    first = int(np.argmin(deviates[:-1])) if not deviates[:-1].all() else 0
    return first, last - int(deviates[-1])


def _deviating(found: Iterations) -> NDArray[np.bool_]:
    """Return which iterations differ from those of the later half (the last one apart).

    Of these the median counts, or of five and more all between percentiles 10 and 90: where every second step waits
    for its input, or every fourth runs the optimizer, both kinds are usual.
    """
    half = slice(len(found.numbers) // 2, -1)
    result = np.zeros(len(found.numbers), np.bool_)
    for values, allowed in (
        (found.launches, LAUNCHES_OFF), (found.sum_ns, TIME_OFF), (found.duration_ns, TIME_OFF)
    ):  # fmt: skip
        known = values[half][~np.isnan(values[half])]
        if len(known) and (median := float(np.median(known))) > 0:
            low, high = np.percentile(known, [10, 90], method="nearest")
            near = median if len(known) < FEWEST_KINDS else np.clip(values, low, high)
            result |= np.nan_to_num(np.abs(values / near - 1.0)) > allowed
    return result


def _window(found: Iterations, bounds: _Bounds, basis: WindowBasis) -> Window:
    """Return the window: from the first iteration to the one after the last, or to the end of the last kernel."""
    (first, last), numbers = bounds, found.numbers
    start, end = found.edges_ns[first], found.edges_ns[last + 1]
    low, high = (int(start), int(end)) if end > start else (None, None)
    return Window(int(numbers[first]), int(numbers[last]), low, high, basis)
