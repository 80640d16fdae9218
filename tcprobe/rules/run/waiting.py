"""What the host does while the GPU waits, by its share of the waiting."""

from __future__ import annotations

from typing import Any, Final

from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.waits import HostWork

LEAST_PCT: Final = 5.0  # of the step: gaps between launches alone reach a few percent of a busy GPU's step
MUCH_PCT: Final = 25.0  # of the waiting: a cause from here on is worth its remedy


def paced_ns(subject: RunSubject) -> float:
    """Return the waiting in stretches too short for a row of `gaps`, where it is half of all and so counts as launches.

    0 where it is less: those stretches then count as nothing that is told.
    """
    return subject.short_ns if 2 * subject.short_ns >= (subject.idle_ns or 0.0) else 0.0


def by_work(subject: RunSubject) -> list[tuple[HostWork, float]]:
    """Return what the host did and its share of the waiting, 0-100, the largest first; the gaps' time if unknown."""
    spent: dict[HostWork, float] = {"launch": paced_ns(subject)}
    for gap in subject.gaps:
        work: Any = gap["host_work"] or "unknown"
        spent[work] = spent.get(work, 0.0) + float(gap["duration_ns"] or 0)
    listed = sum(spent.values())
    whole = max(listed, subject.idle_ns or 0.0)
    copies = spent.get("copy", 0.0)  # of the gaps that are listed; those that are not may hold nothing else
    spent["copy"] = max(copies, min(subject.copy_ns, whole - (listed - copies)))
    shares = ((work, 100.0 * ns / whole if whole else 0.0) for work, ns in spent.items())
    return sorted(shares, key=lambda share: (-share[1], share[0]))


def told(subject: RunSubject) -> list[tuple[HostWork, float]]:
    """Return the kinds of work that explain much of the waiting, at most two, the largest first."""
    return [share for share in by_work(subject) if share[0] != "unknown" and share[1] >= MUCH_PCT][:2]


def spoken_of(subject: RunSubject) -> list[HostWork]:
    """Return the kinds of work that TC301 names as what the GPU waits for; none where it says nothing."""
    if subject.waiting is None or subject.waiting.idle_pct < LEAST_PCT:
        return []
    return [work for work, _ in told(subject)]
