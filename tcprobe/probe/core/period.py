"""Finds the training step: the smallest repeating period of training calls, while the run goes on.

`PeriodFinder` sees the key of every training call in order and says of each whether it begins a step. The first
guess is optimistic (a step ends where the first key returns), so that a run of three steps has three steps;
a call that breaks the pattern starts a search, and what is found may revise the steps since `base`. Patterns that
follow one another for good are stretches of the run; what lies between two stretches of one pattern (validation, the
rest of an epoch) is none.
"""

from __future__ import annotations

import bisect
from collections import Counter
from typing import Iterator, List, NamedTuple, Sequence, Set, Tuple

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
# Stretches that are told apart; the last takes in all that follow.
MOST_STRETCHES = 64
# Calls that a pattern holds for at the least where none follows of the same functions; for less it was by chance.
HELD = 64
# Share of the calls since a pattern broke that stretches must hold to be believed where no pattern goes on.
MOSTLY = 0.9


class Stretch(NamedTuple):
    """Calls of one pattern.

    Attributes:
        start: number of its first call, counted over the run.
        pattern: keys of one step; empty in the last of too many stretches.
        basis: "period", or "dominant function" where there is none.
        held: calls that followed the pattern until it broke.
    """

    start: int
    pattern: Tuple[int, ...]
    basis: str
    held: int = 0


class Repeats(NamedTuple):
    """Calls that repeat: index of the first, calls in one step, calls in all."""

    start: int
    period: int
    length: int


