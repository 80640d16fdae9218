"""Tell the phases of a run apart: which holds the window, and what its step multiplies.

Tell why steps are far longer than the others: an epoch's end, a function traced again, or a kind of steps.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Final, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tcprobe.jsonfile import records
from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.columns import FloatArray, IntArray, Table, Value
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Profile, Window
from tcprobe.schema.tables import STEP_KINDS

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
    parts = [np.ones(len(steps), np.bool_)]
    if len(phases) >= FEWEST:
        row, last = phase_rows(phases, numbers), len(phases) - 1
        first_steps, last_steps = (phases.numbers(name) for name in ("first_step", "last_step"))
        parts = [
            (row == each)
            & (numbers >= first_steps[each] + SKIPPED_STEPS * (each > 0))
            & ((numbers < last_steps[each]) | (each == last))
            for each in range(len(phases))
        ]
    return [mine & ~warm if (mine & ~warm).any() else mine & (numbers >= SKIPPED_STEPS) for mine in parts]


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
    marked = np.flatnonzero(phases.numbers("in_window") == 1)
    return int(marked[0]) if len(phases) >= FEWEST and len(marked) else None


def with_window_phase(profile: Profile, numbered: bool) -> Profile:
    """Mark the phase that holds most of the counted steps: the later of two, the last where no step is counted.

    Args:
        profile: with its window.
        numbered: whether the iterations have the numbers of the probe's steps; else the window that the probe chose
            tells, and without one nobody knows which phases a profile holds.
    """
    phases, window = profile.require("phases"), profile.metadata.window
    if not len(phases):
        return profile
    first, last = phases.numbers("first_step"), phases.numbers("last_step")
    opened, closed = profiled_steps(profile) or (0, -1)
    low, high = opened, closed
    if numbered and window.first is not None and window.last is not None:
        low, high = window.first, window.last
    held = np.minimum(last, high) - np.maximum(first, low) + 1
    mine = len(phases) - 1 if held.max() <= 0 else int(np.flatnonzero(held == held.max())[-1])
    profiled = (np.minimum(last, closed) >= np.maximum(first, opened)).astype(np.float64)
    if closed < opened and len(profile.require("launches")):
        profiled[:] = np.nan
    return profile.with_tables(phases.with_columns(in_window=np.arange(len(phases)) == mine, profiled=profiled))


def profiled_steps(profile: Profile) -> tuple[int, int] | None:
    """Return the first and last step that the probe profiled; None where it does not say."""
    return _first_and_last(profile.metadata.run.get("window"))


def session_steps(profile: Profile) -> tuple[int, int] | None:
    """Return the first and last step whose calls the profile holds; None where the probe does not say."""
    window = profile.metadata.run.get("window")
    return _first_and_last(window.get("session")) if isinstance(window, dict) else None


def _first_and_last(given: object) -> tuple[int, int] | None:
    first, last = (given.get("first_step"), given.get("last_step")) if isinstance(given, dict) else (None, None)
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


# --- the graph of a step --------------------------------------------------------------------------------------


def graph_of(graph: Table, phases: Table, row: int) -> Table:
    """Return the ops that a step of a phase runs, with how often it does.

    An op of no known part counts as recorded. What all make together is at least what is known, where of one nobody
    knows how often it runs.
    """
    each_phase = [{part.key: part.calls_per_step for part in Part.all_of(text)} for text in phases.values("parts")]
    everywhere = {key for parts in each_phase for key in parts}
    calls, repeats = graph.numbers("calls_per_step").copy(), graph.numbers("repeats")
    for op, (part, counts) in enumerate(zip(graph.values("part"), graph.values("calls_in_phases"), strict=True)):
        if len(each := _counts(counts)) == len(phases):
            calls[op] = _executions(each[row], float(repeats[op]), float(calls[op]))
        elif isinstance(part, int) and part in everywhere:
            calls[op] = _executions(each_phase[row].get(part, 0.0), float(repeats[op]), float(calls[op]))
    unsure = np.where(np.isnan(calls), 1.0, graph.numbers("at_least"))
    return of_a_step(graph.with_columns(calls_per_step=calls, at_least=unsure))


def of_a_step(graph: Table) -> Table:
    """Return the ops that a step runs: without those of parts of training that it does not call."""
    return graph.take(~(graph.numbers("calls_per_step") == 0))


def of_counted(graph: Table, window: Window) -> Table:
    """Return the graph with the share that each set of shapes has of the calls in counted steps.

    Args:
        graph: with the calls of its functions in a step, whatever the shapes are.
        window: the counted steps.
    """
    called = calls_by_shapes(graph, window)
    if not called:
        return graph
    calls, parts = graph.numbers("calls_per_step").copy(), graph.values("part")
    every: dict[Value, dict[str, int]] = {}
    texts = graph.names("called_in").tolist()
    for row, steps in called.items():
        every.setdefault(parts[row], {})[str(texts[row])] = len(steps)
    for row, steps in called.items():
        total = sum(every[parts[row]].values())
        calls[row] *= len(steps) / total if total else np.nan
    return graph.with_columns(calls_per_step=calls)


def of_no_shapes(graph: Table) -> Table:
    """Return the graph for steps that were not under the profiler: where shapes change, those of calls are unknown."""
    texts, parts = graph.names("called_in").tolist(), graph.values("part")
    first: dict[Value, str] = {}
    kept = [text is None or first.setdefault(parts[row], text) == text for row, text in enumerate(texts)]
    if all(kept) and not first:
        return graph
    graph = graph.take(np.array(kept, np.bool_))
    changing = [text is not None for text in graph.names("called_in").tolist()]
    shapes = {
        name: [None if change else value for change, value in zip(changing, graph.values(name), strict=True)]
        for name in ("input_shapes", "output_shape")
    }
    return Table(graph.spec, {**graph.columns, **shapes})


def calls_by_shapes(graph: Table, window: Window) -> dict[int, list[int]]:
    """Return the counted steps in which each row of the graph was called whose shapes change from call to call.

    Of a part of training that no counted step calls, these are all that the profiler saw.
    """
    texts, parts = graph.names("called_in").tolist(), graph.values("part")
    seen = {row: _steps(text) for row, text in enumerate(texts) if text is not None}
    first, last = window.first, window.last
    if first is None or last is None:
        return seen
    inside = {row: [step for step in steps if first <= step <= last] for row, steps in seen.items()}
    counted = {parts[row] for row, steps in inside.items() if steps}
    return {row: inside[row] if parts[row] in counted else steps for row, steps in seen.items()}


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


def _steps(text: str) -> list[int]:
    """Return the numbers in a JSON list of steps; none of damaged text."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [n for n in given if isinstance(n, int) and 0 <= n < 2**53] if isinstance(given, list) else []


