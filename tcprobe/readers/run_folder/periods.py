"""Find what repeats in a sequence of calls, when all of them are known: stretches, and where their steps begin.

The phases of a run say which steps are of each, and how often they call each part of training.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from tcprobe.jsonfile import Count, records
from tcprobe.schema.columns import IntArray, Table
from tcprobe.schema.op import Part
from tcprobe.schema.tables import PHASES

LONGEST: Final = 64  # period, in calls
STUBBORN: Final = 16  # calls of a run that is a stretch whatever lies around it
EXPLAINED: Final = 0.9  # of all calls that must lie in runs, or nothing repeats
MOST_RUNS: Final = 1 << 14
MOST_STRETCHES: Final = 64


class Stretch(NamedTuple):
    """Calls whose steps have the same parts, each as often."""

    pattern: list[int]  # keys of a step, in order
    begins: list[IntArray]  # indices of the calls that begin its steps


class _Run(NamedTuple):
    """Calls of which each equals the one a period before, from the first such to the last."""

    start: int
    end: int
    period: int

    def keys_in(self, keys: IntArray) -> list[int]:
        """Return the keys of its first period."""
        found: list[int] = keys[self.start : self.start + self.period].tolist()
        return found


def find_stretches(keys: IntArray, followers: frozenset[int]) -> list[Stretch]:
    """Return the stretches of a sequence in order; none where too little of it repeats.

    A step is the smallest period that has all keys around it. What interrupts a stretch and ends (the rest of an epoch,
    a call that comes once in a while) begins none: the steps go on after it.

    Args:
        keys: of the calls.
        followers: keys that no step begins with, if any other can.
    """
    runs = list(_Search(keys).runs())
    patterns = [run.keys_in(keys) for run in runs]
    if not 0 < len(runs) < MOST_RUNS or _explained(runs, patterns) < EXPLAINED * len(keys):
        return []
    last = {_parts(pattern): number for number, pattern in enumerate(patterns)}
    found, kept = list[Stretch](), list[tuple[Stretch, _Run]]()
    for number, (run, pattern) in enumerate(zip(runs, patterns, strict=True)):
        before = found[-1].pattern if found else []
        if _parts(pattern) != _parts(before):
            if found and _is_interlude(run, pattern, before, last[_parts(before)] > number):
                continue
            first = next((key for key in pattern if key not in followers), pattern[0])
            turn = pattern.index(first)
            found.append(Stretch(pattern[turn:] + pattern[:turn], []))
        turn = _rotation(pattern, found[-1].pattern)
        kept.append((found[-1], run._replace(start=run.start + turn)))
    ends = [*(run.start for _, run in kept[1:]), len(keys)]
    for (stretch, run), end in zip(kept, ends, strict=True):
        begins = np.arange(run.start, min(run.end, end), run.period)
        stretch.begins.append(np.append(begins, _once_more(keys, stretch.pattern, run.end, end)))
    return found if len(found) <= MOST_STRETCHES else []


def _once_more(keys: IntArray, pattern: list[int], start: int, end: int) -> IntArray:
    """Return where a pattern stands by itself between its runs; nowhere where other keys do, too."""
    between, index = keys[start:end].tolist(), 0
    found: list[int] = []
    if not set(between) <= set(pattern):
        between = []
    while index + len(pattern) <= len(between):
        alike = between[index : index + len(pattern)] == pattern
        found += [start + index] if alike else []
        index += len(pattern) if alike else 1
    return np.array(found, np.int64)


def _rotation(pattern: list[int], wanted: list[int]) -> int:
    """Return after how many calls of a pattern the other begins; 0 where it has another order."""
    return next((turn for turn in range(len(pattern)) if pattern[turn:] + pattern[:turn] == wanted), 0)


def _is_interlude(run: _Run, pattern: list[int], before: list[int], goes_on: bool) -> bool:
    """Say whether a run is too short to be a stretch: of keys of the one before, or with that one going on after it."""
    return run.end - run.start < STUBBORN and (goes_on or bool(set(pattern) & set(before)))


def _explained(runs: Sequence[_Run], patterns: Sequence[list[int]]) -> int:
    """Return how many calls lie in runs that are none by chance: of three periods, or of a pattern that comes again."""
    times = Counter(map(_parts, patterns))
    explained = end = 0
    for run, pattern in zip(runs, patterns, strict=True):
        if run.end - run.start >= 3 * run.period or times[_parts(pattern)] > 1:
            explained += run.end - max(run.start, end)
        end = run.end
    return explained


def _parts(pattern: list[int]) -> tuple[int, ...]:
    """Return what patterns of the same parts have in common, each as often."""
    return tuple(sorted(pattern))


class _Search:
    """Looks for runs; those of a period are listed when they are first asked for."""

    def __init__(self, keys: IntArray) -> None:
        self._keys = keys
        self._longest = min(LONGEST, len(keys) // 2)
        self._each: dict[int, tuple[list[int], list[int]]] = {}  # starts and ends, by period

    def runs(self) -> Iterator[_Run]:
        """Yield runs from the left, at most `MOST_RUNS`; each may reach back into the one before."""
        before, index, count = _Run(-1, 0, 1), 0, 0
        while index < len(self._keys) and count < MOST_RUNS:
            run = self._best(index, before)
            if run is None and (following := self._following(index)) is not None:
                run = self._best(following, before)
            if run is None:
                return
            yield run
            before, index, count = run, run.end, count + 1

    def _best(self, index: int, before: _Run) -> _Run | None:
        """Return the run that a call is of: the shortest period, unless a longer one has keys that it lacks.

        Args:
            index: of the call.
            before: the run before; what began with it was weighed there.
        """
        best: _Run | None = None
        for period in range(1, self._longest + 1):
            run = self._covering(period, index, before)
            if run is None:
                continue
            if best is None or (
                run.end > best.end and not set(run.keys_in(self._keys)) <= set(best.keys_in(self._keys))
            ):
                best = run
            if best.end == len(self._keys):
                break
        return best

    def _covering(self, period: int, index: int, before: _Run) -> _Run | None:
        """Return the run of a period that holds a call; it may begin within the last period of the run before."""
        starts, ends = self._of(period)
        place = bisect_right(ends, index)
        if place == len(ends) or not before.start < starts[place] <= index:
            return None
        rest = (before.end - before.start) % before.period if index == before.end else 0
        run = _Run(max(starts[place], min(index - rest, index - period + 1)), ends[place], period)
        return run if _is_long(run.end - run.start, period) else None

    def _following(self, index: int) -> int | None:
        """Return where the next run of any period begins."""
        each = (self._of(period)[0] for period in range(1, self._longest + 1))
        return min(
            (starts[place] for starts in each if (place := bisect_right(starts, index)) < len(starts)), default=None
        )

    def _of(self, period: int) -> tuple[list[int], list[int]]:
        """Return starts and ends of the runs of a period."""
        if period not in self._each:
            equal = np.concatenate([[False], self._keys[period:] == self._keys[:-period], [False]])
            edges = np.flatnonzero(equal[1:] != equal[:-1])
            starts, ends = edges[::2], edges[1::2] + period
            enough = _is_long(ends - starts, period)
            self._each[period] = starts[enough].tolist(), ends[enough].tolist()
        return self._each[period]


def _is_long(length: Any, period: int) -> Any:
    """Return whether so many calls are two periods, three of a short one."""
    return length >= period * (2 if period >= 4 else 3)


MOST_PHASES: Final = 256  # the probe tells 64 stretches apart; each is a pass over the whole graph


class _Part(Struct):
    """A part of a step, by the number that the graph knows it by."""

    key: Count
    name: str = ""
    calls_per_step: Annotated[int, Meta(ge=0, lt=2**53)] | Annotated[float, Meta(ge=0, lt=2**53)] | None = None


class Callee(Struct):
    """A part of training, as probe.json lists them all."""

    key: Count
    name: str = ""
    eager: bool = False
    begins: bool = True


class _Phase(Struct):
    """A phase of probe.json."""

    first_step: Count
    last_step: Count
    parts: list[Any] = field(default_factory=list)
    basis: str | None = None


def read_phases(probe: dict[str, Any]) -> Table | None:
    """Return what probe.json says of `PHASES`; None where it says nothing that can be used.

    Phases that overlap, end before they start, or are more than a run has, are those of a damaged file: none of them
    is used.
    """
    given = probe.get("phases")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_PHASES:
        return None
    rows = [_phase(number, one) for number, one in enumerate(records(_Phase, given))]
    if len(rows) < len(given) or any(row["steps"] < 1 for row in rows):
        return None
    table = Table.from_rows(PHASES, rows)
    apart = table.numbers("first_step")[1:] > table.numbers("last_step")[:-1]
    return table if apart.all() else None


def _phase(number: int, phase: _Phase) -> dict[str, Any]:
    parts = (Part(p.key, p.name, p.calls_per_step) for p in records(_Part, phase.parts))
    return {
        "phase": number,
        "first_step": phase.first_step,
        "last_step": phase.last_step,
        "steps": phase.last_step - phase.first_step + 1,
        "parts": Part.text_of(parts),
        "basis": phase.basis,
    }


def part_calls(phases: Table) -> list[dict[int, float | None]]:
    """Return the calls of each part in a step of each phase, by its key; empty where its parts are not known."""
    return [{part.key: part.calls_per_step for part in Part.all_of(text)} for text in phases.values("parts")]


def phase_of(phases: Table, window: Any) -> int:
    """Return the row of the phase that the window of probe.json lies in, the last where there is no window."""
    step = window.get("first_step") if isinstance(window, dict) else None
    if not isinstance(step, int):
        return len(phases) - 1
    return max(0, int(np.searchsorted(phases.numbers("first_step"), step, side="right")) - 1)


def with_recorded(phases: Table, probe: dict[str, Any], graph: dict[str, Any]) -> Table:
    """Return phases that say which parts of their steps graph.json does not hold: parts of eager steps, if any."""
    left_out, functions = graph.get("unrecorded"), graph.get("functions")
    left_out = left_out if isinstance(left_out, list) else []
    if isinstance(functions, list):
        held = [one.get("key") for one in functions if isinstance(one, dict)]
        eager = [one.key for one in records(Callee, probe.get("parts")) if one.eager and one.begins]
        left_out = [*left_out, *(key for key in eager if key not in held)]
    parts = [Part.all_of(text) for text in phases.values("parts")]
    texts = [Part.text_of(replace(part, recorded=part.key not in left_out) for part in each) for each in parts]
    return phases.with_columns(parts=texts)
