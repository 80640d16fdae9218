"""Make launches and the ranges around them by hand."""

from __future__ import annotations

from typing import Any

from tcprobe.analysis.context import Options
from tcprobe.analysis.ranges.ops import with_ranges
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import LAUNCHES, RANGES
from tests.analysis.builders import TC, devices, table


def ranges(*rows: tuple[Any, ...]) -> Table:
    """Rows of (kind, name, start_ns, end_ns[, thread[, others]])."""
    made = [
        {
            "kind": kind, "name": name, "start_ns": start, "duration_ns": end - start,
            "thread": rest[0] if rest else 1, **(rest[1] if len(rest) > 1 else {}),
        }
        for kind, name, start, end, *rest in rows
    ]  # fmt: skip
    return table(RANGES, made)


def called(*times: float | None, thread: int | None = 1, kernel: str = TC) -> Table:
    """Launches called at these times; each runs 10 ns, 1000 ns later."""
    made = [
        {
            "device": 0, "stream": 7, "kernel": kernel, "op_id": -1, "config_id": -1, "duration_ns": 10,
            "start_ns": 1000 + int(at or 0), "launch_ns": at, "thread": thread,
        }
        for at in times
    ]  # fmt: skip
    return table(LAUNCHES, made)


def profile(*tables: Table) -> Profile:
    return Profile(Metadata("nsys", gpu_used=True)).with_tables(devices({}), *tables)


def told(given: Profile, step_range: str | None = None) -> Profile:
    """Return a profile with what its ranges tell."""
    return with_ranges(given, Options(step_range=step_range))[0]
