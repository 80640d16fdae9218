"""Write anew what is made from the code in the pages of docs/: `python -m tests.pages`.

Each such part stands between two marks, which readers do not see: <!-- NAME --> and <!-- /NAME -->. The rest of a page
is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from tests.fuzz import figures
from tests.pages import probe_classes, reference, reliability, rules, tables
from tests.support import ROOT

PARTS: Final[dict[str, dict[str, Callable[[], str]]]] = {
    "commands.md": {"commands": reference.commands},
    "environment.md": {"variables": reference.variables},
    "errors.md": {"errors": reference.errors},
    "gpus.md": {"gpus": reference.gpus},
    "reliability.md": {"faults": reliability.faults, "fuzz": figures.section},
    "rules.md": {"rules": rules.rules},
    "tables.md": {"tables": tables.tables},
}
"""The pages with such parts, and what makes each."""


def page(name: str) -> str:
    """Return a page with every part made anew.

    Raises:
        ValueError: the marks around a part are missing.
    """
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for part, make in PARTS[name].items():
        begin, end = f"<!-- {part} -->\n", f"<!-- /{part} -->"
        found = re.search(f"(?s)(?<={begin}).*(?={end})", text)
        if found is None:
            raise ValueError(f"{name}: no {begin.strip()} ... {end}")
        text = text[: found.start()] + make() + text[found.end() :]
    return text


def write() -> None:
    """Write all pages, and what the probe has of the catalogue of Keras."""
    for name in PARTS:
        (ROOT / "docs" / name).write_text(page(name), encoding="utf-8")
    probe_classes.FILE.write_text(probe_classes.text(), encoding="utf-8")


if __name__ == "__main__":
    write()
