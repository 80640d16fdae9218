"""Tables of what to improve: blockers by cost, the costliest ops off the Tensor Cores, badly sized layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead, Section
from tcprobe.report.provenance import constants_of, gpu_of
from tcprobe.report.run import words
from tcprobe.report.run.causes.words import cause_of_op
from tcprobe.report.run.window import of_a_step, step_known, summed
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import LEAVE, Blocker, SizeAdvice
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.provenance import Provenance, merged
from tcprobe.schema.sizes import bounded_rows, is_bounded, saving_of, worst_first

_SAVING_BASES: Final = {
    "measured x predicted": "a predicted share of their measured time",
    "measured x calibrated": "a share of their measured time, predicted with this GPU's calibration",
    "predicted": "predicted",
    "calibrated": "predicted with this GPU's calibration",
}


def _weight(off: OffTensorCores, weight: float, bounded: bool) -> Cell:
    """Return a cell with kernel time, or FLOPs if no time was measured; `bounded` says that they may be more."""
    if off.measured:
        return Cell(f.duration(weight), weight, "ns")
    return Cell(f.at_least(f.flops(weight), bounded), weight, "flops")


def _share(pct: Value) -> Cell:
    return Cell(f.percent(pct), pct, "pct")


def _of_flops(row: Row) -> Cell:
    return Cell(f.at_most(f.percent(row["flops_pct"]), row["flops_at_most"] is True), row["flops_pct"], "pct")


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


@dataclass(frozen=True, slots=True)
class Group:
    """The ops with the same blocker, and what they cost.

    Attributes:
        blocker: what keeps the ops off.
        spent: their total weight.
        share_pct: `spent` over the total, 0-100; None if the total is unknown.
        ops: number of ops.
        worst: row of the costliest op.
    """

    blocker: Blocker
    spent: float
    share_pct: float | None
    ops: int
    worst: Row


def by_blocker(cost: OffTensorCores) -> list[Group]:
    """Group ops by blocker, costliest group first."""
    members: dict[Blocker, list[int]] = {}
    for i, row in enumerate(cost.table.rows()):
        if (why := Blocker.of(row)) is not None:
            members.setdefault(why, []).append(i)
    groups = []
    for why, rows in members.items():
        spent = float(cost.weight[rows].sum())
        worst = next(cost.table.take(np.array(rows[:1])).rows())
        groups.append(Group(why, spent, _share_of(cost, spent), len(rows), worst))
    return sorted(groups, key=lambda group: -group.spent)


def _share_of(cost: OffTensorCores, spent: float) -> float | None:
    """Return a share of the total, 0-100; None where that, or what it is a share of, is not known."""
    return 100 * spent / cost.total if cost.total and not cost.bounded else None


def causes(profile: Profile, cost: OffTensorCores, top: int | None) -> Section:
    """Return the table of blockers: cost, number of ops, costliest op."""
    groups = by_blocker(cost)
    rows = tuple(_cause(cost, group) for group in groups[:top])
    headings = (
        ColumnHead("reason", wraps=True),
        ColumnHead("kernel time" if cost.measured else of_a_step(profile), right=True),
        ColumnHead("share", right=True),
        ColumnHead("ops", right=True),
        ColumnHead("costliest", least=28),
        ColumnHead("source", rank=1, least=20, path=True),
    )
    title = f"Why not more{_over(summed(profile))}" if cost.measured else "What would keep ops off the Tensor Cores"
    return Section(title, headings, rows, _more(len(groups) - len(rows)))


def _over(words: str) -> str:
    return f" ({words})" if words else ""


def _cause(cost: OffTensorCores, group: Group) -> tuple[Cell | str, ...]:
    return (
        words.blocker(group.blocker),
        _weight(cost, group.spent, cost.bounded),
        _share(group.share_pct),
        Cell(f.count(group.ops), group.ops),
        _where(group.worst),
        f.any_text(group.worst["source"]),
    )


def _where(row: Row) -> str:
    return words.where(row["layer"], row["op"], row["pass"])


def first(profile: Profile, cost: OffTensorCores, top: int | None) -> Section:
    """Return the table of the costliest ops off the Tensor Cores, with what to change."""
    shown = cost.table.take(np.arange(min(len(cost.table), top or len(cost.table))))
    rows = [
        (
            _where(row),
            f.any_text(row["op_type"]),
            _weight(cost, weight, cost.bounded and is_bounded(row)),
            _share(_share_of(cost, weight)),
            cause_of_op(row) if row.get("cause") == "channels" else f.any_text(words.blocker_of(row)),
            f.any_text(row["source"]),
        )
        for row, weight in zip(shown.rows(), cost.weight.tolist(), strict=False)
    ]
    headings = (
        ColumnHead("layer or op", least=36),
        ColumnHead("type", rank=2),
        ColumnHead("kernel time" if cost.measured else of_a_step(profile), right=True),
        ColumnHead("share", right=True),
        ColumnHead("reason", wraps=True),
        ColumnHead("source", rank=1, least=20, path=True),
    )
    return Section(
        f"Costliest ops off the Tensor Cores{_over(summed(profile))}" if cost.measured else "Largest of these ops",
        headings,
        tuple(rows),
        _more(len(cost.table) - len(rows)),
    )


def bad_size_table(profile: Profile, top: int | None) -> Section | None:
    """Return the table of badly sized dimensions, costliest first; None if there is none."""
    rows = list(worst_first(profile.require("bad_sizes")).rows())[:top]
    if not rows:
        return None
    total = len(profile.require("bad_sizes"))
    marks, said = _marks(rows)
    saves_when = "saves a step" if step_known(profile) else "saves an execution"
    headings, cells = _bad_size_cells(rows, marks, saves_when)
    legend = (*_rests_on(rows, saves_when), *(f"{mark}: {text}" for mark, text in said.items()))
    over = summed(profile) if any(row["kernel_ns"] is not None for row in rows) else ""
    title = f"Badly sized ({total:,}{'; ' * bool(over)}{over})"
    return Section(title, headings, cells, (*_more(total - len(rows)), *legend))


def _marks(rows: list[Row]) -> tuple[dict[SizeAdvice | None, str], dict[str, str]]:
    """Return advice -> mark and mark -> its words; advice that many sizes share is worded once, below the table."""
    marks: dict[SizeAdvice | None, str] = {}
    said: dict[str, str] = {}
    for row in rows:
        advice = SizeAdvice.of(row)
        if advice is not None and advice not in marks:
            marks[advice] = f"[{len(marks) + 1}]"
            said[marks[advice]] = words.advice_of(row) or ""
    return marks, said


def saves(row: Row) -> str:
    """Return what the next size saves per step (``0.4-0.6 ms``), from a row of `bad_sizes`; `-` if unknown."""
    saved = saving_of(row)
    if saved is None:
        return f.NA
    return f.range_text(saved) if saved.high > 0 else "nothing"


def _rests_on(rows: list[Row], saves_when: str) -> tuple[str, ...]:
    """Say what savings rest on, and that the other side of a size is another row."""
    bases = {str(row["saving_basis"]) for row in rows if row["saving_basis"] is not None}
    told = [text for basis, text in _SAVING_BASES.items() if basis in bases]
    own_row = f"{saves_when}: in the layer's own ops, {', '.join(told)}; a layer that takes the size has its own row"
    return (*([own_row] if told else []), *_constants(rows))


def _constants(rows: list[Row]) -> tuple[str, ...]:
    """Say whose constants savings and rates are predicted with."""
    found = [Provenance.of(row, str(row["predicted_for"])) for row in rows if row["predicted_for"] is not None]
    return tuple(f"predicted for {gpu_of(one.gpu)} with {constants_of(one)}" for one in merged(p for p in found if p))


def _bad_size_cells(
    rows: list[Row], marks: dict[SizeAdvice | None, str], saves_when: str
) -> tuple[tuple[ColumnHead, ...], tuple[tuple[Cell | str, ...], ...]]:
    columns: tuple[tuple[ColumnHead, Callable[[Row], Cell | str]], ...] = (
        (ColumnHead("layer", least=24), lambda r: f.any_text(r["layer"])),
        (ColumnHead("dimension"), lambda r: f.any_text(r["dimension"])),
        (ColumnHead("size", right=True), lambda r: Cell(_size(r), r["size"])),
        (ColumnHead("kernel time", right=True), lambda r: Cell(f.duration(r["kernel_ns"]), r["kernel_ns"], "ns")),
        (ColumnHead("share", right=True), lambda r: _share(r["share_pct"])),
        (ColumnHead(saves_when, right=True), lambda r: Cell(saves(r), r["saving_ns"], "ns")),
        (ColumnHead("of GEMM FLOPs", right=True, rank=1), _of_flops),
        (ColumnHead("passes", rank=4), lambda r: f.any_text(r["passes"])),
        (ColumnHead("dtype", rank=5), lambda r: f.any_text(r["dtype"])),
        (ColumnHead("advice"), lambda r: marks.get(SizeAdvice.of(r), f.NA)),
        (ColumnHead("source", least=20, path=True), lambda r: f.any_text(r["source"])),
    )
    used = [(head, show) for head, show in columns if any(str(show(r)) != f.NA for r in rows)]
    return tuple(h for h, _ in used), tuple(tuple(show(r) for _, show in used) for r in rows)


def _size(row: Row) -> str:
    return str(row["size"]) if row["advice_kind"] in LEAVE else f"{row['size']} -> {row['next_size']}"


def _more(left: int) -> tuple[str, ...]:
    return (f"({left:,} more; --top 0 shows all)",) if left > 0 else ()