def _executions(calls: float | None, repeats: float, recorded: float) -> float:
    """Return how often an op runs in a step; where a call's count is not recorded, as recorded for the step."""
    if calls is None:
        return np.nan
    if np.isnan(repeats):
        return recorded if calls and recorded > 0 else calls
    return calls * repeats


Mask = NDArray[np.bool_]
FEWEST_LENGTHS: Final = 5  # known lengths of steps, below which none is typical
LONG: Final = 3.0  # times the median; at equal distances: a stall of the input is as long, and comes when it likes
PAUSE: Final = 10.0  # times the median: no step of training varies so much, wherever it stands
SLOWER: Final = 1.5  # times the median of the others: so slow a first one is warm-up; later ones hardly vary so much
LEAST_USUAL: Final = 3  # that must follow slow first ones, or there is no usual length
RARE: Final = 0.1  # share of the steps; what is as common is the run's own way to train


class SlowSteps(NamedTuple):
    """Which rows of `steps` are far longer than the others, by what is known of them; no row is of two."""

    ends: Mask  # rare, and taken for an epoch's end
    retraced: Mask  # rare, and a function was traced again in them
    common: Mask  # traced again or at equal distances, and too common for either: steps like others, of a longer kind

    @property
    def left_out(self) -> Mask:
        """Which are no part of a step's typical length."""
        return self.ends | self.retraced


class Retrace(Struct):
    """A function that the probe saw traced again."""

    name: str
    at_ns: Annotated[int, Meta(ge=0, lt=2**53)]


