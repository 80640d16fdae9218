"""Finds the training step: the smallest repeating period of training calls, while the run goes on.

`PeriodFinder` sees the key of every training call in order and says of each whether it begins a step. The first
guess is optimistic (a step ends where the first key returns), so that a run of three steps has three steps;
a call that breaks the pattern starts a search, and what is found may revise the steps since `base`.
"""

from __future__ import annotations

import bisect
from typing import Dict, List, Sequence, Tuple

BEGIN = "begin"
INSIDE = "inside"
UNDECIDED = "unknown"
REVISED = "revised"

# Longest period looked for, in calls; a GAN with more critic updates than this falls to its dominant function.
MAX_PERIOD = 64
# Calls kept to look back on; twice the longest period must fit, with room for an irregular stretch.
HISTORY = 3 * MAX_PERIOD
MOST_KEPT = 4 * HISTORY  # then the older ones go
# Calls without a pattern after which the dominant function counts.
MOST_WITHOUT_PATTERN = 4 * MAX_PERIOD
# A pattern that leaves out a key lately seen must run at least this long before it is believed.
STUBBORN = 16
# Patterns in a row, each gone within a period, after which none of them is resumed; twice as many show that there
# is none at all.
UNSTEADY = 4


class PeriodFinder:
    """Finds the period live.

    Attributes:
        keys: calls since `base`.
        base: number of the first call in `keys`, counted over the run.
        boundaries: indices into `keys` of the calls that begin a step.
        pattern: keys of one step; empty while it is not known.
        basis: "period", or "dominant function" where no period exists.
    """

    def __init__(self) -> None:
        self.keys: List[int] = []
        self.base = 0
        self.boundaries: List[int] = []
        self.pattern: Tuple[int, ...] = ()
        self.basis = "period"
        self._position = 0
        self._old: Tuple[int, ...] = ()
        self._broken_at = -1
        self._foreign = False
        self._locked_at = 0
        self._unsteady = 0

    @property
    def searching(self) -> bool:
        """True between the break of a pattern and the next one found."""
        return self._broken_at >= 0

    def is_inside(self) -> bool:
        """Say whether more calls of the current step are expected."""
        return self.basis == "period" and self._position != 0

    def add(self, key: int) -> str:
        """Take the next training call; return BEGIN, INSIDE, UNDECIDED or REVISED.

        REVISED means that `boundaries` replaces every boundary told since call `base`; the call itself begins a
        step where the last boundary is its own index.
        """
        self.keys.append(key)
        if self.searching:
            return self._search()
        verdict = self._follow(key) if self.pattern else self._guess(key)
        if verdict == BEGIN:
            self.boundaries.append(len(self.keys) - 1)
            self._forget()
        return verdict

    def follow(self, keys: Sequence[int]) -> Tuple[int, range]:
        """Take some calls, as `add` would, while they go on with the pattern.

        Returns:
            How many it took, 0 where the next does not go on with it, and which of them begin a step.
        """
        size, before = len(self.pattern), len(self.keys)
        if not size or self.searching or self.basis != "period":
            return 0, range(0)
        first = -self._position % size
        expected = (self.pattern[self._position :] + self.pattern[: self._position]) * (len(keys) // size + 1)
        count = len(keys)
        if tuple(keys) != expected[:count]:
            count = next(index for index, (key, other) in enumerate(zip(keys, expected)) if key != other)
        full = max(0, MOST_KEPT - 1 - before)
        count = min(count, full + (first - full) % size + 1)  # the first that makes it forget
        begins = range(first, count, size)
        self.keys.extend(keys[:count])
        self.boundaries.extend(range(before + first, before + count, size))
        self._position = (self._position + count) % size
        if begins:
            self._forget()
        return count, begins

    def undo(self) -> bool:
        """Take the latest call back; return whether it had begun a step."""
        self.keys.pop()
        self._position = (self._position - 1) % max(1, len(self.pattern))
        began = bool(self.boundaries) and self.boundaries[-1] == len(self.keys)
        if began:
            self.boundaries.pop()
        return began

    def _guess(self, key: int) -> str:
        """Before the first pattern: the first key's return ends the first step."""
        if len(self.keys) == 1:
            return BEGIN
        if key != self.keys[0]:
            return INSIDE if len(self.keys) <= MOST_WITHOUT_PATTERN else self._fail()
        self.pattern = tuple(self.keys[:-1])
        self._position = 1 % len(self.pattern)
        return BEGIN

    def _follow(self, key: int) -> str:
        if self.basis != "period":
            return self._dominant(key)
        if key == self.pattern[self._position]:
            begins = self._position == 0
            self._position = (self._position + 1) % len(self.pattern)
            return BEGIN if begins else INSIDE
        return self._break(key)

    def _dominant(self, key: int) -> str:
        if key == self.pattern[0]:
            return BEGIN
        if len(self.keys) - self.boundaries[-1] <= MOST_WITHOUT_PATTERN:
            return INSIDE
        self.basis = "period"
        return self._break(key)

    def _break(self, key: int) -> str:
        held = len(self.keys) - 1 - self._locked_at
        self._unsteady = self._unsteady + 1 if held < len(self.pattern) else 0
        self._old, self.pattern = self.pattern, ()
        self._broken_at = len(self.keys) - 1
        self._foreign = key not in self._old
        return UNDECIDED

    def _search(self) -> str:
        size, since = len(self._old), len(self.keys) - self._broken_at
        self._foreign = self._foreign or self.keys[-1] not in self._old
        if self._resumes():
            return self._found(self._old, len(self.keys) - self._run(size) // size * size)
        # After an irregular stretch of the same calls (the rest of an epoch), the old pattern comes first.
        waits = not self._foreign and since <= 3 * size and self._unsteady < UNSTEADY
        period = 0 if waits else self._period()
        if period and self._unsteady < 2 * UNSTEADY:
            start = self._first_of(period)
            return self._found(tuple(self.keys[start : start + period]), start)
        return self._fail() if period or since > MOST_WITHOUT_PATTERN else UNDECIDED

    def _resumes(self) -> bool:
        """True where the old pattern has just run whole again."""
        size, since = len(self._old), len(self.keys) - self._broken_at
        if not size or since < size or tuple(self.keys[-size:]) != self._old:
            return False
        if self._unsteady >= UNSTEADY:
            return False
        if not self._foreign:
            return True
        return self._run(size) >= max(STUBBORN, min(2 * self._broken_at, 2 * MAX_PERIOD))

    def _run(self, period: int) -> int:
        """Return how many of the last calls repeat with `period`, the first period included."""
        start = self._first_of(period)
        return len(self.keys) - start

    def _first_of(self, period: int) -> int:
        index = len(self.keys) - period
        while index > 0 and self.keys[index - 1] == self.keys[index - 1 + period]:
            index -= 1
        return index

    def _period(self) -> int:
        """Return the smallest believable period at the end of `keys`, 0 where there is none."""
        keys, total = self.keys, len(self.keys)
        lately = set(keys[max(0, total - HISTORY) :])
        fresh = not set(keys[self._broken_at :]) & set(self._old)
        for period in range(1, min(MAX_PERIOD, total // 2) + 1):
            if keys[-period:] != keys[-2 * period : -period]:
                continue
            need = period * (2 if period >= 4 else 3)
            whole = lately <= set(keys[-period:])
            if self._run(period) >= (need if whole else max(need, STUBBORN)) and (whole or fresh):
                return period
        return 0

    def _found(self, pattern: Tuple[int, ...], start: int) -> str:
        kept = [b for b in self.boundaries if b < start]
        self.boundaries = kept + list(range(start, len(self.keys), len(pattern)))
        self.pattern = pattern
        self._position = (len(self.keys) - start) % len(pattern)
        self._broken_at, self._locked_at = -1, len(self.keys) - 1
        self._forget()
        return REVISED

    def _fail(self) -> str:
        """Fall back to the function called most often."""
        counts: Dict[int, int] = {}
        for key in self.keys[-MOST_WITHOUT_PATTERN:]:
            counts[key] = counts.get(key, 0) + 1
        dominant = max(counts, key=lambda k: (counts[k], -k))
        start = max(self._broken_at, 0)
        kept = [b for b in self.boundaries if b < start]
        self.boundaries = kept + [i for i in range(start, len(self.keys)) if self.keys[i] == dominant]
        self.pattern, self.basis, self._broken_at = (dominant,), "dominant function", -1
        return REVISED

    def _forget(self) -> None:
        """Drop calls too old to be revised, so that memory stays bounded."""
        if len(self.keys) < MOST_KEPT or not self.boundaries:
            return
        place = bisect.bisect_left(self.boundaries, len(self.keys) - HISTORY)
        kept = self.boundaries[min(place, len(self.boundaries) - 1) :]
        cut = kept[0]
        del self.keys[:cut]
        self.base += cut
        self._locked_at -= cut
        self.boundaries = [b - cut for b in kept]
