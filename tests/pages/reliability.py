"""The part of docs/reliability.md that is made from tests/faults/table.py, whose rows are tests."""

from __future__ import annotations

from tests.faults.table import FAULTS, Fault

COLUMNS = "| fault | what tcprobe does | what is kept | test |\n|---|---|---|---|\n"


def _row(fault: Fault) -> str:
    test = f"`{fault.name}`" + (f", where {fault.needs.words}" if fault.needs else "")
    return f"| {fault.what} | {fault.does} | {fault.kept.value} | {test} |\n"


def faults() -> str:
    """Return the table of faults."""
    return "\n".join(f"### {title}\n{COLUMNS}{''.join(map(_row, rows))}" for title, rows in FAULTS.items())
