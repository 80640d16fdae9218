"""Measure tcprobe on large XSpace files against XProf, in one run.

    python bench/xplane.py --sample SAMPLE.xplane.pb [--xprof-python PYTHON] [--copies 1000 3000]

Builds large files by replicating a sample in time, once as it is stored and once as TensorFlow 2.21 writes it
(no group_id, no derived lines), in a temporary folder that is removed afterwards. Every command runs as a process
of its own, five times by default: wall time and user time are the best of them, memory is the largest peak RSS.
XProf does kernel_stats + framework_op_stats + overview_page, uncached, in one process.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.cost import best

DERIVED_IDS = range(-559038737, -559038729)
XPROF = """
import sys
from xprof.convert import raw_to_tool_data as convert
for tool in ("kernel_stats", "framework_op_stats", "overview_page"):
    data, _ = convert.xspace_to_tool_data([sys.argv[1]], tool, {"use_saved_result": False})
    assert data
"""


def replicate(sample: Path, copies: int, raw: bool, out: Path) -> int:
    """Write `sample` repeated `copies` times in time; return its number of events.

    `raw` leaves out what TensorFlow 2.21 does not store: derived lines, and group_id.
    """
    from tests.fixtures.xplane.schema import XSpace

    space = XSpace.FromString(sample.read_bytes())
    span = max(e.offset_ps + e.duration_ps for p in space.planes for x in p.lines for e in x.events) + 10**9
    made = XSpace(hostnames=["bench"])
    events = 0
    for plane in space.planes:
        grown = made.planes.add()
        grown.CopyFrom(plane)
        del grown.lines[:]
        ids = {m.name: i for i, m in plane.stat_metadata.items()}
        for line in plane.lines:
            if not (raw and line.id in DERIVED_IDS):
                shift = Shift(span, ids.get("correlation_id"), ids.get("group_id"), raw)
                events += shift.grow(grown.lines.add(), line, copies)
    out.write_bytes(made.SerializeToString())
    return events


@dataclass(frozen=True, slots=True)
class Shift:
    """How a copy of an event differs from its original."""

    span_ps: int
    correlation: int | None
    group: int | None
    raw: bool

    def grow(self, grown: Any, line: Any, copies: int) -> int:
        """Fill the line `grown` with `copies` copies of `line`; return the number of events."""
        grown.id, grown.name, grown.timestamp_ns = line.id, line.name, line.timestamp_ns
        for copy in range(copies):
            for event in line.events:
                self.change(grown.events.add(), event, copy)
        return copies * len(line.events)

    def change(self, made: Any, event: Any, copy: int) -> None:
        """Make the `copy`-th copy of `event`."""
        made.CopyFrom(event)
        made.offset_ps = event.offset_ps + copy * self.span_ps
        for index in reversed(range(len(made.stats))):
            stat = made.stats[index]
            if stat.metadata_id == self.group:
                if self.raw:
                    del made.stats[index]
                else:
                    stat.int64_value += copy
            elif stat.metadata_id == self.correlation:
                field = stat.WhichOneof("value")
                setattr(stat, field, getattr(stat, field) + copy * 100_000)


def build(sample: Path, copies: int, raw: bool, out: Path) -> int:
    """Run `replicate` in a process of its own: a child's peak memory starts at its parent's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(replicate, sample, copies, raw, out).result()


def commands(file: Path, options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yield what to measure on `file`: a label and a command."""
    out = str(file.with_suffix(".tables"))
    report = [sys.executable, "-m", "tcprobe", "report", str(file), "--format", "csv", "-o", out, "--force"]
    yield "tcprobe report --format csv", report
    if options.xprof_python:
        copy = file.parent / "xprof" / file.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copy)
        yield "XProf, three tools", [options.xprof_python, "-c", XPROF, str(copy)]


def report(file: Path, events: int, options: argparse.Namespace) -> None:
    """Measure every command on `file` and print the figures and their ratio."""
    print(f"\n{file.name}: {file.stat().st_size / 1e6:.0f} MB, {events:,} events")
    costs = []
    for label, command in commands(file, options):
        cost = best(command, options.runs)
        costs.append(cost)
        print(f"  {label:30} {cost}")
    if len(costs) == 2:
        ours, theirs = costs
        print(f"  ratio: time 1/{theirs.wall_s / ours.wall_s:.1f}, memory 1/{theirs.peak_bytes / ours.peak_bytes:.1f}")


def main() -> None:
    """Build the files, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=Path, required=True, help="XSpace file to replicate")
    parser.add_argument("--xprof-python", help="interpreter of an environment with xprof")
    parser.add_argument("--copies", type=int, nargs="+", default=[1000, 3000], help="sizes to build")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tcprobe-bench-") as folder:
        for copies in options.copies:
            for raw in (False, True):
                file = Path(folder) / f"{copies}-{'as-written' if raw else 'as-stored'}.xplane.pb"
                report(file, build(options.sample, copies, raw, file), options)
                shutil.rmtree(file.parent / "xprof", ignore_errors=True)
                file.unlink()


if __name__ == "__main__":
    main()
