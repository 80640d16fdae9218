"""Tables of results: CSV in gzip, the same bytes for the same rows."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tcprobe.cost.measured import MEASUREMENT_COLUMNS

Columns = tuple[str, ...]
CASES: Final[Columns] = ("case", "op", "pass", "dtype", "shape", "aligned", "status")
LAUNCHES: Final[Columns] = ("case", "launch", "kernel", "mangled", "grid", "block", "device", "duration_ns")
"""Of kernels with counters, which stand in columns of their own behind these."""
TALLIES: Final[Columns] = ("kernel", "calls", "sum_ns", "min_ns", "max_ns")
SCORES: Final[Columns] = ("kind", "products", "error_pct", "shipped_pct")
PAIRS: Final[Columns] = (
    "pair", "op", "pass", "dtype", "shape_from", "shape_to", "from_ns", "to_ns", "ratio", "spread_pct", "rounds",
    "status", "library",
)  # fmt: skip
CLOCKS: Final[Columns] = ("second", "sm_mhz", "memory_mhz", "power_w", "temperature_c", "throttle")
LOGGED: Final[Columns] = ("step", "at_ms", "step_ns")
RANGES: Final[Columns] = ("range", "count", "first_ns", "sum_ns", "min_ns", "max_ns", "open", "threads")
KINDS: Final[Mapping[str, tuple[Columns, ...]]] = {
    "cases.csv.gz": (CASES,),
    "kernels.csv.gz": (LAUNCHES, TALLIES),
    "scores.csv.gz": (SCORES,),
    "pairs.csv.gz": (PAIRS,),
    "clocks.csv.gz": (CLOCKS,),
    "logged.csv.gz": (LOGGED,),
    "ranges.csv.gz": (RANGES,),
    "raw.csv.gz": (MEASUREMENT_COLUMNS,),
}
"""Tables of results by their files' names, with the columns of each kind; README.md says what they mean."""

FAKE: Final = "fake"
"""A column of tables that a rehearsal made up."""
_NO_READING: Final = frozenset((*LAUNCHES, FAKE))


def missing(name: str, columns: Iterable[str]) -> set[str] | None:
    """Return the columns that a table lacks, of the kind that it lacks the fewest of; None of no table of ours."""
    held = set(columns)
    return min((set(kind) - held for kind in KINDS[name]), key=len) if name in KINDS else None


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows to `path` (``NAME.csv.gz``); None and missing values are empty cells, and times are not rounded."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: value for name, value in row.items() if value is not None} for row in rows)
    path.write_bytes(gzip.compress(text.getvalue().encode("utf-8"), mtime=0))


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of what `write_table` wrote; an empty cell is an empty string."""
    return list(csv.DictReader(io.StringIO(gzip.decompress(path.read_bytes()).decode("utf-8"), newline="")))


def readings(row: Mapping[str, str]) -> dict[str, tuple[float, str]]:
    """Return value and unit of each counter in a row of kernels with counters; empty cells are left out.

    Raises:
        ValueError: a value is no number.
    """
    return {
        metric: (float(value), "%" if "pct" in metric else "")
        for metric, value in row.items()
        if metric not in _NO_READING and value
    }
