"""Write docs/tables.md from the contract in tcprobe/schema/tables.py: `python -m tests.pages.tables`."""

from __future__ import annotations

from pathlib import Path

from tcprobe.schema.columns import Column, TableSpec
from tcprobe.schema.tables import DERIVED, RECORDED

HEAD = """# The tables

Generated from `tcprobe/schema/tables.py` by `python -m tests.pages.tables`: every table that tcprobe writes or passes
on, what a row is, and every column. Times are ns, sizes bytes, shares percent from 0 to 100. A column that a source
cannot give is empty (NA), never 0.
"""


def _column(column: Column) -> str:
    values = f" ({', '.join(column.values)})" if column.values else ""
    return f"| `{column.name}` | {column.kind}{'' if column.nullable else ', never NA'} | {column.meaning}{values} |"


def _table(spec: TableSpec) -> str:
    rows = "\n".join(_column(c) for c in spec.columns)
    key = f" Rows are named by {', '.join(f'`{name}`' for name in spec.key)}." if spec.key else ""
    capture = " Its times and row numbers are those of one capture." if spec.capture else ""
    return (
        f"### {spec.name}\nA row is {spec.row}.{key}{capture}\n\n| column | kind | meaning |\n|---|---|---|\n{rows}\n"
    )


def page() -> str:
    """Return the whole page."""
    parts = [
        HEAD,
        "## What follows from a profile",
        *map(_table, DERIVED),
        "## What was recorded",
        *map(_table, RECORDED),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs/tables.md").write_text(page(), encoding="utf-8")
