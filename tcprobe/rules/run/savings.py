"""What a change is predicted to save: by its what-if, else, of a size, by its row of `bad_sizes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcprobe.rules.model.step import added
from tcprobe.rules.run.base import OffOp, RunSubject, SizeRow, text
from tcprobe.schema.advice import Saving, ShareOf, SizeChange
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind, SizeAdvice

SMALLEST_PCT: Final = 1.0
MEASURED: Final = ("measured x predicted", "measured x calibrated")
CALIBRATED: Final = ("calibrated", "measured x calibrated")
STEP: Final[ShareOf] = "step"
KERNELS: Final[ShareOf] = "kernel_time"


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


def predicted(subject: RunSubject, changes: Sequence[WhatIf]) -> Saving | None:
    """Return what these changes of one layer, or one change of the run, save together; None without any.

    Several changes of a layer concern the same products: together they save no less than the one that saves most, and
    no more than all of them, nor than those products take.
    """
    if not changes:
        return None
    most = max(change.spent_ns for change in changes)
    mid = min(most, sum(change.gain_ns.mid for change in changes))
    high = min(most, sum(change.gain_ns.high for change in changes))
    saved = subject.within_step(Range(min(mid, max(change.gain_ns.low for change in changes)), mid, high))
    step = subject.step_ns or next((change.step_ns for change in changes if change.step_ns), None)
    each = subject.kernel_ns / subject.steps if subject.steps else 0.0
    whole, of = (step, STEP) if step else (each, KERNELS)
    calibrated = all(change.basis in CALIBRATED for change in changes)
    pct = 100.0 * saved.mid / whole if whole else 0.0
    return Saving(saved, min(100.0, pct), of, calibrated, any(change.may_cost for change in changes))


def of_run(subject: RunSubject, kind: ChangeKind, ops: Sequence[OffOp]) -> Saving | None:
    """Return what a change of the whole run saves; None where none is predicted that concerns one of these ops."""
    names = {(str(op.row["op"]), text(op.row["op_type"])) for op in ops}
    for change in subject.what_ifs:
        if change.change == kind and change.layer is None and (not change.op_names or change.op_names & names):
            return predicted(subject, (change,))
    return None


def of_layer(subject: RunSubject, kind: ChangeKind, rows: Sequence[SizeRow]) -> Saving | None:
    """Return what changing these sizes of a layer saves; None where that is not predicted of each."""
    wanted = {(text(row["layer"]), text(row["dimension"]), row["size"]) for row in rows}
    found = [
        change
        for change in subject.what_ifs
        if change.change == kind and (change.layer, change.dimension, change.size) in wanted
    ]
    return predicted(subject, found) if len(found) == len(wanted) else None


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