def leading_slow(lengths: FloatArray) -> int:
    """Return how many of the first of some lengths, in order, are far longer than all but a few later ones."""
    for slow in range(min(len(lengths) - LEAST_USUAL, len(lengths) // 2), 0, -1):
        usual = float(np.median(lengths[slow:]))
        rare = max(SLOWER * usual, float(np.percentile(lengths[slow:], 90)))  # as long as later ones is no warm-up
        if usual > 0 and (lengths[:slow] > rare).all():
            return slow
    return 0


def slow_steps(profile: Profile) -> SlowSteps:
    """Return which rows of `steps` are slow, each compared with its phase and kind.

    The kinds differ, for a profiler slows the steps that it records. Warm-up holds none that anybody could tell. Where
    threads train at once, a step is long whenever another has the interpreter: nothing tells an end from that.
    """
    steps = profile.require("steps")
    numbers, kinds = steps.numbers("step"), steps.names("kind")
    ends, retraced, common = (np.zeros(len(steps), np.bool_) for _ in range(3))
    traced = np.isin(np.arange(len(steps)), list(retraces(profile)))
    for mine in () if trains_by_threads(profile) else steps_by_phase(profile):
        lengths = np.where(mine, steps.numbers("duration_ns"), np.nan)
        usual = _median(lengths)
        for kind in STEP_KINDS:
            alike = mine & kinds.among(kind)
            enough = np.count_nonzero(~np.isnan(lengths[alike])) >= FEWEST_LENGTHS
            lengths[alike] /= _median(lengths[alike]) if enough else usual
        again = traced & _longer(lengths, LONG)
        if is_rare(again, lengths):
            retraced |= again
        else:
            common |= again
        lengths[again] = np.nan
        others = long_steps(numbers, lengths)
        ends |= others[0]
        common |= others[1]
    return SlowSteps(ends, retraced, common)


def trains_by_threads(profile: Profile) -> bool:
    """Return whether several threads train at once, by the reader's note."""
    return any(note.code == "threads" for note in profile.metadata.notes)


def retraces(profile: Profile) -> dict[int, str]:
    """Return the rows of `steps` in which a function was traced again, with the first such function of each."""
    steps, found = profile.require("steps"), dict[int, str]()
    starts = steps.numbers("start_ns")
    order = np.argsort(starts, kind="stable")
    for one in records(Retrace, profile.metadata.run.get("retraces")):
        place = int(np.searchsorted(starts[order], one.at_ns, side="right")) - 1
        if place >= 0:
            found.setdefault(int(order[place]), one.name)
    return found


def functions_of(profile: Profile, rows: Mask) -> str:
    """Return the functions that were traced again in these rows of `steps`."""
    return ", ".join(sorted({name for row, name in retraces(profile).items() if rows[row]}))


def all_traced(profile: Profile, rows: Mask) -> str:
    """Return the functions that were traced again in these rows of `steps`, if one was in each; else nothing."""
    return functions_of(profile, rows) if {*np.flatnonzero(rows).tolist()} <= {*retraces(profile)} else ""


def may_compile(profile: Profile) -> bool:
    """Return whether a step may be long because XLA compiles it for other sizes, which the probe does not see."""
    sizes = profile.require("graph_ops").names("called_in")
    return profile.metadata.xla is True and not sizes.among(None).all()


def is_rare(rows: Mask, lengths: FloatArray) -> bool:
    """Return whether these are one step, or under a tenth of those of known length."""
    return bool(rows.sum() <= 1 or rows.sum() < RARE * np.count_nonzero(~np.isnan(lengths)))


def long_steps(numbers: IntArray, lengths: FloatArray) -> tuple[Mask, Mask]:
    """Return which steps hold an epoch's end, and which are a longer kind, by their lengths alone.

    Steps of 10 times the median or more hold an end, where they are rare. Steps of 3 times the median or more that
    lie at equal distances (no step at these places is shorter, and few elsewhere are as long) do where there are over
    ten steps from one to the next; where they come more often they are steps like others, of a kind of their own.
    A step right after a far longer one is slow for its sake (caches, an input that starts anew): it is no pause of
    its own.

    Args:
        numbers: of the steps, ascending.
        lengths: of each; NaN where unknown.
    """
    ends, common = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.bool_)
    if np.count_nonzero(~np.isnan(lengths)) < FEWEST_LENGTHS or np.isnan(_median(lengths)):
        return ends, common
    long, pause = _longer(lengths, LONG), _longer(lengths, PAUSE)
    after = np.append(False, long[:-1] & (LONG * lengths[1:] < lengths[:-1]))
    there = _regular(numbers, lengths, (long, long & ~after), pause & ~after)
    rare = there.any() and float(np.median(np.diff(np.flatnonzero(there)))) * RARE > 1.0
    if there.any() and not rare:
        common |= there
    elif rare:
        ends |= there
    rest = pause & ~common
    if is_rare(rest & ~after, lengths):
        ends |= rest & ~after
    ends[1:] |= (rest & after)[1:] & ends[:-1]
    return ends, common


def _regular(numbers: IntArray, lengths: FloatArray, longs: tuple[Mask, Mask], pause: Mask) -> Mask:
    """Return the long steps that lie at equal distances, if they are most of the long ones; else none.

    Args:
        numbers: of the steps.
        lengths: of each; NaN where unknown.
        longs: which are long, and which of them are for no longer one before them.
        pause: which of the latter are very long.
    """
    every, long = longs
    if long.sum() > 1:
        period = _commonest(np.diff(numbers[long]))
        there = (numbers % period == _commonest(numbers[long] % period)) & ~np.isnan(lengths)
        enough = (there & long).sum() >= 3 or (there & pause).sum() >= 2
        if enough and every[there].all() and 2 * there.sum() > long.sum():
            return np.asarray(there, np.bool_)
    return np.zeros(len(numbers), np.bool_)


def _longer(lengths: FloatArray, times: float) -> Mask:
    """Return which are longer than so many medians; none of unknown length is."""
    with np.errstate(invalid="ignore"):
        return np.asarray(lengths > times * _median(lengths), np.bool_)


def _commonest(values: IntArray) -> int:
    """Return the value that occurs most often, the largest of several."""
    counts: Counter[int] = Counter(values.tolist())
    return max(counts, key=lambda value: (counts[value], value))


def _median(lengths: FloatArray) -> float:
    """Return the median of the known lengths; NaN where there is none above 0."""
    known = lengths[~np.isnan(lengths)]
    return float(np.median(known)) if len(known) and np.median(known) > 0 else np.nan
