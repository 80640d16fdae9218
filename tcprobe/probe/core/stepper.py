"""Counts steps: turns training calls into rows of steps.csv, as the period finder tells."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Any, Callable, List, Optional, Sequence

from .journal import Journal
from .period import BEGIN, DOMINANT, MOST_KEPT, PERIOD, PLACED, UNDECIDED, PeriodFinder
from .phases import MarkedPhases, Phase, with_phase

# Calls that a run of them must have before a step is numbered in a place that no revision reaches: the first guess
# takes the critic's five updates for five steps.
SURE_AFTER = 8


class Stepper:
    """Counts steps.

    Args:
        journal: takes the rows.
        clock: nanoseconds since the start of the workload.
        listener: told of every step: ``before_step(row, number)`` before its clock is read, ``begun(number)``
            after, ``lost()`` where the pattern broke, ``revised(row)`` where rows from `row` on were renumbered,
            ``retracted(row)`` where the last row was none, ``phase_began(row)`` where one turns out to have begun.

    Attributes:
        marked: the steps that the script marks itself; None where calls tell.
        count: steps begun so far.
        finder: the period finder.
    """

    def __init__(self, journal: Journal, clock: Callable[[], int], listener: Any) -> None:
        self.finder = PeriodFinder()
        self.marked: Optional[MarkedPhases] = None
        self.count = 0
        self._journal = journal
        self._clock = clock
        self._listener = listener
        self._starts: List[int] = []  # of the calls that the finder keeps
        self._steps: List[int] = []
        self._phases: List[Phase] = []

    @property
    def basis(self) -> str:
        """Return how the steps were found, as in probe.json."""
        return self.finder.basis if self.marked is None else self.marked.basis

    def is_inside_step(self) -> bool:
        """Say whether calls of the current step are still to come."""
        return self.marked is not None or self.finder.is_inside()

    def is_certain(self) -> bool:
        """Say whether the steps are marked by the script, or their pattern has lasted long enough to be believed."""
        return self.marked is not None or (not self.finder.searching and len(self.finder.keys) > SURE_AFTER)

    def phases(self) -> List[Phase]:
        """Return the phases so far."""
        if self.marked is not None:
            return self.marked.phases()
        phases = self._phases or [Phase(0, PERIOD, Counter(), Counter())]  # where its first step ends may be unknown
        return [phases[0]._replace(first_row=0), *phases[1:]] if self.count else []

    def call(self, key: int, steps: int = 1, start: Optional[int] = None, begins: bool = True) -> None:
        """Take a training call that begins now, or that began at `start`.

        Args:
            key: number of the part of training.
            steps: steps that one call makes.
            start: for a call known to train only after the event; no step range is opened for it.
            begins: False where no step begins with it.
        """
        if self.marked is not None:
            self.marked.call(key)
            return
        if not begins and not self.finder.keys:
            return  # an optimizer that makes its variables before there is a gradient
        verdict = self.finder.add(key, begins)
        if len(self._starts) >= MOST_KEPT:
            self._forget(len(self.finder.keys) - 1)
        if verdict == BEGIN:
            start = self._begin(steps, start)
        elif verdict == PLACED:
            start = self._place(steps, start)
        elif verdict == UNDECIDED:
            self._listener.lost()
        self._starts.append(self._clock() if start is None else start)
        self._steps.append(steps)
        if verdict == PLACED:
            self._place_phases()
        elif self.finder.basis == DOMINANT:
            self._phases[-1].total[key] += 1

    def follow(self, keys: Sequence[int], steps: Sequence[int], starts: Sequence[int]) -> int:
        """Take some calls that were only noted, while they go on with the pattern; return how many, 0 where none does.

        Args:
            keys: numbers of the functions.
            steps: steps that each call makes; the same for every call of one function.
            starts: when the calls began.
        """
        if self.marked is not None:
            return 0
        count, begins = self.finder.follow(keys)
        self._starts += starts[:count]
        self._steps += steps[:count]
        if len(self._starts) > MOST_KEPT:
            self._forget(len(self.finder.keys))
        if begins:
            each = steps[begins[0]]
            numbers = range(self.count, self.count + each * len(begins), each)
            self._journal.rows(numbers, starts[begins.start : count : begins.step])
            self.count += each * len(begins)
        return count

    def retract(self) -> None:
        """Take the latest call back: it ended without training (end of data)."""
        if self.marked is not None or not self._starts:
            return
        self.finder.undo()
        start, row = self._starts.pop(), len(self._journal.numbers) - 1
        self._steps.pop()
        if row >= 0 and self._journal.starts[row] == start:
            self.count = self._journal.numbers[row]
            self._journal.truncate(row)
            self._listener.retracted(row)

    def step(self, basis: str, steps: int = 1) -> None:
        """Begin a step that the script marks itself; calls count no more."""
        if self.marked is None:
            self.marked = MarkedPhases(basis)
            self._journal.truncate(0)
            self.count = 0
            self._listener.revised(0)
        self._begin(steps, None)
        before = self.phases()
        self.marked.begin()
        self._announce(before)

    def conclude(self) -> None:
        """Count the steps at the end of the run that no pattern told yet."""
        if self.marked is None and self.finder.conclude():
            self._rewrite([index for begins in self.finder.placed for index in begins])
            self._place_phases()

    def _begin(self, steps: int, start: Optional[int]) -> int:
        number = self.count
        if start is None:
            self._listener.before_step(len(self._journal.numbers), number)
            start = self._clock()
            self._journal.row(number, start)
            self._listener.begun(number)
        else:
            self._journal.row(number, start)
        self.count = number + steps
        return start

    def _forget(self, kept: int) -> None:
        del self._starts[: len(self._starts) - kept], self._steps[: len(self._steps) - kept]

    def _place(self, steps: int, start: Optional[int]) -> Optional[int]:
        """Place the steps that the finder has found; return the start of the latest call where one begins with it."""
        placed, last = self.finder.placed, len(self.finder.keys) - 1
        self._listener.lost()
        self._rewrite([index for begins in placed for index in begins if index != last])
        return self._begin(steps, start) if last in placed[-1] else start

    def _row(self, call: int) -> int:
        """Return the row that begins with a call, or the first after it."""
        return bisect.bisect_left(self._journal.starts, self._starts[call])

    def _rewrite(self, begins: Sequence[int]) -> None:
        """Write the rows anew from the first of these calls on, which begin the steps."""
        if not begins:
            return
        numbers, starts = self._journal.numbers, self._journal.starts
        row = self._row(begins[0])
        self.count = numbers[row] if row < len(numbers) else self.count
        same = True
        for index in begins:
            same = same and row < len(numbers) and (numbers[row], starts[row]) == (self.count, self._starts[index])
            if not same:
                self._drop(row)
                self._journal.row(self.count, self._starts[index])
            row += 1
            self.count += self._steps[index]
        self._drop(row)

    def _drop(self, row: int) -> None:
        if row < len(self._journal.numbers):
            self._journal.truncate(row)
            self._listener.revised(row)

    def _place_phases(self) -> None:
        finder, before, phases = self.finder, self.phases(), self._phases
        for begins in finder.placed:
            if isinstance(begins, range):
                usual = Counter(finder.keys[begins.start : begins.start + begins.step])
                phases = with_phase(phases, Phase(self._row(begins.start), PERIOD, usual, usual))
            elif begins:
                usual, total = Counter(finder.pattern), Counter(finder.keys[begins[0] :])
                phases = with_phase(phases, Phase(self._row(finder.steady), DOMINANT, usual, total, None))
        self._phases = phases
        self._announce(before)

    def _announce(self, before: Sequence[Phase]) -> None:
        """Tell of the phases that were not there before."""
        rows = [phase.first_row for phase in before]
        for phase in self.phases()[1:]:
            if phase.first_row not in rows:
                self._listener.phase_began(phase.first_row)
