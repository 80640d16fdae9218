"""What changing badly sized dimensions of a layer is predicted to save, from their rows of `bad_sizes`."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.model.step import added
from tcprobe.rules.run.base import RunSubject, SizeRow
from tcprobe.schema.advice import Saving, ShareOf, SizeChange
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import SizeAdvice

SMALLEST_PCT: Final = 1.0
MEASURED: Final = ("measured x predicted", "measured x calibrated")
CALIBRATED: Final = ("calibrated", "measured x calibrated")


def may_pay(rows: list[SizeRow]) -> bool:
    """Return whether changing these sizes likely saves, and may save 1 %; True where that is unknown."""
    saved = _together(rows)
    if saved is None:
        return True
    return saved.mid > 0 and _pct(rows) * saved.high / saved.mid >= SMALLEST_PCT


def saving_of_rows(subject: RunSubject, rows: list[SizeRow]) -> Saving | None:
    """Return what changing sizes of a layer saves, never more than a step has; None where it is unknown."""
    saved = _together(rows)
    if saved is None:
        return None
    calibrated = all(row["saving_basis"] in CALIBRATED for row in rows)
    return Saving(subject.within_step(saved), _pct(rows), share_of(rows), calibrated)


def share_of(rows: list[SizeRow]) -> ShareOf:
    """Return what the savings of these rows are shares of."""
    return "kernel_time" if any(row["saving_basis"] in MEASURED for row in rows) else "products"


def sized(rows: list[SizeRow]) -> tuple[tuple[SizeChange, ...], SizeAdvice | None]:
    """Return the changes, and what the first of these sizes costs."""
    changes = (SizeChange(str(r["dimension"]), int(r["size"] or 0), int(r["next_size"] or 0)) for r in rows)
    return tuple(changes), SizeAdvice.of(rows[0])


def _together(rows: list[SizeRow]) -> Range | None:
    """Return what the rows save together, in ns a step; None where one of them is unknown."""
    from tcprobe.schema.sizes import saving_of  # which loads numpy

    found = [saving_of(row) for row in rows]
    known = [saved for saved in found if saved is not None]
    if not known or len(known) < len(found):
        return None
    return added(known)


def _pct(rows: list[SizeRow]) -> float:
    return sum(float(row["saving_pct"] or 0) for row in rows)
