"""Time the DLProf reader beside `pandas.read_csv` on one long iteration report, in one run.

    python bench/dlprof.py [--rows 1000000] [--sample REPORT] [--runs 5] [--keep FOLDER]

Makes the report by repeating the launches of a short one: later launches start later, and their ops and kernels take
names of their own until there are 2,000 and 300. Each run is a process of its own, the two in turn. The seconds are
those of the reading alone, imports left out: our reader's whole `read`, from the file to a Profile. The best run
counts; memory is the largest peak of a process, and what its imports alone take is shown too.
pandas is measured as tcprobe's dependencies install it, without pyarrow, and with pyarrow as well where it is there:
that reads the strings of a table about three times as fast.
Exits 1 where our reader takes more than 1.5 times as long as pandas without pyarrow.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FIXTURE: Final = ROOT / "tests/fixtures/dlprof/pytorch_1.7/dlprof_iteration.csv"
MOST: Final = 1.5
OPS, KERNELS = 2_000, 300  # distinct names
BETWEEN_NS: Final = 1_000_000  # from the end of one repetition to the start of the next
TIMED: Final = """
import resource, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wall, cpu = time.perf_counter(), time.process_time()
{read}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(wall, cpu, imported, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
PANDAS: Final = TIMED.format(imports="{hidden}import pandas", read="frame = pandas.read_csv(path, skiprows=1)")
HIDDEN: Final = "sys.modules['pyarrow'] = None\n"
READERS: Final = {
    "pandas": PANDAS.replace("{hidden}", HIDDEN),
    **({"pandas, pyarrow": PANDAS.replace("{hidden}", "")} if find_spec("pyarrow") else {}),
    "tcprobe": TIMED.format(
        imports="import pandas, tcprobe.readers.dlprof.profile\nfrom tcprobe.readers.dlprof.reader import CSV",
        read="profile = CSV.read(CSV.finds(path))",
    ),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one reading cost: seconds of wall and CPU time, peak resident bytes of the imports and of all."""

    wall_s: float
    cpu_s: float
    imported_bytes: int
    peak_bytes: int


def repeat(sample: Path, rows: int, out: Path) -> None:
    """Write the iteration report `sample` again and again, later each time, until there are `rows` launches."""
    with sample.open(newline="") as file:
        title, header, *launches = list(csv.reader(file))
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([title, header])
        writer.writerows(_repeated(header, launches, rows))


def _repeated(header: list[str], launches: list[list[str]], rows: int) -> Iterator[list[str]]:
    places = [header.index(name) for name in ("GPU Start Time (ns)", "GPU Duration (ns)", "API Call Start (ns)")]
    start, duration, call = places
    iteration, op, name, kernel = (header.index(n) for n in ("Iteration", "Op ID", "Op Name", "Long Kernel Name"))
    ops, kernels = (len({launch[column] for launch in launches}) for column in (op, kernel))
    steps = max(int(launch[iteration]) for launch in launches) + 1
    span = max(int(launch[start]) + int(launch[duration]) for launch in launches) + BETWEEN_NS
    span -= min(int(launch[call]) for launch in launches)
    for number in range(rows):
        copy, which = divmod(number, len(launches))
        row = launches[which].copy()
        row[iteration] = str(int(row[iteration]) + copy * steps)
        row[start], row[call] = (str(int(row[column]) + copy * span) for column in (start, call))
        row[duration] = str(int(row[duration]) + number * 7919 % 4001)
        if model := copy % max(OPS // ops, 1):
            row[op], row[name] = f"{row[op]}_{model}", f"{row[name]}_{model}"
        if version := copy % max(KERNELS // kernels, 1):
            row[kernel] = f"{row[kernel]}_{version}"
        yield row


def measure(program: str, report: Path) -> Cost:
    """Read `report` once in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, str(report)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    wall, cpu, imported, peak = done.stdout.split()
    return Cost(float(wall), float(cpu), int(imported) * 1024, int(peak) * 1024)


def compare(report: Path, runs: int) -> float:
    """Measure the readers in turn, print the table, and return our time over that of pandas alone."""
    costs: dict[str, list[Cost]] = {name: [] for name in READERS}
    for _ in range(runs):
        for name, program in READERS.items():
            costs[name].append(measure(program, report))
    walls = {}
    print(f"{'':16} {'wall':>8} {'CPU':>8} {'peak':>8} {'imports':>8}")
    for name, found in costs.items():
        walls[name], cpu = min(c.wall_s for c in found), min(c.cpu_s for c in found)
        peak, imported = max(c.peak_bytes for c in found) / 1e6, max(c.imported_bytes for c in found) / 1e6
        print(f"{name:16} {walls[name]:6.2f} s {cpu:6.2f} s {peak:5.0f} MB {imported:5.0f} MB")
    ratios = {name: walls["tcprobe"] / wall for name, wall in walls.items() if name != "tcprobe"}
    for name, ratio in ratios.items():
        print(f"tcprobe takes {ratio:.2f} times as long as {name}")
    print(f"at most {MOST} times as long as pandas is wanted")
    return ratios["pandas"]


def main() -> int:
    """Make the report, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="launches in the report")
    parser.add_argument("--sample", type=Path, default=FIXTURE, help="iteration report to repeat")
    parser.add_argument("--runs", type=int, default=5, help="runs of each reader")
    parser.add_argument("--keep", type=Path, help="folder to write the report to, and leave it there")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as folder:
        report = Path(folder) / "dlprof_iteration.csv"
        repeat(options.sample, options.rows, report)
        print(f"{options.rows:,} launches, {report.stat().st_size / 1e6:.0f} MB")
        return int(compare(report, options.runs) > MOST)


if __name__ == "__main__":
    sys.exit(main())
