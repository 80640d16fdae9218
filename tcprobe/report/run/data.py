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
from tcprobe.schema.waits import Waiting

SCHEMA: Final = 1


def data(profile: Profile, spec: ReportSpec) -> dict[str, Any]:
    """Return the whole report; ``spec.by`` selects tables, ``spec.top`` limits their rows."""
    metadata = dataclasses.asdict(profile.metadata)
    notes = metadata.pop("notes")
    tables = [t for t in written(profile, spec.by) if t.spec.name not in ("summary", "advice")]
    return {
        "schema": SCHEMA,
        "tcprobe": __version__,
        "metadata": metadata,
        "summary": _rows(profile.require("summary"), None),
        "tables": {t.spec.name: _rows(t, spec.rows_for_programs) for t in tables},
        "advice": [advice.as_json(item) for item in profile.advice[: spec.rows_for_programs]],
        "waiting": None if profile.waiting is None else _waiting(profile.waiting),
        "tuning": None if profile.tuning is None else dataclasses.asdict(profile.tuning),
        "absent": dict(sorted(profile.absent.items())),
        "notes": notes,
    }


def _waiting(waiting: Waiting) -> dict[str, Any]:
    return {**dataclasses.asdict(waiting), "idle_pct": waiting.idle_pct}


def _rows(table: Table, top: int | None) -> list[Row]:
    return list(islice(table.rows(), top))
