"""Tell the phases of a run apart: which one the window lies in, what its step multiplies, and what others do."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Profile

FEWEST: Final = 2  # phases; of a run of one all figures are, and nothing is said of it


def phase_rows(phases: Table, steps: IntArray | FloatArray) -> IntArray:
    """Return the row of `phases` that each step is of, -1 of none; the last phase lasts to the end of the run."""
    first, last = phases.numbers("first_step"), phases.numbers("last_step")
    row = np.searchsorted(first, steps, side="right") - 1
    ended = (steps > last[row.clip(0)]) & (row < len(phases) - 1)
    return np.where(ended | np.isnan(steps), -1, row).astype(np.int64)


def steps_by_phase(profile: Profile) -> list[NDArray[np.bool_]]:
    """Return for each phase which rows of `steps` are of it and may be typical; of a run of one phase all of them.

    A later phase traces in its first steps, and the last step of a phase ends with what another phase begins with.
    Steps that the probe calls warm-up count in phases, and in runs, that have no others: the profiler was opened after
    them, or never.
    """
    steps, phases = profile.require("steps"), profile.require("phases")
    numbers, warm = steps.numbers("step"), steps.names("kind").among("warm-up")
    if len(phases) < FEWEST:
        return [_settled(np.ones(len(steps), np.bool_), warm, numbers)]
    row = phase_rows(phases, numbers)
    found = []
    for each, (first, last) in enumerate(zip(phases.values("first_step"), phases.values("last_step"), strict=True)):
        mine = (row == each) & (numbers >= int(first or 0) + SKIPPED_STEPS * (each > 0))
        mine &= (numbers < int(last or 0)) | (each == len(phases) - 1)
        found.append(_settled(mine, warm, numbers))
    return found


def _settled(mine: NDArray[np.bool_], warm: NDArray[np.bool_], numbers: FloatArray) -> NDArray[np.bool_]:
    return mine & ~warm if (mine & ~warm).any() else mine & (numbers >= SKIPPED_STEPS)


def in_phase(profile: Profile, steps: IntArray | FloatArray) -> NDArray[np.bool_]:
    """Return which steps are of the phase that the window lies in, all where the run has but one."""
    mine = window_phase(profile)
    if mine is None:
        return np.ones(len(steps), np.bool_)
    inside: NDArray[np.bool_] = phase_rows(profile.require("phases"), steps) == mine
    return inside


def window_phase(profile: Profile) -> int | None:
    """Return the row of `phases` that the figures are of; None where the run has but one phase, or none is known."""
    phases = profile.require("phases")
    if len(phases) < FEWEST:
        return None
    known = np.flatnonzero(phases.numbers("in_window") == 1)
    return int(known[0]) if len(known) else None


def with_window_phase(profile: Profile, numbered: bool) -> Profile:
    """Mark the phase that holds most of the counted steps: the later of two, the last where no step is counted.

    Args:
        profile: with its window.
        numbered: whether the iterations have the numbers of the probe's steps; else the window that the probe chose
            tells, and without one nobody knows which phases a profile holds.
    """
    phases = profile.require("phases")
    if not len(phases):
        return profile
    first, last = phases.numbers("first_step"), phases.numbers("last_step")
    low, high = _window(profile, numbered)
    held = np.minimum(last, high) - np.maximum(first, low) + 1
    mine = len(phases) - 1 if held.max() <= 0 else int(np.flatnonzero(held == held.max())[-1])
    opened, closed = _profiled(profile)
    profiled = (np.minimum(last, closed) >= np.maximum(first, opened)).astype(np.float64)
    if closed < opened and len(profile.require("launches")):
        profiled[:] = np.nan
    return profile.with_tables(phases.with_columns(in_window=np.arange(len(phases)) == mine, profiled=profiled))


def _window(profile: Profile, numbered: bool) -> tuple[int, int]:
    window = profile.metadata.window
    if numbered and window.first is not None and window.last is not None:
        return window.first, window.last
    return _profiled(profile)


def _profiled(profile: Profile) -> tuple[int, int]:
    """Return the first and last step that the probe profiled; 0 and -1 where it profiled none."""
    return _first_and_last(profile.metadata.run.get("window")) or (0, -1)


def session_steps(profile: Profile) -> tuple[int, int] | None:
    """Return the first and last step whose calls the profile holds; None where the probe does not say."""
    window = profile.metadata.run.get("window")
    return _first_and_last(window.get("session")) if isinstance(window, dict) else None


def _first_and_last(given: object) -> tuple[int, int] | None:
    bounds = (given.get("first_step"), given.get("last_step")) if isinstance(given, dict) else (None, None)
    return (bounds[0], bounds[1]) if isinstance(bounds[0], int) and isinstance(bounds[1], int) else None


def calls_in(phases: Table, row: int) -> dict[int, float | None]:
    """Return how often a step of a phase calls each part of training, by the number of the part; None if unknown."""
    return {part.key: part.calls_per_step for part in Part.all_of(phases.values("parts")[row])}


def graph_of(graph: Table, phases: Table, row: int) -> Table:
    """Return the ops that a step of a phase runs, with how often it does.

    An op of no known part counts as recorded. What all make together is at least what is known, where of one nobody
    knows how often it runs.
    """
    everywhere = {part for each in range(len(phases)) for part in calls_in(phases, each)}
    mine = calls_in(phases, row)
    calls, repeats = graph.numbers("calls_per_step").copy(), graph.numbers("repeats")
    for op, (part, told) in enumerate(zip(graph.values("part"), graph.values("calls_in_phases"), strict=True)):
        if len(each := _counts(told)) == len(phases):
            calls[op] = _executions(each[row], float(repeats[op]), float(calls[op]))
        elif isinstance(part, int) and part in everywhere:
            calls[op] = _executions(mine.get(part, 0.0), float(repeats[op]), float(calls[op]))
    unsure = np.where(np.isnan(calls), 1.0, graph.numbers("at_least"))
    return of_a_step(graph.with_columns(calls_per_step=calls, at_least=unsure))


def is_recorded(phases: Table, row: int) -> bool:
    """Return whether the graph holds every part that the steps of a phase call."""
    return all(part.recorded for part in Part.all_of(phases.values("parts")[row]))


def _counts(text: object) -> list[float | None]:
    """Return the calls of a function in a step of each phase, as `graph_ops` holds them; none of damaged text."""
    try:
        given = json.loads(str(text or "[]"))
    except (ValueError, RecursionError):
        return []
    each = given if isinstance(given, list) else []
    return [float(n) if isinstance(n, int | float) and n >= 0 else None for n in each]


def _executions(calls: float | None, repeats: float, recorded: float) -> float:
    """Return how often an op runs in a step; where a call's count is not recorded, as recorded for the step."""
    if calls is None:
        return np.nan
    if np.isnan(repeats):
        return recorded if calls and recorded > 0 else calls
    return calls * repeats


def of_a_step(graph: Table) -> Table:
    """Return the ops that a step runs: without those of parts of training that it does not call."""
    return graph.take(~(graph.numbers("calls_per_step") == 0))
