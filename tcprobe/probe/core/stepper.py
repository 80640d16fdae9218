"""Finds the training step while the run goes on, and counts steps: turns training calls into rows of steps.csv.

A step is the smallest repeating period of training calls. The stepper follows a pattern until a call breaks it, and
then searches for one that repeats. The first guess is optimistic (a step ends where the first key returns), so that a
run of three steps has three steps. Whoever reads the run has all calls and numbers the steps anew
(`readers/run_folder/recount.py`): here they are counted so that the profiler has a window.
"""

from __future__ import annotations

import bisect
from collections import Counter
from itertools import accumulate
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

from .journal import Journal

# What tells the steps, as in probe.json: a period, the function called most often, or the script itself.
PERIOD, DOMINANT, MARKED = "period", "dominant function", "tcprobe.step"

# Longest period looked for, in calls; a GAN with more critic updates than this falls to its dominant function.
MAX_PERIOD = 64
# Calls without a pattern that holds, after which the dominant function counts.
MOST_WITHOUT_PATTERN = 4 * MAX_PERIOD
# Calls to look back on for functions that a pattern leaves out.
LATELY = 3 * MAX_PERIOD
MOST_KEPT = 16 * MAX_PERIOD  # calls; then the older half goes
# Calls that a pattern goes on for at the least where it holds; one that leaves out a key lately seen must first.
STUBBORN = 16
ALIEN = 8  # the same where other functions train than in the pattern before
# Calls that a run of them must have before a step is numbered in a place that no revision reaches: the first guess
# takes the critic's five updates for five steps.
SURE_AFTER = 8
# Steps in a row, alike and unlike those before, after which the script's own steps are another phase.
STEADY = 3


