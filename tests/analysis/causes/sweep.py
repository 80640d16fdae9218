"""Divide a window in plain Python, moment after moment: what `analysis.causes.bar` must agree with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)


def sweep(
    window: tuple[int, int], kernels: Iterable[tuple[int, int, Key]], copies: Iterable[tuple[int, int]] = ()
) -> tuple[dict[Key, Fraction], int, int]:
    """Return the part of each key, and the time of copies alone and of nothing.

    Args:
        window: start and end.
        kernels: start, end and key; while n run at once, each has an n-th.
        copies: start and end.
    """
    begin, end = window
    events: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    for first, last, what in [*kernels, *((first, last, None) for first, last in copies)]:
        first, last = max(first, begin), min(last, end)
        if last > first:
            events[first].append((1, what))
            events[last].append((-1, what))
    parts: dict[Any, Fraction] = defaultdict(Fraction)
    running: Counter[Any] = Counter()
    copying, idle, before = 0, 0, begin
    for at in [*sorted(events), end]:
        length, many = at - before, sum(n for what, n in running.items() if what is not None)
        for what, n in running.items() if length and many else ():
            if what is not None:
                parts[what] += Fraction(n * length, many)
        if not many:
            copying += length if running[None] else 0
            idle += 0 if running[None] else length
        for change, what in events.get(at, ()):
            running[what] += change
            if not running[what]:
                del running[what]
        before = at
    return {what: part for what, part in parts.items() if part}, copying, idle
