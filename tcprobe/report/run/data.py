"""A run's report as one tree of raw values, for JSON; NA is None, times are ns, rows are those of the tables."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import Any, Final

from tcprobe import __version__
from tcprobe.report.run import advice
from tcprobe.report.run.spec import ReportSpec
from tcprobe.report.run.tables import written
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Profile

SCHEMA: Final = 1


def data(profile: Profile, spec: ReportSpec) -> dict[str, Any]:
    """Return the whole report; ``spec.by`` selects tables, ``spec.top`` limits their rows."""
    metadata = dataclasses.asdict(profile.metadata)
    notes = metadata.pop("notes")
    tables = [t for t in written(profile, spec.by) if t.spec.name != "summary"]
    return {
        "schema": SCHEMA,
        "tcprobe": __version__,
        "metadata": metadata,
        "summary": _rows(profile.require("summary"), None),
        "tables": {t.spec.name: _rows(t, spec.rows_for_programs) for t in tables},
        "advice": [advice.as_json(item, metadata["framework"]) for item in profile.advice],
        "absent": dict(sorted(profile.absent.items())),
        "notes": notes,
    }


def _rows(table: Table, top: int | None) -> list[Row]:
    return list(islice(table.rows(), top))
