"""Write the measured parts of docs/reliability.md: `python -m tests.pages.reliability`.

The table of faults is made from tests/faults/table.py, whose rows are tests, that of fuzzing from what was tried
(tests/fuzz/figures.json). The rest of the page is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.table import FAULTS, Fault
from tests.fuzz.figures import section

PAGE = Path(__file__).parents[2] / "docs/reliability.md"
COLUMNS = "| fault | what tcprobe does | what is kept | test |\n|---|---|---|---|\n"


def _row(fault: Fault) -> str:
    test = f"`{fault.name}`" + (f", where {fault.needs.words}" if fault.needs else "")
    return f"| {fault.what} | {fault.does} | {fault.kept.value} | {test} |\n"


def faults() -> str:
    """Return the table of faults."""
    return "\n".join(f"### {title}\n{COLUMNS}{''.join(map(_row, rows))}" for title, rows in FAULTS.items())


PARTS = {"faults": faults, "fuzz": section}
"""What is made, by the name of the marks around it."""


def page(text: str) -> str:
    """Return the page with every part made anew.

    Raises:
        ValueError: the marks around a part are missing.
    """
    for name, make in PARTS.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        found = re.search(f"(?s)(?<={begin}).*(?={end})", text)
        if found is None:
            raise ValueError(f"{PAGE.name}: no {begin.strip()} ... {end}")
        text = text[: found.start()] + make() + text[found.end() :]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
