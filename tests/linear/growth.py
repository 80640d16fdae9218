"""How much longer reading takes with more of the same text, measured so that a busy machine changes no verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

ATTEMPTS: Final = 8


def growth(work: Callable[[str], object], short: str, long: str, enough: float) -> float:
    """Return the CPU time of `work` on the long text over that on the short one, measured until it is below `enough`.

    Work that grows too fast does so in each attempt; a slow moment of the machine passes. The least of all attempts.
    """
    least = float("inf")
    for _ in range(ATTEMPTS):
        least = min(least, spent(work, long, 2) / max(spent(work, short, 2), 1e-6))
        if least < enough:
            break
    return least


def spent(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """Return the least CPU seconds that `work` takes on a text."""
    best = float("inf")
    for _ in range(times):
        begun = time.process_time()
        work(text)
        best = min(best, time.process_time() - begun)
    return best
