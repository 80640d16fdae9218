"""Time and memory of `report` of a job of many ranks, on processes and on Dask, beside one process that reads all.

Usage: python bench/ranks.py SAMPLE.sqlite [--ranks 1000] [--folder FOLDER] [--scheduler ADDRESS] [--way WAY ...]

Makes a file for each rank of an SQLite export of Nsight Systems: its first fifth, each with a number and a clock of its
own. Reads 1/8, 1/4, 1/2 and all of them by processes, all on Dask (workers of its own without --scheduler), and all by
one process, each in a process of its own (--way: these alone); and says whether all give the same figures. Exits 1 if
they do not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

KEPT: Final = 0.2  # of the time of the sample
MOVED: Final = ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL",
                "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")  # fmt: skip
WAYS: Final = ("one process", "processes", "dask")


def template(sample: Path, made: Path) -> None:
    """Write the first part of a sample."""
    shutil.copyfile(sample, made)
    made.chmod(0o600)
    with closing(sqlite3.connect(made)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        low, high = database.execute("SELECT min(start), max([end]) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        until = low + KEPT * (high - low)
        for table in tables & {*MOVED, "PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"}:
            database.execute(f"DELETE FROM {table} WHERE start > ?", (until,))
        database.commit()
        database.execute("VACUUM")


def write_rank(made: Path, rank: int, path: Path) -> None:
    """Write the file of one rank: its number, and a clock that is behind by a millisecond for each."""
    shutil.copyfile(made, path)
    with closing(sqlite3.connect(path)) as database:
        for table in MOVED:
            database.execute(f"UPDATE {table} SET start = start + ?, [end] = [end] + ?", (rank * 10**6,) * 2)
        database.execute("UPDATE StringIds SET value = ? WHERE value GLOB 'MPI Rank *'", (f"MPI Rank {rank}",))
        database.commit()


def measure(folder: Path, ranks: int, way: str, scheduler: str | None) -> dict[str, Any]:
    """Read a job in a process of its own, and return its figures, time and memory."""
    command = [sys.executable, __file__, "--read", way, str(folder), "--ranks", str(ranks)]
    command += ["--scheduler", scheduler] if scheduler else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # what goes wrong is shown
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def read(folder: Path, ranks: int, way: str, scheduler: str | None) -> dict[str, Any]:
    """Report the first ranks of a folder, and say how long that took and how much memory at most."""
    from msgspec.structs import replace

    from tcprobe.analysis.context import Options
    from tcprobe.flows import job as flow
    from tcprobe.flows.report import analysed
    from tcprobe.readers.open import find_job

    begun = time.perf_counter()
    job = find_job(folder)
    assert job is not None
    job = replace(job, files=job.files[:ranks])
    if way == "one process":
        flow.MANY = len(job.files) + 1  # type: ignore[misc]
    made = flow.report_job(folder, job, Options(), analysed, scheduler if way == "dask" else None)
    took = time.perf_counter() - begun
    tables = {name: list(table.rows()) for name, table in sorted(made.tables.items())}
    own, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "figures": tables, "s": took, "own_mb": own.ru_maxrss / 1024, "below_mb": below.ru_maxrss / 1024,
        "cpu_s": own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sample", type=Path)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--scheduler")
    parser.add_argument("--way", choices=WAYS, nargs="+", default=WAYS)
    parser.add_argument("--read", choices=WAYS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.sample, given.ranks, given.read, given.scheduler)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary) / "job"
        folder.mkdir(exist_ok=True)
        template(given.sample, Path(temporary) / "template.sqlite")
        for rank in range(given.ranks):
            if not (path := folder / f"rank-{rank}.sqlite").exists():
                write_rank(Path(temporary) / "template.sqlite", rank, path)
        size = (folder / "rank-0.sqlite").stat().st_size / 1e6
        print(f"{given.ranks} files of {size:.1f} MB, {len(os.sched_getaffinity(0))} cores")
        return compared(folder, given.ranks, given.scheduler, given.way)


def compared(folder: Path, ranks: int, scheduler: str | None, ways: Sequence[str]) -> int:
    """Print a row for each way and number of ranks; return 1 where two ways differ."""
    print(f"{'read by':<14}{'ranks':>7}{'s':>9}{'CPU s':>9}{'ms a rank':>11}{'client MB':>11}{'process MB':>12}")
    found = {}
    for count in (ranks // 8, ranks // 4, ranks // 2, ranks) if "processes" in ways else ():
        found["processes"] = shown("processes", count, measure(folder, count, "processes", None))
    if "dask" in ways:
        with cluster(scheduler) as (address, peak):
            found["dask"] = shown("dask", ranks, {**measure(folder, ranks, "dask", address), "below_mb": None}, peak)
    if "one process" in ways:
        found["one process"] = shown("one process", ranks, measure(folder, ranks, "one process", None))
    one = [json.dumps(figures["figures"]) for figures in found.values()]
    same = len(set(one)) == 1
    print("all give the same figures, to the last digit" if same else "THEY DIFFER")
    return 0 if same else 1


def shown(way: str, count: int, found: dict[str, Any], peak: Any = None) -> dict[str, Any]:
    below = found["below_mb"] if peak is None else peak()
    each = 1000 * found["s"] / count
    times = f"{found['s']:>9.1f}{found['cpu_s']:>9.1f}{each:>11.1f}"
    print(f"{way:<14}{count:>7}{times}{found['own_mb']:>11.0f}{below or 0:>12.0f}", flush=True)
    return found


class cluster:
    """Two workers of a process each, unless a scheduler is given; provides its address and the peak of a worker."""

    def __init__(self, address: str | None) -> None:
        self.address, self.local = address, None

    def __enter__(self) -> tuple[str, Any]:
        from distributed import Client, LocalCluster

        if self.address is None:
            self.local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            self.address = self.local.scheduler_address
        client = Client(self.address, set_as_default=False)
        return self.address, lambda: max(client.run(_peak_mb).values())

    def __exit__(self, *_: object) -> None:
        if self.local is not None:
            self.local.close()


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
