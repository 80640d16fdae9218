"""The whole summary: its sections as data, and as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.gpu.summary import costs, kernels, profiles, recorded, runs
from bench.gpu.summary.section import FAKE, Data, Section, about

SECTIONS: Final[tuple[Section, ...]] = (recorded, kernels, costs, profiles, runs)
PAGE: Final = "summary.md"
DATA: Final = "summary.json"
FAILED: Final = "failed"
"""Key of a section that could not be made, beside which nothing else is known of it."""


def key(section: Section) -> str:
    """Return the name of a section in summary.json."""
    return section.TITLE.split()[0].lower().rstrip(":")


def summarise(folder: Path) -> Data:
    """Return what a folder of results says, from its tables alone; a section that fails says why and costs no other."""
    where = about(folder)
    found: Data = {"gpu": where.gpu, "date": where.provenance.get("date"), "dry_run": where.dry}
    for section in SECTIONS:
        try:
            found[key(section)] = section.make(where)
        except Exception as error:  # noqa: BLE001 half of a folder may be there, and any of its files be damaged
            found[key(section)] = {FAILED: f"{type(error).__name__}: {error}"}
    return dict(json.loads(json.dumps(found)))


def page(data: Data) -> str:
    """Return the page of what `summarise` returns."""
    text = re.sub(r"(?m)^(#.*)$", r"\n\1\n", "\n".join(_lines(data)))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _lines(data: Data) -> Iterator[str]:
    dry = data["dry_run"]
    yield f"# {'Rehearsal on a CPU' if dry else data['gpu'] or 'An unknown GPU'}, {data['date'] or 'without a date'}"
    yield ""
    if dry:
        yield f"**{FAKE}: a rehearsal. Its counters are made up, its times are a CPU's: it measures nothing.**"
        yield ""
    yield "Made by `python -m bench.gpu.summary DIR` from the tables in DIR; summary.json holds the same as data."
    for section in SECTIONS:
        yield f"## {section.TITLE}{f' ({FAKE})' if dry else ''}"
        found = data[key(section)]
        if FAILED in found:
            yield f"This cannot be said: {found[FAILED]}"
        else:
            yield from section.show(found, dry)
