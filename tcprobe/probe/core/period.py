"""Finds the training step: the smallest repeating period of training calls, while the run goes on.

`PeriodFinder` sees the key of every training call in order and says of each whether it begins a step. It follows a
pattern until a call breaks it, and then searches for one that repeats; what lies between is placed once, when that
is found. The first guess is optimistic (a step ends where the first key returns), so that a run of three steps has
three steps. What interrupts a pattern that goes on (validation, the rest of an epoch) is no step.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterator, List, Optional, Sequence, Set, Tuple

BEGIN = "begin"
INSIDE = "inside"
UNDECIDED = "unknown"
PLACED = "placed"

PERIOD = "period"
DOMINANT = "dominant function"

# Longest period looked for, in calls; a GAN with more critic updates than this falls to its dominant function.
MAX_PERIOD = 64
# Calls without a pattern after which the dominant function counts.
MOST_WITHOUT_PATTERN = 4 * MAX_PERIOD
# Calls to look back on for functions that a pattern leaves out.
LATELY = 3 * MAX_PERIOD
MOST_KEPT = 16 * MAX_PERIOD  # calls; then the older half goes
# A pattern that leaves out a key lately seen must run at least this long before it is believed.
STUBBORN = 16
# Patterns in a row, each gone within a period, after which none is resumed; twice as many show that there is none.
UNSTEADY = 4
# Calls that a pattern goes on for at the least where there is none after it; for less it was by chance.
HELD = 64
# Share of the calls since a pattern broke that repeat where they are several patterns, none of which goes on.
MOSTLY = 0.9


class PeriodFinder:
    """Finds the period live.

    Attributes:
        keys: the latest calls.
        pattern: keys of one step, those of the step before while another is searched; empty before the first.
        basis: "period", or "dominant function" where no period exists.
        searching: no pattern is followed.
        placed: what the latest PLACED is about: of each pattern the calls that begin its steps, as indices into `keys`.
        steady: index after the last pattern that held.
    """

    def __init__(self) -> None:
        self.keys: List[int] = []
        self.pattern: Tuple[int, ...] = ()
        self.basis = PERIOD
        self.searching = True
        self.placed: List[Sequence[int]] = []
        self.steady = 0
        self._followers: Set[int] = set()  # keys that begin no step
        self._position = 0
        self._broken = 0  # index of the call that broke the pattern
        self._start = 0  # index of its first call
        self._locked = 0  # calls that had come when the pattern was found
        self._unsteady = 0

    @property
    def period(self) -> Optional[int]:
        """Return the calls of one step; None where that is not known."""
        return None if self.searching else len(self.pattern)

    def is_inside(self) -> bool:
        """Say whether more calls of the current step are expected."""
        return self.basis == PERIOD and self._position != 0

    def add(self, key: int, begins: bool = True) -> str:
        """Take the next training call; return BEGIN, INSIDE, UNDECIDED or PLACED.

        PLACED means that the steps from the first call in `placed` on begin with the calls that it holds, and with no
        others.

        Args:
            key: of the call.
            begins: False where no step begins with it, if any other call can begin one.
        """
        if not begins:
            self._followers.add(key)
        if len(self.keys) >= MOST_KEPT:
            self._forget()
        self.keys.append(key)
        return self._search() if self.searching else self._follow(key)

    def follow(self, keys: Sequence[int]) -> Tuple[int, range]:
        """Take some calls, as `add` would, while they go on with the pattern.

        Returns:
            How many it took, 0 where the next does not go on with it, and which of them begin a step.
        """
        if self.searching or self.basis == DOMINANT:
            return 0, range(0)
        if len(self.keys) >= MOST_KEPT:
            self._forget()
        size, count = len(self.pattern), len(keys)
        expected = self.pattern[self._position :] + self.pattern * (count // size + 1)
        if tuple(keys) != expected[:count]:
            count = next(index for index, (key, other) in enumerate(zip(keys, expected)) if key != other)
        begins = range(-self._position % size, count, size)
        self.keys.extend(keys[:count])
        self._position = (self._position + count) % size
        return count, begins

    def undo(self) -> None:
        """Take the latest call back."""
        self.keys.pop()
        if not self.searching:
            self._position = (self._position - 1) % len(self.pattern)
            if len(self.keys) <= len(self.pattern):
                self.pattern, self.searching = (), True  # it had ended the first step

    def conclude(self) -> bool:
        """Place what has run since the last pattern broke as what it looks like; return whether it has steps.

        The run is at its end, so that nothing more will tell.
        """
        several = self._between(len(self.keys)) if self.searching and self.pattern else []
        if several:
            self.placed, self.searching = list(several), False
            self.pattern = self._step(several[-1])
        return bool(several)

    def _forget(self) -> None:
        """Drop calls too old to be looked at, so that memory stays bounded."""
        cut = min(MOST_KEPT // 2, self._broken) if self.searching else MOST_KEPT // 2
        del self.keys[:cut]
        self._broken -= cut
        self._start -= cut
        self._locked -= cut
        self.steady = max(0, self.steady - cut)

    def _follow(self, key: int) -> str:
        if self.basis == DOMINANT:
            if key == self.pattern[0]:
                self._locked = len(self.keys)
                return BEGIN
            if len(self.keys) - self._locked <= MOST_WITHOUT_PATTERN:
                return INSIDE
        elif key == self.pattern[self._position]:
            begins = self._position == 0
            self._position = (self._position + 1) % len(self.pattern)
            return BEGIN if begins else INSIDE
        return self._break()

    def _break(self) -> str:
        """Search from the latest call on."""
        self._broken = len(self.keys) - 1
        self._unsteady = self._unsteady + 1 if self._broken - self._locked < len(self.pattern) - 1 else 0
        self.steady = self._broken if self._broken - self._start >= HELD else self.steady
        if self._unsteady == 2 * UNSTEADY:
            return self._fail()
        self.searching, self.basis = True, PERIOD
        return self._search()

    def _search(self) -> str:
        keys, since = self.keys, len(self.keys) - self._broken
        if not self.pattern and (since == 1 or keys[-1] == keys[0]):
            return BEGIN if since == 1 else self._lock(range(0, since, since - 1))
        repeats = self._repeats()
        if repeats:
            return self._lock(repeats)
        if since > MOST_WITHOUT_PATTERN:
            return self._fail()
        return UNDECIDED if self.pattern else INSIDE

    def _repeats(self) -> range:
        """Return what repeats up to now with the smallest period that can be believed; empty where nothing does.

        The pattern before goes on once it has run whole, but after a call of another function only after a long run:
        it may have left that one out.
        """
        keys, total, size = self.keys, len(self.keys), len(self.pattern)
        since, old = set(keys[self._broken :]), set(self.pattern)
        resumable = size > 0 and self._unsteady < UNSTEADY
        if resumable and total - self._broken >= size and tuple(keys[-size:]) == self.pattern:
            run = self._run(size) // size * size
            if since <= old or run >= max(STUBBORN, min(2 * self._broken, 2 * MAX_PERIOD)):
                return range(total - run, total, size)
        twice = self._broken - self._start >= 2 * size
        if resumable and twice and since <= old and total - self._broken <= 3 * size:
            return range(0)  # the rest of an epoch may look like a pattern of its own
        lately = keys[: -LATELY - 1 : -1]
        complete = 1 + max(lately.index(key) for key in set(lately))  # calls that hold all keys of these
        for period in range(1 if not since & old else complete, min(MAX_PERIOD, total // 2) + 1):
            if keys[-period:] == keys[-2 * period : -period]:
                run = self._run(period)
                if run >= max(_needed(period), STUBBORN if period < complete else 0):
                    return range(total - run, total, period)
        return range(0)

    def _step(self, repeats: range) -> Tuple[int, ...]:
        return tuple(self.keys[repeats.start : repeats.start + repeats.step])

    def _run(self, period: int) -> int:
        """Return how many of the last calls repeat with `period`, the first period included."""
        keys, run = self.keys, period
        while run < len(keys) and keys[-run - 1] == keys[period - run - 1]:
            run += 1
        return run

    def _lock(self, repeats: range) -> str:
        """Follow what repeats up to now, and place what was before."""
        keys, start, period = self.keys, repeats.start, repeats.step
        start += next((i for i, key in enumerate(keys[start : start + period]) if key not in self._followers), 0)
        last = range(start, len(keys), period)
        pattern = self._step(last)
        resumed = pattern == self.pattern
        self.placed = [last] if resumed or not self.pattern else [*self._between(start), last]
        self.pattern, self.searching = pattern, False
        self._start, self._locked = start, len(keys)
        self._position = (len(keys) - start) % period
        return PLACED

    def _between(self, end: int) -> List[range]:
        """Return what repeats from the break to `end` and does not just interrupt the pattern before.

        That is what runs long, or has none of its keys and is not followed by it again.
        """
        kept: List[range] = []
        again = False
        for repeats in reversed(list(repeating(self.keys, self._broken, end))):
            keys = self._step(repeats)
            if repeats.stop - repeats.start >= STUBBORN or not (again or set(keys) & set(self.pattern)):
                kept.append(repeats)
                again = again or Counter(keys) == Counter(self.pattern)
        return kept[::-1]

    def _fail(self) -> str:
        """Tell several patterns apart, none of which goes on, or fall back to the function called most often."""
        keys, several = self.keys, self._between(len(self.keys))
        if sum(repeats.stop - repeats.start for repeats in several) >= MOSTLY * (len(keys) - self._broken):
            last = several[-1]
            self.placed, self.searching = list(several), True
            self.pattern, self._broken = self._step(last), last.stop
            return PLACED
        counts = Counter(key for key in keys[-MOST_WITHOUT_PATTERN:] if key not in self._followers)
        dominant = max(counts or {keys[-1]: 1}, key=lambda key: (counts[key], -key))
        self.placed = [[index for index in range(self.steady, len(keys)) if keys[index] == dominant]]
        self.pattern, self.basis, self.searching = (dominant,), DOMINANT, False
        self._start = self._locked = len(keys)
        self._position = self._unsteady = 0
        return PLACED


def _needed(period: int) -> int:
    """Return how many calls must repeat before a period is one."""
    return period * (2 if period >= 4 else 3)


def repeating(keys: List[int], begin: int, end: int) -> Iterator[range]:
    """Yield what repeats between two indices, from the left: of several periods the one that holds longest."""
    index = begin
    while index < end:
        best = range(index, index)
        for period in range(1, min(MAX_PERIOD, (end - index) // 2) + 1):
            last = index + period
            while last < end and keys[last] == keys[last - period]:
                last += 1
            if last - index >= max(_needed(period), best.stop - index + 1):
                best = range(index, last, period)
        if best:
            yield best
        index = max(index + 1, best.stop)
