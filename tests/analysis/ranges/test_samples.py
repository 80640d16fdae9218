"""Kernel time by range of real recordings, against a search by SQL and plain Python."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcprobe.flows.report import make_report
from tests.support import ROOT

SAMPLES = sorted((ROOT.parent / "shared" / "samples" / "nsys").glob("*.sqlite"))


def launched(file: sqlite3.Connection) -> Iterator[tuple[int, int | None, int]]:
    """Yield thread, time of the launch call and length of each kernel."""
    calls = {
        (correlation, thread >> 24): (thread, start)
        for correlation, thread, start in file.execute(
            "SELECT correlationId, globalTid, start FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        )
    }
    kernels = "SELECT correlationId, globalPid, end - start FROM CUPTI_ACTIVITY_KIND_KERNEL"
    for correlation, process, length in file.execute(kernels):
        thread, start = calls.get((correlation, process >> 24), (0, None))
        yield thread, start, length


def pushed(file: sqlite3.Connection) -> dict[int, list[tuple[int, int]]]:
    """Return start and end of the ranges of each thread, ascending."""
    found = defaultdict(list)
    rows = 'SELECT globalTid, start, "end" FROM NVTX_EVENTS WHERE eventType IN (59, 70) AND "end" > start'
    for thread, start, end in file.execute(rows):
        found[thread].append((start, end))
    return {thread: sorted(spans, key=lambda span: (span[0], -span[1])) for thread, spans in found.items()}


@pytest.mark.skipif(not SAMPLES, reason="the samples of Nsight Systems are not here")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_launches_in_no_range_are_what_a_search_finds(path: Path) -> None:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as file:
        kernels = list(launched(file))
        has = file.execute("SELECT 1 FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone()
        spans = pushed(file) if has else {}
    found = make_report(path).require("range_kernels")
    if not spans:
        assert not len(found)
        return
    starts = {thread: [start for start, _ in each] for thread, each in spans.items()}
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for thread, at, length in kernels:
        before = spans.get(thread, [])[: bisect_right(starts.get(thread, []), at)] if at is not None else []
        inside = any(at < end for _, end in reversed(before)) if at is not None else False
        bucket = "no launch record" if at is None else "range" if inside else "no enclosing range"
        counts[bucket] += 1
        times[bucket] += length
    told: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for row in found.rows():
        told[str(row["bucket"])] += int(row["launches"] or 0)
        spent[str(row["bucket"])] += int(row["sum_ns"] or 0)
    assert (told, spent) == (counts, times)
