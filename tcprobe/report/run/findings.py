"""Tables of what to improve: blockers by cost, the costliest ops off the Tensor Cores, badly sized layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe import formatting as f
from tcprobe.report.document import Cell, Section
from tcprobe.report.fields import (
    Field,
    cell_of,
    field_of,
    more,
    name_of,
    number_of,
    section,
    share_of,
    source_of,
    time_of,
)
from tcprobe.report.run import words
from tcprobe.report.run.causes import cause_of_op
from tcprobe.report.sentences import constants_of, gpu_of
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import LEAVE, Blocker, ChangeKind, SizeAdvice
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.provenance import Provenance, merged
from tcprobe.schema.whatif import WhatIf, bounded_rows, is_bounded, saving_of, worst_first

_SAVING_BASES: Final = {
    "measured x predicted": "a predicted share of their measured time",
    "measured x calibrated": "a share of their measured time, predicted with this GPU's calibration",
    "predicted": "predicted",
    "calibrated": "predicted with this GPU's calibration",
}


class Group(Struct, frozen=True):
    """Ops off the Tensor Cores, and what they cost."""

    blocker: Blocker | None  # what keeps them off
    spent: float  # their kernel time, or FLOPs if no time was measured
    ops: int
    worst: Row  # row of the costliest one


def blockers(profile: Profile, cost: OffTensorCores, top: int | None) -> Section | None:
    """Return the table of blockers, costliest first: cost, number of ops, costliest op."""
    members: dict[Blocker, list[int]] = {}
    rows = list(cost.table.rows())
    for i, row in enumerate(rows):
        if (why := Blocker.of(row)) is not None:
            members.setdefault(why, []).append(i)
    groups = [Group(why, float(cost.weight[at].sum()), len(at), rows[at[0]]) for why, at in members.items()]
    groups.sort(key=lambda group: -group.spent)
    fields = (
        cell_of("reason", lambda group: words.blocker(group.blocker), wraps=True),
        *_cost(profile, cost),
        number_of("ops", lambda group: group.ops),
        cell_of("costliest", lambda group: words.where_of(group.worst), least=28),
        source_of(1, lambda group: group.worst["source"]),
    )
    title = f"Why not more{_over(profile)}" if cost.measured else "What would keep ops off the Tensor Cores"
    return section(title, fields, groups, top=top)


def costliest(profile: Profile, cost: OffTensorCores, top: int | None) -> Section | None:
    """Return the table of the costliest ops off the Tensor Cores, with what to change."""
    many = len(cost.table)
    rows = list(cost.table.take(np.arange(min(many, top or many))).rows())
    ops = [Group(None, weight, 1, row) for row, weight in zip(rows, cost.weight.tolist(), strict=False)]
    fields = (
        cell_of("layer or op", lambda op: words.where_of(op.worst), least=36),
        field_of("type", lambda op: op.worst["op_type"], 2),
        *_cost(profile, cost),
        cell_of("reason", lambda op: _reason(op.worst), wraps=True),
        source_of(1, lambda op: op.worst["source"]),
    )
    title = f"Costliest ops off the Tensor Cores{_over(profile)}" if cost.measured else "Largest of these ops"
    return section(title, fields, ops, more(many - len(ops)))


def _cost(profile: Profile, cost: OffTensorCores) -> tuple[Field, Field]:
    """Return the fields of cost and its share; the share is of a total that is known."""

    def spent(group: Group) -> Cell:
        if cost.measured:
            return Cell(f.duration(group.spent), group.spent, "ns")
        if not group.spent:  # a size or how often it runs is not known
            return Cell("unknown", None)
        bounded = cost.bounded and (group.blocker is not None or is_bounded(group.worst))
        return Cell(f.at_least(f.flops(group.spent), bounded), group.spent, "flops")

    def share(group: Group) -> float | None:
        return 100 * group.spent / cost.total if cost.total and not cost.bounded else None

    heading = "kernel time" if cost.measured else words.of_a_step(profile)
    return cell_of(heading, spent, right=True), share_of("share", share)


def _reason(row: Row) -> str:
    return cause_of_op(row) if row.get("cause") == "channels" else f.any_text(words.blocker_of(row))


def _over(profile: Profile) -> str:
    over = words.summed(profile)
    return f" ({over})" if over else ""


def bad_size_table(profile: Profile, top: int | None) -> Section | None:
    """Return the table of badly sized dimensions, costliest first; None if there is none.

    Advice that many sizes share is worded once, below the table.
    """
    table = profile.require("bad_sizes")
    rows = list(worst_first(table).rows())[:top]
    if not rows:
        return None
    marks: dict[SizeAdvice | None, str] = {}
    notes: list[str] = []
    for row in rows:
        advice = SizeAdvice.of(row)
        if advice is not None and advice not in marks:
            marks[advice] = f"[{len(marks) + 1}]"
            notes.append(f"{marks[advice]}: {words.advice_of(row) or ''}")
    saves_when = "saves a step" if words.step_known(profile) else "saves an execution"
    fields = (
        name_of("layer", "layer"),
        field_of("dimension", "dimension"),
        cell_of("size", lambda row: Cell(_size(row), row["size"]), right=True),
        number_of("kernel time", "kernel_ns", 1 if any(row["saving_ns"] is not None for row in rows) else 0),
        number_of("share", "share_pct", 2),
        cell_of(saves_when, lambda row: Cell(saves(row), row["saving_ns"], "ns"), right=True),
        cell_of("of GEMM FLOPs", _of_flops, 3, right=True),
        field_of("passes", "passes", 4),
        field_of("dtype", "dtype", 5),
        cell_of("advice", lambda row: marks.get(SizeAdvice.of(row), f.NA)),
        source_of(),
    )
    over = words.summed(profile) if any(row["kernel_ns"] is not None for row in rows) else ""
    title = f"Badly sized ({len(table):,}{'; ' * bool(over)}{over})"
    return section(
        title, fields, rows, (*more(len(table) - len(rows)), *_rests_on(rows, saves_when), *notes), drop_idle=True
    )


def _size(row: Row) -> str:
    return str(row["size"]) if row["advice_kind"] in LEAVE else f"{row['size']} -> {row['next_size']}"


def _of_flops(row: Row) -> Cell:
    return Cell(f.at_most(f.percent(row["flops_pct"]), row["flops_at_most"] is True), row["flops_pct"], "pct")


def saves(row: Row) -> str:
    """Return what the next size saves per step (``0.4-0.6 ms``), from a row of `bad_sizes`; `-` if unknown."""
    saved = saving_of(row)
    if saved is None:
        return f.NA
    return f.range_text(saved) if saved.high > 0 else "nothing"


def _rests_on(rows: Sequence[Row], saves_when: str) -> list[str]:
    """Say what savings rest on, that the other side of a size is another row, and whose constants predict them."""
    bases = {row["saving_basis"] for row in rows}
    told = ", ".join(text for basis, text in _SAVING_BASES.items() if basis in bases)
    own = f"{saves_when}: in the layer's own ops, {told}; a layer that takes the size has its own row"
    found = [Provenance.of(row, str(row["predicted_for"])) for row in rows if row["predicted_for"] is not None]
    whose = merged(one for one in found if one)
    return [*([own] if told else []), *(f"predicted for {gpu_of(one.gpu)} from {constants_of(one)}" for one in whose)]


def reach(profile: Profile) -> float | None:
    """Return the share of the GEMM FLOPs that nothing keeps off the Tensor Cores; None if unknown.

    Where some run an unknown number of times, it is known only if nothing, or something, keeps all of them off.
    """
    gemms = profile.require("gemms")
    pruned = np.array([x == "no" for x in gemms.values("executes")], dtype=np.bool_)
    free = np.array([kind == "none" for kind in gemms.values("tc_blocker_kind")], dtype=np.bool_)
    flops = np.where(pruned, 0, gemms.numbers("flops") * gemms.numbers("calls_per_step"))
    if bounded_rows(gemms)[~pruned].any():
        kinds = set(free[~pruned].tolist())
        return (100.0 if kinds.pop() else 0.0) if len(kinds) == 1 else None
    total = float(flops.sum())
    return 100 * float(flops[free].sum()) / total if total > 0 else None


PRECISIONS: Final[dict[ChangeKind, str]] = {
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
    "allow_tf32": "allow TF32",
}
OTHERS: Final[dict[ChangeKind, tuple[str, str]]] = {
    "change_size": ("1 size", "{} sizes"),
    "slice_filters": ("1 slice of 8 filters", "{} slices of 8 filters"),
}


BOUNDED: Final = (
    "a bound, not a prediction: the shapes of these products are not known. The most is saved where each ran as fast "
    "as its tile allows; what memory or its launch limits gains nothing, what ran slower may gain more. One row "
    "excludes the others"
)
FIGURES: Final = 3
"""Digits of a step, as of the step now beside it: with two, 5.2 ms of 5.25 ms would look like a gain."""


def what_if_table(profile: Profile, top: int | None) -> Section | None:
    """Return the table of changes and the steps predicted with them; None where nothing is predicted.

    The last row, of all changes together, always stands.
    """
    found = profile.what_ifs
    if not found:
        return None
    last = found[-1:] if found[-1].change == "together" else ()
    shown = (*found[: len(found) - len(last)][:top], *last)
    saves = "saves in these ops, a step" if shown[0].step_ns is not None else "saves of the capture"
    fields = (
        cell_of("change", change_of, least=36),
        time_of("step now", lambda one: one.step_ns, 1),
        cell_of("then", _then, right=True),
        time_of("likely", lambda one: None if one.bound else one.new_step_ns and one.new_step_ns.mid),
        cell_of(saves, _saves, right=True),
        cell_of("throughput", _speed, 2, right=True),
        number_of("ops", lambda one: None if one.bound else one.ops, 3),
        number_of("kernels", lambda one: one.ops if one.bound else None, 3),
        number_of("not predicted", lambda one: one.unpredicted or None, 4),
        source_of(1, lambda one: one.source),
    )
    title = "What if (at most)" if shown[0].bound else "What if (predicted)"
    return section(
        title,
        fields,
        shown,
        (*more(len(found) - len(shown)), *_legend(shown)),
        drop_idle=True,
    )


def _saves(one: WhatIf) -> Cell:
    if one.bound:
        return Cell(f"nothing to {f.duration(one.gain_ns.high)}", one.gain_ns.high, "ns")
    return Cell(f.range_text(one.gain_ns), one.gain_ns.mid, "ns")


def _then(one: WhatIf) -> Cell:
    then = one.new_step_ns
    if then is None:
        return Cell(f.NA, None, "ns")
    return Cell(f"{f.range_text(then, FIGURES)}{' or longer' if one.may_cost else ''}", then.mid, "ns")


def _speed(one: WhatIf) -> Cell:
    speed = one.throughput
    if speed is None:
        return Cell(f.NA, None)
    low, high = (f.full_number(value, 3) for value in (speed.then.low, speed.then.high))
    then = low if low == high else f"{low}-{high}"
    unit = f" {speed.unit}" if speed.unit else ""
    less = " or less" if one.may_cost else ""
    return Cell(f"{f.full_number(speed.now, 3)} -> {then}{unit}{less}", speed.then.mid)


def change_of(one: WhatIf) -> str:
    """Return what would change: ``mixed_float16``, ``filters of conv 63 -> 64``, ``all together (...)``."""
    match one.change:
        case "change_size":
            return f"{one.dimension} of {one.layer} {one.size} -> {one.next_size}"
        case "slice_filters":
            return f"8 filters in {one.layer}, keep {one.size}"
        case "together":
            return f"all together ({_held(one)})"
        case "tensor_cores":
            return "Tensor Core kernels in 16 bits"
        case _:
            return PRECISIONS[one.change]


def _held(one: WhatIf) -> str:
    counts = Counter(kind for kind, _ in one.holds)
    lowered = [PRECISIONS[kind] for kind in counts if kind in PRECISIONS]
    others = [(words, counts[kind]) for kind, words in OTHERS.items() if kind in counts]
    return ", ".join([*lowered, *(alone if count == 1 else many.format(count) for (alone, many), count in others)])


def _legend(shown: tuple[WhatIf, ...]) -> tuple[str, ...]:
    """Say what the predictions are, and whose constants they rest on."""
    whose = merged(one.constants for one in shown if one.constants is not None)
    if shown[0].bound:
        return (
            BOUNDED,
            *(f"rates of {gpu_of(one.gpu)} from {constants_of(one)}" for one in whose),
        )
    return (
        *_marks(shown),
        *(f"predicted for {gpu_of(one.gpu)} from {constants_of(one)}" for one in whose),
    )


def _marks(shown: tuple[WhatIf, ...]) -> tuple[str, ...]:
    """Explain what stands in some rows only."""
    kinds = {one.change for one in shown}
    longer = "or longer, or less" if any(one.may_cost and one.throughput is not None for one in shown) else "or longer"
    marks = {
        "a size saves its part of what all such changes save together; with another bad size of the same ops left, it "
        "saves less": "change_size" in kinds,
        f"{longer}: the range of the prediction holds a loss as well": any(
            one.may_cost and one.step_ns is not None for one in shown
        ),
        "not predicted: ops of unknown shapes, time or kernels that the change concerns; they count as unchanged": any(
            one.unpredicted for one in shown
        ),
    }
    return tuple(text for text, needed in marks.items() if needed)
