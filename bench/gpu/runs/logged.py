"""Step times as the workload logs them itself: the same measure with tcprobe and without."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.gpu.tables import LOGGED, write_table

IMAGES: Final = 2
"""For each one in the batch, as the workload's throughput counts them."""
LINE: Final = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - INFO - \(\d+, \d+\), .*throughput: (?P<rate>[\d.]+) img/s",
    re.MULTILINE,
)


def logged(text: str, batch: int) -> list[dict[str, float]]:
    """Return a row per step: number, ms since the first ended, length in ns (by its throughput, of more digits)."""
    found = list(LINE.finditer(text))
    at = [datetime.strptime(match["at"], "%Y-%m-%d %H:%M:%S,%f") for match in found]
    return [
        {
            "step": step,
            "at_ms": round((at[step] - at[0]).total_seconds() * 1000),
            "step_ns": round(IMAGES * batch / float(match["rate"]) * 1e9),
        }
        for step, match in enumerate(found)
    ]


def keep_logged(place: Path, printed: Path, batch: int) -> int:
    """Write `logged.csv.gz` of what the workload printed; return the number of steps."""
    rows = logged(printed.read_text(encoding="utf-8", errors="replace"), batch)
    write_table(place / "logged.csv.gz", LOGGED, rows)
    return len(rows)
