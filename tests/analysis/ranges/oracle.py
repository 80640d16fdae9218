"""The ranges around launches by a slow search, to hold the fast one against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """One range; `ended_on` is its own thread unless it crosses threads, `pushed` is False of a started one."""

    name: str
    thread: int
    start: int
    end: int
    pushed: bool = True
    ended_on: int | None = None


@dataclass(frozen=True)
class Call:
    """One kernel; `at` is None where its launch was not recorded."""

    thread: int
    at: int | None
    device: int = 0
    start: int = 0
    length: int = 10


def chains(ranges: list[Range], calls: list[Call]) -> list[list[int]]:
    """Return for each call the numbers of the ranges around it, the innermost first."""
    until = _until(ranges)
    return [_around(ranges, until, call) for call in calls]


def _until(ranges: list[Range]) -> dict[int, int]:
    """Return when each pushed range of some length ends: at most with every one that lasts when it starts."""
    until: dict[int, int] = {}
    pushed = [i for i, r in enumerate(ranges) if r.pushed and r.end > r.start]
    for i in sorted(pushed, key=lambda i: (ranges[i].start, -ranges[i].end, i)):
        mine = ranges[i]
        lasting = [until[q] for q in until if ranges[q].thread == mine.thread and until[q] > mine.start]
        until[i] = min([mine.end, *lasting])
    return until


def _around(ranges: list[Range], until: dict[int, int], call: Call) -> list[int]:
    if call.at is None:
        return []
    held = [i for i in until if ranges[i].thread == call.thread and ranges[i].start <= call.at < until[i]]
    first, last = (ranges[held[0]].start, until[held[0]] - 1) if held else (call.at, call.at)
    started = [
        (r.ended_on in (None, r.thread), r.start, i)
        for i, r in enumerate(ranges)
        if not r.pushed and r.thread == call.thread and r.start <= first and r.end > last
    ]
    return [*reversed(held), *([max(started)[2]] if started else [])]


def union(intervals: list[tuple[int, int, int]]) -> int:
    """Return the time that (device, start, end) cover on each device, summed."""
    return len({(d, t) for d, start, end in intervals for t in range(start, end)})
