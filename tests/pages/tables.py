"""The part of docs/tables.md that is made from the contract in tcprobe/schema/tables.py."""

from __future__ import annotations

from tcprobe.schema.columns import Column, TableSpec
from tcprobe.schema.tables import DERIVED, RECORDED


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


def tables() -> str:
    """Return a section for each table."""
    parts = [
        "## What follows from a profile",
        *map(_table, DERIVED),
        "## What was recorded",
        *map(_table, RECORDED),
    ]
    return "\n".join(parts)
