"""Tells the phases of a run: pretraining, then training. Within one, every step has the same parts."""

from __future__ import annotations

from collections import Counter
from typing import List, Mapping, NamedTuple, Optional, Sequence

# Steps in a row, alike and unlike those before, after which the script's own steps are another phase.
STEADY = 3
# Rows of a phase that are looked at for the steps that a row stands for.
MOST_ROWS = 256


class Phase(NamedTuple):
    """A phase, as far as it is known.

    Attributes:
        first_row: row of steps.csv of its first step.
        calls: calls of each part in one row, by key; None where they are unknown.
        basis: what told its steps.
    """

    first_row: int
    calls: Optional[Mapping[int, float]]
    basis: str


class MarkedPhase:
    """Steps that the script marks itself: first row, steps, and the calls in all of them."""

    def __init__(self, first_row: int) -> None:
        self.first_row = first_row
        self.steps = 0
        self.total: "Counter[int]" = Counter()
        self.usual: Optional["Counter[int]"] = None

    def add(self, calls: "Counter[int]", times: int) -> None:
        """Take `times` further steps of these calls; take them back where it is negative."""
        self.steps += times
        for key, count in calls.items():
            self.total[key] += times * count


class MarkedPhases:
    """Tells the phases of steps that the script marks itself."""

    def __init__(self) -> None:
        self._phases: List[MarkedPhase] = [MarkedPhase(0)]
        self._calls: "Counter[int]" = Counter()  # of the step that runs
        self._last: "Counter[int]" = Counter()
        self._alike = 0
        self._rows = 0

    def call(self, key: int) -> None:
        """Take a call within the step that runs."""
        self._calls[key] += 1

    def begin(self) -> bool:
        """End the step that runs, and begin the next; return whether it ended one, so that a phase may have begun."""
        calls, self._calls = self._calls, Counter()
        self._rows += 1
        if self._rows > 1:
            self._end(calls, self._rows - 2)
        return self._rows > 1

    def _end(self, calls: "Counter[int]", row: int) -> None:
        self._alike = self._alike + 1 if calls == self._last else 1
        self._last = calls
        phase = self._phases[-1]
        phase.add(calls, 1)
        if self._alike < STEADY or calls == phase.usual:
            return
        if phase.usual is None:
            phase.usual = calls
            return
        phase.add(calls, -STEADY)
        self._phases.append(MarkedPhase(row - STEADY + 1))
        self._phases[-1].add(calls, STEADY)
        self._phases[-1].usual = calls

    def phases(self, basis: str) -> List[Phase]:
        """Return the phases so far; calls are the mean of the steps that have ended."""
        found = []
        for phase in self._phases:
            whole = (
                {key: count / phase.steps for key, count in dict(phase.total).items() if count}
                if phase.steps
                else self._calls
            )
            found.append(Phase(phase.first_row, dict(whole), basis))
        return found


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
