"""Clocks, power and temperature of a GPU while it measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.gpu.summary.markdown import table
from bench.gpu.summary.section import About, Data
from bench.gpu.tables import read_table

IDLE: Final = "gpu_idle"
BENIGN: Final = frozenset({"none", IDLE})


def clocks(about: About) -> list[Data]:
    """Return lowest, median and highest figures of each unit that noted clocks, while its GPU was busy.

    A driver that does not tell why it throttles does not tell when the GPU is idle either: then all samples count, and
    the number of throttled ones is unknown.
    """
    return [found for path in sorted(about.folder.glob("*/*/clocks.csv.gz")) if (found := _clocks(path)) is not None]


def _clocks(path: Path) -> Data | None:
    rows = [row for row in read_table(path) if IDLE not in row["throttle"].split()]
    sm, power, heat = ([float(row[c]) for row in rows if row[c]] for c in ("sm_mhz", "power_w", "temperature_c"))
    if not sm:
        return None
    known = [row for row in rows if row["throttle"]]
    slowed = [found for row in rows if (found := set(row["throttle"].split()) - BENIGN)]
    return {
        "unit": f"{path.parent.parent.name}/{path.parent.name}",
        "samples": len(rows),
        "sm_mhz": [min(sm), statistics.median(sm), max(sm)],
        "power_w": max(power, default=None),
        "temperature_c": max(heat, default=None),
        "throttled": len(slowed) if known else None,
        "reasons": sorted(set().union(*slowed)),
    }


def shown(found: list[Data]) -> Iterator[str]:
    """Yield a line for each unit."""
    yield from table(
        (
            "clocks of",
            "#SM MHz, lowest",
            "#median",
            "#highest",
            "#most W",
            "#most °C",
            "#throttled samples",
            "#of",
            "why",
        ),
        [
            (
                c["unit"],
                *c["sm_mhz"],
                c["power_w"],
                c["temperature_c"],
                c["throttled"],
                c["samples"],
                ", ".join(c["reasons"]),
            )
            for c in found
        ],
    )
