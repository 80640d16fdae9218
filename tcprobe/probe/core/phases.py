"""Tells the phases of a run: pretraining, then training. Within one, every step has the same parts."""

from __future__ import annotations

from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence

# Steps in a row, alike and unlike those before, after which the script's own steps are another phase.
STEADY = 3
# Phases that are told apart; the last takes in all that follow.
MOST_PHASES = 64
# Rows of a phase that are looked at for the steps that a row stands for.
MOST_ROWS = 256


class Phase(NamedTuple):
    """A phase, as far as it is known.

    Attributes:
        first_row: row of steps.csv of its first step.
        basis: what told its steps.
        usual: calls of each part in a usual row, by key; empty where they are unknown.
        total: the same in all rows that are counted.
        rows: number of these; None where each call of the usual one is a row.
    """

    first_row: int
    basis: str
    usual: "Counter[int]"
    total: "Counter[int]"
    rows: Optional[int] = 1

    @property
    def calls(self) -> Optional[Dict[int, float]]:
        """Return the calls of each part in a mean row, by key; None where they are unknown."""
        rows = sum(self.total[key] for key in self.usual) if self.rows is None else self.rows
        return {key: count / rows for key, count in dict(self.total).items() if count} or None


def with_phase(phases: List[Phase], phase: Phase) -> List[Phase]:
    """Return the phases before another, and that one, unless it is the last of them that goes on."""
    before = [each for each in phases if each.first_row < phase.first_row]
    if before and (before[-1].basis, before[-1].usual) == (phase.basis, phase.usual):
        return before
    if len(before) < MOST_PHASES:
        return [*before, phase]
    return [*before[:-1], before[-1]._replace(usual=Counter(), total=Counter())]


class MarkedPhases:
    """Tells the phases of steps that the script marks itself; `basis` says how."""

    def __init__(self, basis: str) -> None:
        self.basis = basis
        self._phases = [Phase(0, basis, Counter(), Counter(), 0)]
        self._calls: "Counter[int]" = Counter()  # of the step that runs
        self._last: "Counter[int]" = Counter()
        self._alike = 0
        self._rows = 0

    def call(self, key: int) -> None:
        """Take a call within the step that runs."""
        self._calls[key] += 1

    def begin(self) -> None:
        """End the step that runs, and begin the next."""
        calls, self._calls = self._calls, Counter()
        if self._rows:
            self._end(calls)
        self._rows += 1

    def _end(self, calls: "Counter[int]") -> None:
        self._alike = self._alike + 1 if calls == self._last else 1
        self._last = calls
        *before, last = self._phases
        rows = (last.rows or 0) + 1
        last = last._replace(total=last.total + calls, rows=rows)
        if self._alike < STEADY or calls == last.usual:
            self._phases = [*before, last]
        elif not last.usual:
            self._phases = [*before, last._replace(usual=calls)]
        else:
            steady = Counter({key: STEADY * count for key, count in calls.items()})
            last = last._replace(total=last.total - steady, rows=rows - STEADY)
            self._phases = [*before, last, Phase(self._rows - STEADY, self.basis, calls, steady, STEADY)]

    def phases(self) -> List[Phase]:
        """Return the phases so far; calls are the mean of the steps that have ended."""
        return self._phases if self._rows > 1 else [Phase(0, self.basis, Counter(), self._calls, 1)]


def steps_of_a_row(numbers: Sequence[int], first: int, last: int, count: int) -> int:
    """Return how many steps a row between two rows usually stands for.

    Args:
        numbers: of the rows.
        first, last: rows.
        count: steps begun in all.
    """
    last = min(last, first + MOST_ROWS - 1)
    ends = [*numbers[first + 1 : last + 2], *([count] if last + 1 >= len(numbers) else [])]
    each = Counter(end - begin for begin, end in zip(numbers[first : last + 1], ends))
    return max(1, each.most_common(1)[0][0]) if each else 1
