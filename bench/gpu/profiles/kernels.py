"""Kernels by name, from what a profiler wrote: XSpaces through tcprobe's reader, other formats by what is needed here.

Kineto's traces and nsys' exports have no reader in tcprobe; what is here takes names and durations and nothing else.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.gpu.tables import TALLIES, read_table, write_table
from tcprobe.readers.open import open_profile

FILE: Final = "kernels.csv.gz"
LAUNCH: Final = re.compile(r"cu(da)?Launch(Cooperative)?Kernel")
"""What launches one kernel, in CUDA's runtime and its driver."""
NSYS: Final = """
SELECT coalesce(long.value, short.value, 'unknown'), count(*), sum(end - start), min(end - start), max(end - start)
FROM CUPTI_ACTIVITY_KIND_KERNEL
LEFT JOIN StringIds AS long ON demangledName = long.id LEFT JOIN StringIds AS short ON shortName = short.id
GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Tally:
    """The launches of one kernel name: how many, and their time in ns."""

    calls: int
    sum_ns: int
    min_ns: int
    max_ns: int


Tallies = dict[str, Tally]


def of_xspace(path: Path) -> Tallies:
    """Return the kernels of an XSpace; none where no GPU was recorded.

    Raises:
        TcprobeError: tcprobe does not read it.
    """
    launches = open_profile(path).require("launches")
    names, durations = launches.values("kernel"), launches.values("duration_ns")
    return tally((str(name), int(ns or 0)) for name, ns in zip(names, durations, strict=True))


def of_kineto(path: Path) -> Tallies:
    """Return the kernels of a Chrome trace by Kineto, which says them in us, to the ns since PyTorch 2.2.

    Raises:
        ValueError: it is no JSON.
    """
    events = json.loads(path.read_bytes())["traceEvents"]
    kernels = (e for e in events if e.get("ph") == "X" and str(e.get("cat")).lower() == "kernel")
    return tally((e["name"], round(1000 * float(e["dur"]))) for e in kernels)


def lost_by_kineto(path: Path) -> int:
    """Return how many launches a Chrome trace by Kineto has without their kernels, of which CUPTI may drop the first.

    Raises:
        ValueError: it is no JSON.
    """
    kernels, launches = set(), set()
    for event in json.loads(path.read_bytes())["traceEvents"]:
        kind, number = str(event.get("cat")).lower(), (event.get("args") or {}).get("correlation")
        if kind == "kernel":
            kernels.add(number)
        elif kind in ("runtime", "cuda_runtime", "cuda_driver") and LAUNCH.match(str(event.get("name"))):
            launches.add(number)
    return len(launches - kernels)


def of_nsys(path: Path) -> Tallies:
    """Return the kernels of an SQLite export of nsys, which has no table for them where there were none.

    Raises:
        sqlite3.Error: it is none.
    """
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True) as database:
        found = database.execute("SELECT name FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchall()
        rows = database.execute(NSYS).fetchall() if found else []
    database.close()
    return {name: Tally(*figures) for name, *figures in rows}


READ: Final = {"xspace": of_xspace, "kineto": of_kineto, "nsys": of_nsys}


def tally(launches: Iterable[tuple[str, int]]) -> Tallies:
    """Sum launches, given as name and duration in ns, by name."""
    spent: dict[str, list[int]] = {}
    for name, ns in launches:
        spent.setdefault(name, []).append(ns)
    return {name: Tally(len(ns), sum(ns), min(ns), max(ns)) for name, ns in spent.items()}


def write(folder: Path, tallies: Mapping[str, Tally]) -> None:
    """Write the table of a unit, costliest first."""
    ordered = sorted(tallies.items(), key=lambda item: (-item[1].sum_ns, item[0]))
    rows = ({"kernel": name, **{c: getattr(found, c) for c in TALLIES[1:]}} for name, found in ordered)
    write_table(folder / FILE, TALLIES, rows)


def read(folder: Path) -> Tallies:
    """Return the table of a unit whose recorder is not `ncu`; empty where it has none."""
    if not (folder / FILE).exists():
        return {}
    rows = read_table(folder / FILE)
    return {row["kernel"]: Tally(*(int(row[column]) for column in TALLIES[1:])) for row in rows}
