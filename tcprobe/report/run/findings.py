"""Why not more, and what first: blockers by cost, the costliest ops off the Tensor Cores, badly sized layers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.report import formatting as f
from tcprobe.report.audit.words import span
from tcprobe.report.blocks import Head, Section
from tcprobe.report.run.window import summed
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.finding import Range
from tcprobe.schema.profile import Profile

_SAVING_BASES: Final = {
    "measured x predicted": "a predicted share of their measured time",
    "measured x calibrated": "a share of their measured time, predicted with this GPU's calibration",
    "predicted": "predicted",
    "calibrated": "predicted with this GPU's calibration",
}
NOT_BLOCKED: Final = frozenset({None, "none", "not an NVIDIA GPU"})  # of the last there is nothing to say or do


@dataclass(frozen=True, slots=True)
class Cost:
    """What is weighed: kernel time where it was measured, else the FLOPs of the graph's ops.

    Attributes:
        table: the capable ops that a blocker keeps off the Tensor Cores.
        weight: one number per row, same unit throughout.
        total: what shares are taken of.
        measured: weights are ns of kernel time, not FLOPs.
    """

    table: Table
    weight: NDArray[np.float64]
    total: float
    measured: bool

    @property
    def unit(self) -> str:
        """What shares are shares of, in words."""
        return "the kernel time" if self.measured else "the FLOPs of a step's GEMM-like ops"

    def show(self, weight: float) -> str:
        """Return a weight with its unit."""
        return f.duration(weight) if self.measured else f.flops(weight)


def blocked(profile: Profile) -> Cost | None:
    """Return the ops that could use Tensor Cores and do not, with what each costs; None where there is none."""
    ops = profile.require("ops")
    total = _sum(profile.require("kernels").numbers("sum_ns")) or _sum(ops.numbers("sum_ns"))
    if total > 0:
        off = ops.numbers("sum_ns") - np.nan_to_num(ops.numbers("tc_ns")) - np.nan_to_num(ops.numbers("unknown_ns"))
        capable = _is(ops, "tc_capable", {"yes"})
        return _cost(ops, off, total, capable & (np.nan_to_num(off) > 0), measured=True)
    gemms = profile.require("gemms")
    runs = ~_is(gemms, "executes", {"no"})
    return _cost(gemms, gemms.numbers("flops"), _sum(gemms.numbers("flops")[runs]), runs, measured=False)


def _cost(
    table: Table, weight: NDArray[np.float64], total: float, mask: NDArray[np.bool_], measured: bool
) -> Cost | None:
    mask = mask & ~_is(table, "tc_blocker", NOT_BLOCKED)
    if not mask.any():
        return None
    weight, kept = np.nan_to_num(weight[mask]), table.take(mask)
    order = np.argsort(-weight, kind="stable")
    return Cost(kept.take(order), weight[order], total, measured)


def _is(table: Table, column: str, wanted: Collection[str | None]) -> NDArray[np.bool_]:
    names = table.names(column)
    chosen = np.array([name in wanted for name in names.names] + [None in wanted], dtype=np.bool_)
    return chosen[names.ids]


def _sum(values: NDArray[np.float64]) -> float:
    return float(np.nansum(values))


def reach(profile: Profile) -> float | None:
    """Return the share of the step's GEMM FLOPs that nothing keeps off Tensor Cores; None where it is unknown."""
    gemms = profile.require("gemms")
    flops = np.where(_is(gemms, "executes", {"no"}), 0, gemms.numbers("flops"))
    total = float(flops.sum())
    return 100 * float(flops[_is(gemms, "tc_blocker", {"none"})].sum()) / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class Group:
    """What one reason costs.

    Attributes:
        reason: what keeps the ops off, in words.
        spent: their weight.
        share_pct: that over the total, 0-100; None where the total is unknown.
        ops: how many they are.
        worst: row of the costliest.
    """

    reason: str
    spent: float
    share_pct: float | None
    ops: int
    worst: Row


def by_reason(cost: Cost) -> list[Group]:
    """Return one group per reason, the costliest first."""
    members: dict[str, list[int]] = {}
    for i, why in enumerate(cost.table.values("tc_blocker")):
        members.setdefault(str(why), []).append(i)
    groups = []
    for why, rows in members.items():
        spent = float(cost.weight[rows].sum())
        worst = next(cost.table.take(np.array(rows[:1])).rows())
        groups.append(Group(why, spent, 100 * spent / cost.total if cost.total else None, len(rows), worst))
    return sorted(groups, key=lambda group: -group.spent)


def causes(cost: Cost, top: int | None, over: str = "") -> Section:
    """Return one row per blocker: what it costs, how many ops, the costliest of them; `over` says of how many steps."""
    groups = by_reason(cost)
    rows = tuple(_cause(cost, group) for group in groups[:top])
    heads = (
        Head("reason", wraps=True),
        Head("kernel time" if cost.measured else "FLOP/step", right=True),
        Head("share", right=True),
        Head("ops", right=True),
        Head("costliest", least=28),
        Head("source", rank=1, least=20, path=True),
    )
    title = f"Why not more{_over(over)}" if cost.measured else "What would keep ops off the Tensor Cores"
    return Section(title, heads, rows, _more(len(groups) - len(rows)))


def _over(words: str) -> str:
    return f" ({words})" if words else ""


def _cause(cost: Cost, group: Group) -> tuple[str, ...]:
    return (
        f.visible(group.reason),
        cost.show(group.spent),
        f.percent(group.share_pct),
        f.count(group.ops),
        where(group.worst),
        f.plain(group.worst["source"]),
    )


def where(row: Row) -> str:
    """Return the layer with the pass, or the op where no layer is known."""
    place = f.plain(row["layer"] or row["op"])
    return f"{place} ({row['pass']})" if row["layer"] and row["pass"] else place


