"""The report as one JSON document; NA is null, times are ns, the rows are those of the tables."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, TextIO

from tcprobe import __version__
from tcprobe.report.base import ReportSpec
from tcprobe.report.run import advice
from tcprobe.report.tables_csv import written
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile

SCHEMA = 1


def render(profile: Profile, spec: ReportSpec, out: TextIO) -> None:
    """Write the document; ``spec.by`` chooses the tables, ``spec.top`` limits their rows."""
    json.dump(document(profile, spec), out, indent=1, allow_nan=False)
    out.write("\n")


def document(profile: Profile, spec: ReportSpec) -> dict[str, Any]:
    """Return the document as Python values that JSON can hold."""
    metadata = dataclasses.asdict(profile.metadata)
    notes = metadata.pop("notes")
    tables = [t for t in written(profile, spec.by) if t.spec.name != "summary"]
    return {
        "schema": SCHEMA,
        "tcprobe": __version__,
        "metadata": _finite(metadata),
        "summary": _rows(profile.require("summary"), None),
        "tables": {t.spec.name: _rows(t, spec.top) for t in tables},
        "advice": [_finite(advice.as_json(item, metadata["framework"])) for item in profile.advice],
        "absent": dict(sorted(profile.absent.items())),
        "notes": notes,
    }


def _rows(table: Table, top: int | None) -> list[dict[str, Any]]:
    return [_finite(row) for _, row in zip(range(len(table) if top is None else top), table.rows(), strict=False)]


def _finite(value: Any) -> Any:
    """Replace what JSON cannot hold (NaN, infinity) by null, in nested values too."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
