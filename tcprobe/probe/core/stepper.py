"""Counts steps: turns training calls into rows of steps.csv, as the period finder tells."""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set

from .journal import Journal
from .period import BEGIN, REVISED, UNDECIDED, PeriodFinder, Stretch
from .phases import MarkedPhases, Phase, steps_of_a_row

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
        basis: how the steps were found, as in probe.json.
        finder: the period finder.
    """

    def __init__(self, journal: Journal, clock: Callable[[], int], listener: Any) -> None:
        self.finder = PeriodFinder()
        self.explicit: Optional[str] = None
        self._journal = journal
        self._clock = clock
        self._listener = listener
        self._starts: List[int] = []  # of the calls since finder.base
        self._steps: List[int] = []
        self._base_row = 0  # rows that no revision reaches
        self._next = 0  # number of the next step
        self._marked = MarkedPhases()
        self._told: Set[int] = set()  # rows of the phases that the listener knows of
        self._rows: Dict[int, int] = {}  # first rows of the stretches, by their first calls
        self._means: Dict[int, Mapping[int, float]] = {}  # calls in a step of those that have no pattern

    @property
    def basis(self) -> str:
        """Return how the steps were found."""
        return self.explicit or self.finder.basis

    @property
    def count(self) -> int:
        """Return the steps begun so far."""
        return self._next

    @property
    def starts(self) -> Sequence[int]:
        """Return the starts of the rows so far, in ns since the start of the workload."""
        return self._journal.starts

    def steps_of_a_row(self, first: int, last: int) -> int:
        """Return how many steps a row between two rows usually stands for."""
        return steps_of_a_row(self._journal.numbers, first, last, self._next)

    def is_inside_step(self) -> bool:
        """Say whether calls of the current step are still to come."""
        return self.explicit is not None or self.finder.is_inside()

    def is_certain(self) -> bool:
        """Say whether the steps are marked by the script, or their pattern has lasted long enough to be believed."""
        calls = self.finder.base + len(self.finder.keys)
        return self.explicit is not None or (bool(self.finder.pattern) and calls > SURE_AFTER)

    def call(self, key: int, steps: int = 1, start: Optional[int] = None, begins: bool = True) -> None:
        """Take a training call that begins now, or that began at `start`.

        Args:
            key: number of the part of training.
            steps: steps that one call makes.
            start: for a call known to train only after the event; no step range is opened for it.
            begins: False where no step begins with it.
        """
        if self.explicit is not None:
            self._marked.call(key)
            return
        if not begins and not self.finder.keys:
            return  # an optimizer that makes its variables before there is a gradient
        base = self.finder.base
        verdict = self.finder.add(key, begins)
        if verdict == REVISED:
            self._revise(steps, start)
        elif verdict == BEGIN:
            self._starts.append(self._begin(steps, start))
        else:
            if verdict == UNDECIDED:
                self._listener.lost()
            self._starts.append(self._clock() if start is None else start)
        self._steps.append(steps)
        if self.finder.base != base:
            self._trim(self.finder.base - base)
        if verdict == REVISED:
            self._place_phases()

    def follow(self, keys: Sequence[int], steps: Sequence[int], starts: Sequence[int]) -> int:
        """Take some calls that were only noted, while they go on with the pattern; return how many, 0 where none does.

        Args:
            keys: numbers of the functions.
            steps: steps that each call makes; the same for every call of one function.
            starts: when the calls began.
        """
        if self.explicit is not None:
            return 0
        base = self.finder.base
        count, begins = self.finder.follow(keys)
        self._starts += starts[:count]
        self._steps += steps[:count]
        if begins:
            each = steps[begins[0]]
            self._journal.rows(
                range(self._next, self._next + each * len(begins), each), starts[begins.start : count : begins.step]
            )
            self._next += each * len(begins)
        if self.finder.base != base:
            self._trim(self.finder.base - base)
        return count

    def step(self, basis: str, steps: int = 1) -> None:
        """Begin a step that the script marks itself; calls count no more."""
        if self.explicit is None:
            self.explicit = basis
            self._journal.truncate(0)
            self._next = 0
            self._listener.revised(0)
        self._begin(steps, None)
        if self._marked.begin():
            self._tell_phases()

    def phases(self) -> List[Phase]:
        """Return the phases so far."""
        if self.explicit is not None:
            return self._marked.phases(self.explicit)
        found = [Phase(self._rows.get(s.start, 0), self._calls(s), s.basis) for s in list(self.finder.stretches)]
        if not found and self._next:
            found = [Phase(0, None, self.finder.basis)]  # where the first step ends is not known yet
        return [found[0]._replace(first_row=0), *found[1:]] if found else []

    def conclude(self) -> None:
        """Count the steps at the end of the run that no pattern told yet."""
        if self.explicit is None and self.finder.conclude():
            self._renumber(self.finder.boundaries)
            self._place_phases()

    def _calls(self, stretch: Stretch) -> Optional[Mapping[int, float]]:
        if stretch.basis == "period":
            return dict(Counter(stretch.pattern)) if stretch.pattern else None
        return self._means.get(stretch.start) or self._mean(stretch.start)

    def _mean(self, start: int) -> Optional[Mapping[int, float]]:
        """Return the calls in a mean row from call `start` on, of those that are remembered; None without any."""
        ends = [end for end in self.finder.boundaries if end >= start - self.finder.base]
        keys = self.finder.keys[ends[0] : ends[-1]] if ends else []
        return {key: count / (len(ends) - 1) for key, count in Counter(keys).items()} or None

    def _place_phases(self) -> None:
        """Note the rows of the stretches that the latest revision may have moved."""
        finder, rows = self.finder, self._rows
        for stretch in finder.stretches:
            if stretch.start >= finder.base:
                before = bisect.bisect_left(finder.boundaries, stretch.start - finder.base)
                rows[stretch.start] = self._base_row + before
        self._rows = {stretch.start: rows.get(stretch.start, 0) for stretch in finder.stretches}
        for stretch in finder.stretches[:-1]:
            if stretch.basis != "period" and stretch.start not in self._means:
                self._means[stretch.start] = self._mean(stretch.start) or {}
        self._tell_phases()

    def _tell_phases(self) -> None:
        began = [phase.first_row for phase in self.phases()[1:]]
        for row in began:
            if row not in self._told:
                self._listener.phase_began(row)
        self._told = set(began)

    def retract(self) -> None:
        """Take the latest call back: it ended without training (end of data)."""
        if self.explicit or self.finder.searching or not self._starts:
            return
        began = self.finder.undo()
        del self._starts[-1:], self._steps[-1:]
        if began:
            row = len(self._journal.numbers) - 1
            self._next = self._journal.numbers[row]
            self._journal.truncate(row)
            self._listener.retracted(row)

    def _begin(self, steps: int, start: Optional[int]) -> int:
        number = self._next
        if start is None:
            self._listener.before_step(len(self._journal.numbers), number)
            start = self._clock()
            self._journal.row(number, start)
            self._listener.begun(number)
        else:
            self._journal.row(number, start)
        self._next = number + steps
        return start

    def _revise(self, steps: int, start: Optional[int]) -> None:
        boundaries = self.finder.boundaries
        current = bool(boundaries) and boundaries[-1] == len(self.finder.keys) - 1
        self._renumber(boundaries[:-1] if current else boundaries)
        if current:
            self._starts.append(self._begin(steps, start))
        else:
            self._starts.append(self._clock() if start is None else start)

    def _renumber(self, boundaries: List[int]) -> None:
        """Write the rows anew that begin at these calls."""
        numbers = self._journal.numbers
        self._next = numbers[self._base_row] if len(numbers) > self._base_row else self._next
        wanted = []
        for index in boundaries:
            wanted.append((self._next, self._starts[index]))
            self._next += self._steps[index]
        self._rewrite(wanted)

    def _rewrite(self, wanted: Any) -> None:
        have = list(zip(self._journal.numbers[self._base_row :], self._journal.starts[self._base_row :]))
        same = 0
        while same < min(len(have), len(wanted)) and have[same] == wanted[same]:
            same += 1
        if same < len(have):
            self._journal.truncate(self._base_row + same)
            self._listener.revised(self._base_row + same)
        for number, began in wanted[same:]:
            self._journal.row(number, began)

    def _trim(self, calls: int) -> None:
        del self._starts[:calls], self._steps[:calls]
        self._base_row = len(self._journal.numbers) - len(self.finder.boundaries)
