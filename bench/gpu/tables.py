"""Tables of results: CSV in gzip, the same bytes for the same rows."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


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