def first(cost: Cost, top: int | None, over: str = "") -> Section:
    """Return the costliest ops that are off the Tensor Cores, with what to change; `over` as for `causes`."""
    shown = cost.table.take(np.arange(min(len(cost.table), top or len(cost.table))))
    rows = [
        (
            where(row),
            f.plain(row["op_type"]),
            cost.show(weight),
            f.percent(100 * weight / cost.total if cost.total else None),
            f.plain(row["tc_blocker"]),
            f.plain(row["source"]),
        )
        for row, weight in zip(shown.rows(), cost.weight.tolist(), strict=False)
    ]
    heads = (
        Head("layer or op", least=36),
        Head("type", rank=2),
        Head("kernel time" if cost.measured else "FLOP/step", right=True),
        Head("share", right=True),
        Head("reason", wraps=True),
        Head("source", rank=1, least=20, path=True),
    )
    return Section(
        f"Costliest ops off the Tensor Cores{_over(over)}" if cost.measured else "Largest of these ops",
        heads,
        tuple(rows),
        _more(len(cost.table) - len(rows)),
    )


def bad_sizes(profile: Profile, top: int | None) -> Section | None:
    """Return the badly sized dimensions, the costliest first; None where none is known."""
    rows = worst_sizes(profile, top)
    if not rows:
        return None
    total = len(profile.require("bad_sizes"))
    marks = _marks(rows)
    heads, cells = _bad_size_cells(rows, marks)
    legend = (*_rests_on(rows), *(f"{mark}: {text}" for text, mark in marks.items()))
    over = summed(profile) if any(row["kernel_ns"] is not None for row in rows) else ""
    title = f"Badly sized ({total:,}{'; ' * bool(over)}{over})"
    return Section(title, heads, cells, (*_more(total - len(rows)), *legend))


def _marks(rows: list[dict[str, Value]]) -> dict[str, str]:
    """Return advice -> mark; many sizes share one advice, which is said once below the table."""
    distinct = dict.fromkeys(f.visible(str(row["advice"])) for row in rows if row["advice"])
    return {advice: f"[{number}]" for number, advice in enumerate(distinct, 1)}


def worst_sizes(profile: Profile, top: int | None) -> list[dict[str, Value]]:
    """Return the rows of `bad_sizes` by kernel time, then by what the next size saves, then by FLOPs."""
    table = profile.require("bad_sizes")
    time, flops = (np.nan_to_num(table.numbers(c), nan=-1.0) for c in ("kernel_ns", "flops_pct"))
    saved = np.nan_to_num(table.numbers("saving_ns"))
    return list(table.take(np.lexsort((-flops, -saved, -time))[:top]).rows())


def saves(row: Row) -> str:
    """Return what the next size of a row of `bad_sizes` saves a step (``0.4-0.6 ms``); `-` where unknown."""
    saved = saving(row)
    if saved is None:
        return f.NA
    return span(saved) if saved.high > 0 else "nothing"


def saving(row: Row) -> Range | None:
    """Return what the next size of a row of `bad_sizes` saves, in ns a step; None where unknown."""
    low, likely, high = (row[f"saving_{end}ns"] for end in ("low_", "", "high_"))
    return None if low is None or likely is None or high is None else Range(float(low), float(likely), float(high))


def _rests_on(rows: list[dict[str, Value]]) -> tuple[str, ...]:
    """Say what savings rest on, and that the other side of a size is another row."""
    bases = {str(row["saving_basis"]) for row in rows if row["saving_basis"] is not None}
    told = [text for basis, text in _SAVING_BASES.items() if basis in bases]
    if not told:
        return ()
    return (f"saves a step: in the layer's own ops, {', '.join(told)}; a layer that takes the size has its own row",)


def _bad_size_cells(
    rows: list[dict[str, Value]], marks: dict[str, str]
) -> tuple[tuple[Head, ...], tuple[tuple[str, ...], ...]]:
    columns: tuple[tuple[Head, Callable[[Row], str]], ...] = (
        (Head("layer", least=24), lambda r: f.plain(r["layer"])),
        (Head("dimension"), lambda r: f.plain(r["dimension"])),
        (Head("size", right=True), _size),
        (Head("kernel time", right=True), lambda r: f.duration(r["kernel_ns"])),
        (Head("share", right=True), lambda r: f.percent(r["share_pct"])),
        (Head("saves a step", right=True), saves),
        (Head("of GEMM FLOPs", right=True, rank=1), lambda r: f.percent(r["flops_pct"])),
        (Head("passes", rank=4), lambda r: f.plain(r["passes"])),
        (Head("dtype", rank=5), lambda r: f.plain(r["dtype"])),
        (Head("advice"), lambda r: marks.get(f.visible(str(r["advice"])), f.NA)),
        (Head("source", least=20, path=True), lambda r: f.plain(r["source"])),
    )
    used = [(head, show) for head, show in columns if any(show(r) != f.NA for r in rows)]
    return tuple(h for h, _ in used), tuple(tuple(show(r) for _, show in used) for r in rows)


def changes(row: Row) -> bool:
    """Whether the advice is to change the size, not to leave it."""
    return not str(row["advice"] or "").startswith(("nothing", "next to nothing", "no effect:"))


def few_filters(row: Row) -> bool:
    """Whether the row is of a convolution's few filters, which a slice of more may stand in for."""
    return re.match(r"\d output channels?:", str(row["advice"] or "")) is not None


def _size(row: Row) -> str:
    return f"{row['size']} -> {row['next_size']}" if changes(row) else str(row["size"])


def _more(left: int) -> tuple[str, ...]:
    return (f"({left:,} more; --top 0 shows all)",) if left > 0 else ()
