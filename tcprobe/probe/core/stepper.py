"""Counts steps: turns training calls into rows of steps.csv, as the period finder tells."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

from .journal import Journal
from .period import BEGIN, REVISED, UNDECIDED, PeriodFinder

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
            ``retracted(row)`` where the last row was none.

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
        self._marked: Dict[int, int] = {}  # calls by key since the script marks its steps
        self._whole: Dict[int, int] = {}  # those of its steps that have ended

    @property
    def basis(self) -> str:
        """Return how the steps were found."""
        return self.explicit or self.finder.basis

    @property
    def count(self) -> int:
        """Return the steps begun so far."""
        return self._next

    def is_inside_step(self) -> bool:
        """Say whether calls of the current step are still to come."""
        return self.explicit is not None or self.finder.is_inside()

    def is_certain(self) -> bool:
        """Say whether the steps are marked by the script, or their pattern has lasted long enough to be believed."""
        calls = self.finder.base + len(self.finder.keys)
        return self.explicit is not None or (bool(self.finder.pattern) and calls > SURE_AFTER)

    def call(self, key: int, steps: int = 1, start: Optional[int] = None) -> None:
        """Take a training call that begins now, or that began at `start`.

        Args:
            key: number of the function.
            steps: steps that one call makes.
            start: for a call known to train only after the event; no step range is opened for it.
        """
        if self.explicit is not None:
            self._marked[key] = self._marked.get(key, 0) + 1
            return
        base = self.finder.base
        verdict = self.finder.add(key)
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
        self._whole = dict(self._marked)
        self._begin(steps, None)

    def calls_per_step(self) -> Dict[int, float]:
        """Return how often each function is called in one step, by key; empty where that is not known yet.

        A period tells exactly; elsewhere it is the mean of the steps that have ended and are remembered.
        """
        finder, ends = self.finder, self.finder.boundaries
        if self.explicit is not None:
            whole, steps = self._whole or self._marked, self._next - bool(self._whole)
            return {key: count / steps for key, count in whole.items()} if steps else {}
        if not ends:
            return {}
        if finder.pattern and finder.basis == "period":
            keys, steps = list(finder.pattern), self._steps[ends[-1]]
        else:
            keys, steps = finder.keys[ends[0] : ends[-1]], sum(self._steps[end] for end in ends[:-1])
        return {key: keys.count(key) / steps for key in set(keys)} if steps else {}

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
        earlier = boundaries[:-1] if current else boundaries
        numbers = self._journal.numbers
        self._next = numbers[self._base_row] if len(numbers) > self._base_row else self._next
        wanted = []
        for index in earlier:
            wanted.append((self._next, self._starts[index]))
            self._next += self._steps[index]
        self._rewrite(wanted)
        if current:
            self._starts.append(self._begin(steps, start))
        else:
            self._starts.append(self._clock() if start is None else start)

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