class PeriodFinder:
    """Finds the period live.

    Attributes:
        keys: calls since `base`.
        base: number of the first call in `keys`, counted over the run.
        boundaries: indices into `keys` of the calls that begin a step.
        pattern: keys of one step; empty while it is not known.
        basis: "period", or "dominant function" where no period exists.
        stretches: the patterns so far, in order, each from where it began to hold.
    """

    def __init__(self) -> None:
        self.keys: List[int] = []
        self.base = 0
        self.boundaries: List[int] = []
        self.pattern: Tuple[int, ...] = ()
        self.basis = "period"
        self.stretches: List[Stretch] = []
        self._followers: Set[int] = set()  # keys that begin no step
        self._position = 0
        self._old: Tuple[int, ...] = ()
        self._broken_at = -1
        self._foreign = False
        self._locked_at = 0
        self._since = 0  # number of the call from which on the pattern was followed
        self._unsteady = 0

    @property
    def searching(self) -> bool:
        """True between the break of a pattern and the next one found."""
        return self._broken_at >= 0

    def is_inside(self) -> bool:
        """Say whether more calls of the current step are expected."""
        return self.basis == "period" and self._position != 0

    def add(self, key: int, begins: bool = True) -> str:
        """Take the next training call; return BEGIN, INSIDE, UNDECIDED or REVISED.

        REVISED means that `boundaries` replaces every boundary told since call `base`; the call itself begins a
        step where the last boundary is its own index.

        Args:
            key: of the call.
            begins: False where no step begins with it, if any other call can begin one.
        """
        if not begins:
            self._followers.add(key)
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
        if not self.base and len(self.keys) <= len(self.pattern):
            self.pattern, self.stretches = (), []  # it had ended the first step
        began = bool(self.boundaries) and self.boundaries[-1] == len(self.keys)
        if began:
            self.boundaries.pop()
        return began

    def _guess(self, key: int) -> str:
        """Before the first pattern: the first key's return ends the first step."""
        if len(self.keys) == 1:
            return BEGIN
        if key != self.keys[0]:
            return self._first_call_apart() if len(self.keys) <= MOST_WITHOUT_PATTERN else self._fail()
        self.pattern = tuple(self.keys[:-1])
        self._position = 1 % len(self.pattern)
        self._begin_stretch(self.base, self.pattern)
        return BEGIN

    def _first_call_apart(self) -> str:
        """Say what a call is while the first key has not returned: it may be that of a step apart."""
        period = self._period()
        if not period or self._run(period) < max(STUBBORN, 3 * period):
            return INSIDE
        start = self._first_of(period)
        return self._found(tuple(self.keys[start : start + period]), start)

    def conclude(self) -> bool:
        """Take what has run since the last pattern broke for what it looks like; return whether it had steps.

        The run is at its end, so that nothing more will tell. Then `boundaries` is as after REVISED.
        """
        if not self.searching:
            return False
        found = self._fresh(self._broken_at, len(self.keys))
        for repeats in found:
            self._keep(repeats)
            self.pattern = tuple(self.keys[repeats.start : repeats.start + repeats.period])
        return bool(found)

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
        self._hold(len(self.keys) - 1 + self.base - self._since)
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
            return self._found(self._old, len(self.keys) - self._run(size) // size * size, resumed=True)
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
        fresh = not set(keys[max(0, self._broken_at) :]) & set(self._old)
        for period in range(1, min(MAX_PERIOD, total // 2) + 1):
            if keys[-period:] != keys[-2 * period : -period]:
                continue
            need = period * (2 if period >= 4 else 3)
            whole = lately <= set(keys[-period:])
            if self._run(period) >= (need if whole else max(need, STUBBORN)) and (whole or fresh):
                return period
        return 0

    def _found(self, pattern: Tuple[int, ...], start: int, resumed: bool = False) -> str:
        """Follow `pattern`, which holds from index `start` on; `resumed`: it is the one before."""
        ahead = next((i for i, key in enumerate(pattern) if key not in self._followers), 0)
        pattern, start = pattern[ahead:] + pattern[:ahead], start + ahead
        self.boundaries = [b for b in self.boundaries if b < start]
        for repeats in () if resumed or self._broken_at < 0 else self._fresh(self._broken_at, start):
            self._keep(repeats)
        self.boundaries += range(start, len(self.keys), len(pattern))
        self.pattern = pattern
        self._position = (len(self.keys) - start) % len(pattern)
        self._broken_at, self._locked_at = -1, len(self.keys) - 1
        self._since = self.base + start
        self._begin_stretch(self._since, pattern)
        return REVISED

    def _begin_stretch(self, start: int, pattern: Tuple[int, ...]) -> None:
        """Note that `pattern` holds from call `start` on; it may go on after an irregular stretch."""
        kept = [stretch for stretch in self.stretches if stretch.start < start]
        last = kept[-1] if kept else None
        if last is None or last.basis != self.basis or Counter(last.pattern) != Counter(pattern):
            if len(kept) < MOST_STRETCHES:
                kept.append(Stretch(start, pattern, self.basis))
            else:
                kept[-1] = kept[-1]._replace(pattern=())
        self.stretches = kept

    def _hold(self, calls: int) -> None:
        if self.stretches:
            last = self.stretches[-1]
            self.stretches = [*self.stretches[:-1], last._replace(held=last.held + calls)]

    def _fresh(self, begin: int, end: int) -> List[Repeats]:
        """Return what repeats between two indices and is no irregular stretch of the pattern before.

        That is what runs long, or has none of its keys and is not followed by it again.
        """
        found, again = [], False
        for repeats in reversed(list(repeating(self.keys, begin, end))):
            keys = self.keys[repeats.start : repeats.start + repeats.period]
            if repeats.length >= STUBBORN or not (again or set(keys) & set(self._old)):
                found.append(repeats)
                again = again or Counter(keys) == Counter(self._old)
        return found[::-1]

    def _keep(self, repeats: Repeats) -> None:
        start, period, length = repeats
        self.boundaries = [b for b in self.boundaries if b < start] + list(range(start, start + length, period))
        self._begin_stretch(self.base + start, tuple(self.keys[start : start + period]))
        self._hold(length)

    def _fail(self) -> str:
        """Tell the stretches apart that have no pattern in common, or fall back to the function called most often."""
        start = max(self._broken_at, 0)
        found = self._fresh(start, len(self.keys))
        if found and sum(r.length for r in found) >= MOSTLY * (len(self.keys) - start):
            return self._tell_apart(found)
        counts = Counter(key for key in self.keys[-MOST_WITHOUT_PATTERN:] if key not in self._followers)
        dominant = max(counts or {self.keys[-1]: 1}, key=lambda k: (counts[k], -k))
        kept = [b for b in self.boundaries if b < start]
        self.boundaries = kept + [i for i in range(start, len(self.keys)) if self.keys[i] == dominant]
        self.pattern, self.basis, self._broken_at = (dominant,), "dominant function", -1
        self._begin_stretch(self._since_unsteady(self.base + start), self.pattern)
        return REVISED

    def _since_unsteady(self, start: int) -> int:
        """Return from which call on no pattern has held for long, given that none does from `start` on."""
        keys = set(self.keys[-MOST_WITHOUT_PATTERN:])
        for stretch in reversed(self.stretches):
            if stretch.basis == "period" and (stretch.held >= HELD or not keys & set(stretch.pattern)):
                break
            start = stretch.start
        return start

    def _tell_apart(self, found: List[Repeats]) -> str:
        for repeats in found[:-1]:
            self._keep(repeats)
        start, period, length = found[-1]
        self.boundaries = [b for b in self.boundaries if b < start]
        self._broken_at = -1
        if start + length == len(self.keys):
            return self._found(tuple(self.keys[start : start + period]), start)
        self._keep(found[-1])
        self.pattern = tuple(self.keys[start : start + period])
        self._break(self.keys[-1])
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


def repeating(keys: List[int], begin: int, end: int) -> Iterator[Repeats]:
    """Yield what repeats between two indices, from the left: of several periods the one that holds longest."""
    index = begin
    while index < end:
        best = Repeats(index, 0, 0)
        for period in range(1, min(MAX_PERIOD, (end - index) // 2) + 1):
            last = index + period
            while last < end and keys[last] == keys[last - period]:
                last += 1
            if last - index >= period * (2 if period >= 4 else 3) and last - index > best.length:
                best = Repeats(index, period, last - index)
        if best.period:
            yield best
        index += max(1, best.length)
