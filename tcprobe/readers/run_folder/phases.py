"""Read the phases of a run: which steps are of each, and how often they call each part of training."""

from __future__ import annotations

from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from tcprobe.jsonfile import Count, records
from tcprobe.schema.columns import Table
from tcprobe.schema.op import Part
from tcprobe.schema.tables import PHASES

MOST_PHASES: Final = 256  # the probe tells 64 stretches apart; each is a pass over the whole graph


class _Part(Struct):
    """A part of a step, by the number that the graph knows it by."""

    key: Count
    name: str = ""
    calls_per_step: Annotated[int, Meta(ge=0, lt=2**53)] | Annotated[float, Meta(ge=0, lt=2**53)] | None = None


class Callee(Struct):
    """A part of training, as probe.json lists them all."""

    key: Count
    name: str = ""
    eager: bool = False
    begins: bool = True


class _Phase(Struct):
    """A phase of probe.json."""

    first_step: Count
    last_step: Count
    parts: list[Any] = field(default_factory=list)
    basis: str | None = None


def read_phases(probe: dict[str, Any]) -> Table | None:
    """Return what probe.json says of `PHASES`; None where it says nothing that can be used.

    Phases that overlap, end before they start, or are more than a run has, are those of a damaged file: none of them
    is used.
    """
    given = probe.get("phases")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_PHASES:
        return None
    rows = [_phase(number, one) for number, one in enumerate(records(_Phase, given))]
    if len(rows) < len(given) or any(row["steps"] < 1 for row in rows):
        return None
    table = Table.from_rows(PHASES, rows)
    apart = table.numbers("first_step")[1:] > table.numbers("last_step")[:-1]
    return table if apart.all() else None


def _phase(number: int, phase: _Phase) -> dict[str, Any]:
    parts = (Part(p.key, p.name, p.calls_per_step) for p in records(_Part, phase.parts))
    return {
        "phase": number,
        "first_step": phase.first_step,
        "last_step": phase.last_step,
        "steps": phase.last_step - phase.first_step + 1,
        "parts": Part.text_of(parts),
        "basis": phase.basis,
    }


def part_calls(phases: Table) -> list[dict[int, float | None]]:
    """Return the calls of each part in a step of each phase, by its key; empty where its parts are not known."""
    return [{part.key: part.calls_per_step for part in Part.all_of(text)} for text in phases.values("parts")]


def phase_of(phases: Table, window: Any) -> int:
    """Return the row of the phase that the window of probe.json lies in, the last where there is no window."""
    step = window.get("first_step") if isinstance(window, dict) else None
    if not isinstance(step, int):
        return len(phases) - 1
    return max(0, int(np.searchsorted(phases.numbers("first_step"), step, side="right")) - 1)


def with_recorded(phases: Table, probe: dict[str, Any], graph: dict[str, Any]) -> Table:
    """Return phases that say which parts of their steps graph.json does not hold: parts of eager steps, if any."""
    left_out, functions = graph.get("unrecorded"), graph.get("functions")
    left_out = left_out if isinstance(left_out, list) else []
    if isinstance(functions, list):
        held = [one.get("key") for one in functions if isinstance(one, dict)]
        eager = [one.key for one in records(Callee, probe.get("parts")) if one.eager and one.begins]
        left_out = [*left_out, *(key for key in eager if key not in held)]
    parts = [Part.all_of(text) for text in phases.values("parts")]
    texts = [Part.text_of(replace(part, recorded=part.key not in left_out) for part in each) for each in parts]
    return phases.with_columns(parts=texts)
