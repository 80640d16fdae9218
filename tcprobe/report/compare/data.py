"""A comparison as one tree of raw values, for JSON; NA is None, times are ns, kinds are words of closed lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from tcprobe import __version__
from tcprobe.report.compare.spec import TABLE_OF, CompareSpec
from tcprobe.schema.changes.comparison import ComparedRow, Comparison
from tcprobe.schema.changes.condition import Verdict

SCHEMA: Final = 1


def data(comparison: Comparison, spec: CompareSpec, verdicts: Sequence[Verdict] = ()) -> dict[str, Any]:
    """Return a whole comparison; ``spec.by`` selects tables, ``spec.top`` limits their rows."""
    return {"schema": SCHEMA, "tcprobe": __version__, **parts(comparison, spec), "conditions": conditions(verdicts)}


def parts(comparison: Comparison, spec: CompareSpec) -> dict[str, Any]:
    """Return runs and tables; changes are of each run but the first."""
    top = spec.rows_for_programs
    tables = {
        "figures": [dataclasses.asdict(one) for one in comparison.figures],
        "layers": [_row(row) for row in comparison.layers[:top]],
        "ops": [_row(row) for row in comparison.ops[:top]],
        "kernels": [_row(row) for row in comparison.kernels[:top]],
        "renamed": [dataclasses.asdict(one) for one in comparison.renamed],
        "losses": [dataclasses.asdict(one) for one in comparison.losses[:top]],
    }
    wanted = [TABLE_OF[name] for name in spec.by]
    return {
        "runs": [
            {"name": name, "metadata": dataclasses.asdict(profile.metadata)}
            for name, profile in zip(comparison.names, comparison.profiles, strict=True)
        ],
        "per_step": comparison.per_step,
        **{name: found for name, found in tables.items() if not wanted or name in wanted},
        "settings": [{"setting": what, "values": list(values)} for what, values in comparison.settings],
        "notes": [dataclasses.asdict(note) for note in comparison.notes],
    }


def _row(row: ComparedRow) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in dataclasses.asdict(row).items()}


def conditions(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return what became of each condition: as typed, as read, and what it was held against."""
    return [_condition(verdict) for verdict in verdicts]


def _condition(verdict: Verdict) -> dict[str, Any]:
    found = dataclasses.asdict(verdict)
    return {**found.pop("condition"), **found}
