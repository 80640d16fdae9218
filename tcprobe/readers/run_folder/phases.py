"""Read the phases of a run from what the probe wrote: stretches of steps that call the same parts of training."""

from __future__ import annotations

from typing import Any, Final

from tcprobe.schema.columns import Row, Table
from tcprobe.schema.op import Part
from tcprobe.schema.tables import PHASES

MOST_PHASES: Final = 256  # the probe tells 64 stretches apart; each is a pass over the whole graph


def read_phases(probe: dict[str, Any], graph: dict[str, Any] | None = None) -> Table | None:
    """Return what probe.json says of `PHASES`; None where it says nothing that can be used.

    Of graph.json it takes which parts were not recorded.

    Phases that overlap, end before they start, or are more than a run has, are those of a damaged file: none of them
    is used.
    """
    given = probe.get("phases")
    if not isinstance(given, list) or not 0 < len(given) <= MOST_PHASES:
        return None
    unrecorded = _list((graph or {}).get("unrecorded"))
    found = [_row(number, one, unrecorded) for number, one in enumerate(given)]
    rows = [row for row in found if row is not None]
    if len(rows) < len(found):
        return None
    table = Table.from_rows(PHASES, rows)
    apart = table.numbers("first_step")[1:] > table.numbers("last_step")[:-1]
    return table if apart.all() else None


def _row(number: int, phase: Any, unrecorded: list[Any]) -> Row | None:
    if not isinstance(phase, dict):
        return None
    first, last, basis = _whole(phase.get("first_step")), _whole(phase.get("last_step")), phase.get("basis")
    if first is None or last is None or last < first:
        return None
    return {
        "phase": number,
        "first_step": first,
        "last_step": last,
        "steps": last - first + 1,
        "parts": Part.text_of(part for one in _list(phase.get("parts")) if (part := _part(one, unrecorded))),
        "basis": basis if isinstance(basis, str) else None,
    }


def _part(given: Any, unrecorded: list[Any]) -> Part | None:
    """Return one part of a step; None without the number that the graph knows it by."""
    if not isinstance(given, dict) or (key := _whole(given.get("key"))) is None:
        return None
    name, calls = given.get("name"), given.get("calls_per_step")
    known = isinstance(calls, int | float) and not isinstance(calls, bool) and 0 <= calls < 2**53
    return Part(key, name if isinstance(name, str) else "", calls if known else None, key not in unrecorded)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
