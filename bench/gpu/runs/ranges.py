"""NVTX ranges as Nsight Systems recorded them: a row per name, of the probe's domain."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bench.gpu.day import NotRecorded
from bench.gpu.tables import RANGES, write_table

DOMAIN: Final = "tcprobe"
PUSHED, CREATED = 59, 75  # event types: a range of push and pop; a domain
NAMED: Final = """
SELECT coalesce(StringIds.value, NVTX_EVENTS.text), start, "end", globalTid
FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = NVTX_EVENTS.textId
WHERE eventType = ? AND domainId IN (
    SELECT domainId FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = NVTX_EVENTS.textId
    WHERE eventType = ? AND coalesce(StringIds.value, NVTX_EVENTS.text) = ?)
ORDER BY start
"""


def keep_ranges(exported: Path, place: Path) -> None:
    """Write `ranges.csv.gz`: of each name how often it stands there, since when, for how long, and how many are open.

    Raises:
        NotRecorded: there is no export, or none of NVTX.
    """
    write_table(place / "ranges.csv.gz", RANGES, summed(read_ranges(exported)))


def read_ranges(exported: Path) -> list[tuple[str, int, int | None, int]]:
    """Return name, start, end and thread of the ranges of the probe's domain, by their starts; no end if open.

    Raises:
        NotRecorded: there is no export, or none of NVTX.
    """
    if not exported.exists():
        raise NotRecorded("nsys exported nothing", "see program.log")
    try:
        with closing(sqlite3.connect(f"{exported.resolve().as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute(NAMED, (PUSHED, CREATED, DOMAIN)).fetchall()
    except sqlite3.Error as error:
        raise NotRecorded(f"nsys exported no NVTX ranges: {error}") from None
    if not rows:
        raise NotRecorded(f"nsys recorded no range of NVTX domain {DOMAIN}")
    return rows


def summed(ranges: Iterable[tuple[str, int, int | None, int]]) -> list[dict[str, Any]]:
    """Return a row per name, in the order of their first starts; times count from the first start of all."""
    by_name: dict[str, list[tuple[int, int | None, int]]] = {}
    for name, begun, ended, thread in sorted(ranges, key=lambda one: one[1]):
        by_name.setdefault(name, []).append((begun, ended, thread))
    origin = min((some[0][0] for some in by_name.values()), default=0)
    return [_row(name, some, origin) for name, some in by_name.items()]


def _row(name: str, some: list[tuple[int, int | None, int]], origin: int) -> dict[str, Any]:
    lengths = [stop - begin for begin, stop, _ in some if stop is not None]
    times = {"sum_ns": sum(lengths), "min_ns": min(lengths), "max_ns": max(lengths)} if lengths else {}
    threads = len({thread for *_, thread in some})
    counted = {"count": len(some), "first_ns": some[0][0] - origin, "open": len(some) - len(lengths)}
    return {"range": name, **counted, **times, "threads": threads}