class Stepper:
    """Counts steps.

    Args:
        journal: takes the rows.
        clock: nanoseconds since the start of the workload.
        listener: told of every step: ``before_step(row, number)`` before its clock is read, ``begun(number)``
            after, ``lost()`` where the pattern broke, ``revised(row)`` where rows from `row` on were renumbered,
            ``retracted(row)`` where the last row was none, ``phase_began(row)`` where one turns out to have begun.

    Attributes:
        basis: what tells the steps.
        count: steps begun so far.
        keys: of the latest calls.
        pattern: keys of one step, those of the step before while another is searched; empty before the first.
        searching: no pattern is followed.
    """

    def __init__(self, journal: Journal, clock: Callable[[], int], listener: Any) -> None:
        self.basis = PERIOD
        self.count = 0
        self.keys: List[int] = []
        self.pattern: Tuple[int, ...] = ()
        self.searching = True
        self._journal = journal
        self._clock = clock
        self._listener = listener
        self._starts: List[int] = []  # of the calls in `keys`
        self._steps: List[int] = []  # that each makes
        self._followers: Set[int] = set()  # keys that begin no step, if any other call can begin one
        self._position = 0  # in the pattern, of the next call
        self._start = 0  # index of the first call of the pattern, of the latest where one function counts
        self._broken = 0  # index of the call that broke the pattern
        self._held = 0  # index after the last pattern that held
        self._era = 0  # index from which on other functions train than before
        self._phase = 0  # row of the first step of the phase that runs
        self._usual: Optional["Counter[int]"] = None  # calls of its steps, by key
        # of steps that the script marks: the calls of the one that runs, of the one before, and how many were like that
        self._calls: "Counter[int]" = Counter()
        self._last: "Counter[int]" = Counter()
        self._alike = 0

    @property
    def period(self) -> Optional[int]:
        """Return the calls of one step; None where that is not known."""
        return None if self.searching else len(self.pattern)

    def is_inside_step(self) -> bool:
        """Say whether calls of the current step are still to come."""
        return self.basis == MARKED or (self.basis == PERIOD and self._position != 0)

    def is_certain(self) -> bool:
        """Say whether the steps are marked by the script, or their pattern has lasted long enough to be believed."""
        return self.basis == MARKED or (not self.searching and len(self.keys) > SURE_AFTER)

    # --- calls -------------------------------------------------------------------------------------------

    def call(self, key: int, steps: int = 1, start: Optional[int] = None, begins: bool = True) -> None:
        """Take a training call that begins now, or that began at `start`.

        Args:
            key: number of the part of training.
            steps: steps that one call makes.
            start: for a call known to train only after the event; no step range is opened for it.
            begins: False where no step begins with it.
        """
        if self.basis == MARKED:
            self._calls[key] += 1
            return
        if not begins:
            self._followers.add(key)
            if not self.keys:
                return  # an optimizer that makes its variables before there is a gradient
        self._forget()
        last, placed = len(self.keys), None
        self.keys.append(key)
        is_first = self._goes_on(key)
        if is_first is None:
            placed = self._search()
            is_first = placed is not None and last in placed
            if self.pattern:
                self._listener.lost()
        if placed is not None and last:
            self._rewrite([index for index in placed if index != last])
        if is_first:
            start = self._begin(steps, start)
        self._starts.append(self._clock() if start is None else start)
        self._steps.append(steps)
        if placed is not None and self.pattern:
            self._tell_phase(self._row(placed[0]), Counter(self.pattern))

    def follow(self, keys: Sequence[int], steps: Sequence[int], starts: Sequence[int]) -> int:
        """Take some calls that were only noted, while they go on with the pattern; return how many, 0 where none does.

        Args:
            keys: numbers of the functions.
            steps: steps that each call makes; the same for every call of one function.
            starts: when the calls began.
        """
        if self.searching or self.basis != PERIOD:
            return 0
        self._forget()
        size, count = len(self.pattern), len(keys)
        expected = self.pattern[self._position :] + self.pattern * (count // size + 1)
        if tuple(keys) != expected[:count]:
            count = next(index for index, (key, other) in enumerate(zip(keys, expected)) if key != other)
        begins = range(-self._position % size, count, size)
        self._position = (self._position + count) % size
        self.keys += keys[:count]
        self._starts += starts[:count]
        self._steps += steps[:count]
        if begins:
            each = steps[begins[0]]
            numbers = range(self.count, self.count + each * len(begins), each)
            self._journal.rows(numbers, starts[begins.start : count : begins.step])
            self.count += each * len(begins)
        return count

    def retract(self) -> None:
        """Take the latest call back: it ended without training (end of data)."""
        if self.basis == MARKED or not self.keys:
            return
        self.keys.pop()
        self._steps.pop()
        if not self.searching:
            self._position = (self._position - 1) % len(self.pattern)
            if len(self.keys) <= len(self.pattern):
                self.pattern, self.searching = (), True  # it had ended the first step
        start, row = self._starts.pop(), len(self._journal.numbers) - 1
        if row >= 0 and self._journal.starts[row] == start:
            self.count = self._journal.numbers[row]
            self._journal.truncate(row)
            self._listener.retracted(row)

    def step(self) -> None:
        """Begin a step that the script marks itself; calls count no more."""
        if self.basis != MARKED:
            self.basis, self._phase, self._usual = MARKED, 0, None
            self._journal.truncate(0)
            self.count = 0
            self._listener.revised(0)
        rows, calls = len(self._journal.numbers), self._calls
        self._begin(1, None)
        if rows:
            self._alike = self._alike + 1 if calls == self._last else 1
            self._calls, self._last = Counter(), calls
            if self._alike == STEADY:
                self._tell_phase(rows - STEADY, calls)

    def conclude(self) -> None:
        """Count the steps at the end of the run, however few, where other functions train than in the pattern."""
        repeats = self._repeats(alien_calls=0) if self.basis == PERIOD and self.searching and self.pattern else range(0)
        if repeats:
            self._rewrite(self._lock(repeats))
            self._tell_phase(self._row(repeats.start), Counter(self.pattern))

    # --- rows --------------------------------------------------------------------------------------------

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

    def _row(self, call: int) -> int:
        """Return the row that begins with a call, or the first after it."""
        return bisect.bisect_left(self._journal.starts, self._starts[call])

    def _rewrite(self, begins: Sequence[int]) -> None:
        """Write the rows anew from the first of these calls on, which begin the steps."""
        if not begins:
            return
        journal, row = self._journal, self._row(begins[0])
        first = journal.numbers[row] if row < len(journal.numbers) else self.count
        *numbers, self.count = accumulate([first, *(self._steps[index] for index in begins)])
        rows = list(zip(numbers, [self._starts[index] for index in begins]))
        before = list(zip(journal.numbers[row:], journal.starts[row:]))
        same = next((i for i, pair in enumerate(zip(rows, before)) if pair[0] != pair[1]), min(len(rows), len(before)))
        if same < len(before):
            journal.truncate(row + same)
            self._listener.revised(row + same)
        journal.rows(*zip(*rows[same:]) if rows[same:] else ((), ()))

    def _tell_phase(self, row: int, usual: "Counter[int]") -> None:
        """Note that the steps from `row` on have these calls; tell of a phase where those before had others."""
        begins = self._usual is not None and row > self._phase and usual != self._usual
        self._phase = row if begins else min(row, self._phase)
        self._usual = usual
        if begins:
            self._listener.phase_began(row)

    # --- the pattern -------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drop calls too old to be looked at, so that memory stays bounded."""
        if len(self.keys) >= MOST_KEPT:
            cut = MOST_KEPT // 2
            del self.keys[:cut], self._starts[:cut], self._steps[:cut]
            each = self._start, self._broken, self._held, self._era
            self._start, self._broken, self._held, self._era = (max(0, index - cut) for index in each)

    def _goes_on(self, key: int) -> Optional[bool]:
        """Return whether the latest call begins a step of the pattern; None where there is none, or it breaks it."""
        if self.searching:
            return None
        last = len(self.keys) - 1
        if self.basis == DOMINANT:
            if key == self.pattern[0]:
                self._start = last
                return True
            if last - self._start < MOST_WITHOUT_PATTERN:
                return False
        elif key == self.pattern[self._position]:
            begins = self._position == 0
            self._position = (self._position + 1) % len(self.pattern)
            return begins
        self._held = last if last - self._start >= STUBBORN else self._held
        self._broken, self.searching, self.basis = last, True, PERIOD
        return None

    def _search(self) -> Optional[Sequence[int]]:
        """Return the calls that begin steps, from the first of them on; None where nothing is found to repeat."""
        keys, total = self.keys, len(self.keys)
        if total == 1:
            return range(1)
        returned = not self.pattern and keys[-1] == keys[0]
        repeats = range(0, total, total - 1) if returned else self._repeats()
        if repeats:
            return self._lock(repeats)
        return self._fall_back() if total - self._held > MOST_WITHOUT_PATTERN else None

    def _repeats(self, alien_calls: int = ALIEN) -> range:
        """Return what repeats up to now with the smallest period that can be believed; empty where nothing does.

        The pattern before goes on once it has run whole, after a call of another function once it has run long. Else a
        period has all keys lately seen, or runs so long that what it leaves out came by chance: twice as long as what
        was before that, unless other functions train now.
        """
        keys, total, size = self.keys, len(self.keys), len(self.pattern)
        since, old = set(keys[self._broken :]), set(self.pattern)
        if total - self._broken >= size and tuple(keys[-size:]) == self.pattern:
            run = self._run(size) // size * size
            if since <= old or run >= STUBBORN:
                return range(total - run, total, size)
        if since <= old and total - self._broken <= 3 * size and self._broken - self._start >= 2 * size:
            return range(0)  # the rest of an epoch may look like a pattern of its own
        lately = keys[max(self._era, total - LATELY) :][::-1]
        complete = 1 + max(lately.index(key) for key in set(lately))  # calls that hold all keys of these
        alien = old and not since & old
        long = alien_calls if alien else max(STUBBORN, min(2 * self._broken, 2 * MAX_PERIOD))
        for period in range(1, min(MAX_PERIOD, total // 2) + 1):
            if keys[-period:] == keys[-2 * period : -period]:
                needed, run = period * (2 if period >= 4 else 3), self._run(period)
                if run >= (max(long, needed) if period < complete else needed):
                    return range(total - run, total, period)
        return range(0)

    def _run(self, period: int) -> int:
        """Return how many of the last calls repeat with `period`, the first period included."""
        keys, run = self.keys, period
        while run < len(keys) and keys[-run - 1] == keys[period - run - 1]:
            run += 1
        return run

    def _lock(self, repeats: range) -> range:
        """Follow what repeats up to now; return the calls that begin its steps."""
        keys, start, period = self.keys, repeats.start, repeats.step
        if not set(keys[self._broken :]) & set(self.pattern):
            self._era = self._broken
        start += next((i for i, key in enumerate(keys[start : start + period]) if key not in self._followers), 0)
        self.pattern, self.searching, self._start = tuple(keys[start : start + period]), False, start
        self._position = (len(keys) - start) % period
        return range(start, len(keys), period)

    def _fall_back(self) -> Sequence[int]:
        """Let the calls of the function that is called most often begin steps; return them."""
        keys = self.keys
        counts = Counter(key for key in keys[-MOST_WITHOUT_PATTERN:] if key not in self._followers)
        dominant = max(counts or {keys[-1]: 1}, key=lambda key: (counts[key], -key))
        self.pattern, self.basis, self.searching = (dominant,), DOMINANT, False
        self._start, self._position = len(keys) - 1, 0
        return [index for index in range(self._held, len(keys)) if keys[index] == dominant]
