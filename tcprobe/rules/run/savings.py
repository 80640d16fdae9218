"""What a change is predicted to save: by its what-if, else, of a size, by its row of `bad_sizes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, grouped
from tcprobe.rules.model.step import added
from tcprobe.rules.run.base import OffOp, Run, summed
from tcprobe.schema.advice import Saving, ShareOf, SizeChange
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind, SizeAdvice
from tcprobe.schema.records import text_of
from tcprobe.schema.whatif import WhatIf

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

SMALLEST_PCT: Final = 1.0
MEASURED: Final = ("measured x predicted", "measured x calibrated")
CALIBRATED: Final = ("calibrated", "measured x calibrated")
FOLLOW: Final = ("change_before", "float32")
"""Advice for sizes that follow from what feeds the layer."""
STEP: Final[ShareOf] = "step"
KERNELS: Final[ShareOf] = "kernel_time"


def followers(rows: Sequence[Row]) -> dict[tuple[object, ...], list[Row]]:
    """Return, by `size_key` of what a layer puts out, the rows that surely follow it, as no other puts out the same.

    A run does not tell what feeds what.
    """
    found: dict[tuple[object, ...], list[Row]] = {}
    for like in grouped(((row["size"], row["next_size"]), row) for row in rows).values():
        outputs = grouped((row["layer"], row) for row in like if row["dimension"] in OUTPUTS)
        if len(outputs) > 2:  # no layer stands alone, whoever takes it
            continue
        for taker in like:
            others = [layer for layer in outputs if layer != taker["layer"]]
            if len(others) == 1 and taker["dimension"] in INPUTS and taker["advice_kind"] in FOLLOW:
                for row in outputs[others[0]]:
                    found.setdefault(size_key(row), []).append(taker)
    return found


def size_key(row: Row) -> tuple[object, ...]:
    """Return which size a row of `bad_sizes` is about."""
    return row["layer"], row["dimension"], row["size"], row["next_size"]


def may_pay(rows: Sequence[Row]) -> bool:
    """Return whether changing these sizes likely saves, and may save 1 %; True where that is unknown."""
    saved = _together(rows)
    if saved is None:
        return True
    return saved.mid > 0 and _pct(rows) * saved.high / saved.mid >= SMALLEST_PCT


def predicted(run: Run, changes: Sequence[WhatIf]) -> Saving | None:
    """Return what these changes of sizes, or one change of the run, save together; None without any.

    Several changes of a layer concern the same products: together they save no less than the one that saves most, and
    no more than all of them, nor than those products take.
    """
    if not changes:
        return None
    layers = {change.layer: 0.0 for change in changes}
    for change in changes:
        layers[change.layer] = max(layers[change.layer], change.spent_ns)
    most = sum(layers.values())
    mid = min(most, sum(change.gain_ns.mid for change in changes))
    high = min(most, sum(change.gain_ns.high for change in changes))
    saved = run.within_step(Range(min(mid, max(change.gain_ns.low for change in changes)), mid, high))
    step = run.step_ns or next((change.step_ns for change in changes if change.step_ns), None)
    each = run.kernel_ns / run.steps if run.steps else 0.0
    whole, of = (step, STEP) if step else (each, KERNELS)
    calibrated = all(change.basis in CALIBRATED for change in changes)
    pct = 100.0 * saved.mid / whole if whole else 0.0
    return Saving(saved, min(100.0, pct), of, calibrated, any(change.may_cost for change in changes))


def of_run(run: Run, kind: ChangeKind, ops: Sequence[OffOp]) -> Saving | None:
    """Return what a change of the whole run saves; None where none is predicted that concerns one of these ops."""
    names = {(str(op.row["op"]), text_of(op.row["op_type"])) for op in ops}
    for change in run.what_ifs:
        if change.change == kind and change.layer is None and (not change.op_names or change.op_names & names):
            return predicted(run, (change,))
    return None


def of_sizes(run: Run, kind: ChangeKind, rows: Sequence[Row], follow: Sequence[Row] = ()) -> Saving | None:
    """Return what changing sizes saves, never more than a step has; None where it is unknown.

    Args:
        run: by its what-ifs, which hold what follows from a size, else by the rows.
        kind: how they change.
        rows: of `bad_sizes`.
        follow: those that change with them.
    """
    wanted = {(text_of(row["layer"]), text_of(row["dimension"]), row["size"]) for row in rows}
    made = [change for change in run.what_ifs if change.change == kind]
    made = [change for change in made if (change.layer, change.dimension, change.size) in wanted]
    if len(made) == len(wanted):
        return predicted(run, made)
    rows = [*rows, *follow]
    if (saved := _together(rows)) is None:
        return None
    calibrated = all(row["saving_basis"] in CALIBRATED for row in rows)
    return Saving(run.within_step(saved), _pct(rows), share_of(rows), calibrated)


def share_of(rows: Sequence[Row]) -> ShareOf:
    """Return what the savings of these rows are shares of."""
    return "kernel_time" if any(row["saving_basis"] in MEASURED for row in rows) else "products"


def sized(rows: Sequence[Row]) -> tuple[tuple[SizeChange, ...], SizeAdvice | None]:
    """Return the changes, and what the first of these sizes costs."""
    changes = (SizeChange(str(r["dimension"]), int(r["size"] or 0), int(r["next_size"] or 0)) for r in rows)
    return tuple(changes), SizeAdvice.of(rows[0])


def _together(rows: Sequence[Row]) -> Range | None:
    """Return what the rows save together, in ns a step; None where one of them is unknown."""
    from tcprobe.schema.whatif import saving_of  # which loads numpy

    found = [saving_of(row) for row in rows]
    known = [saved for saved in found if saved is not None]
    if not known or len(known) < len(found):
        return None
    return added(known)


def _pct(rows: Sequence[Row]) -> float:
    return summed(rows, "saving_pct")
