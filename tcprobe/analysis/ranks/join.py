"""Join the tables of ranks row by row: sums, extremes and means by column, the rest as in the costliest rank.

Join the headline figures of ranks: sums over all, shares by the time that they are of, means of the rest.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.grouping import distinct_rows, ratio_pct
from tcprobe.schema.columns import Data, IntArray, Names, Row, Table, concatenate
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import SUMMARY, TABLES

SUMS: Final = frozenset(
    ("kernel_time_ns", "tc_time_ns", "memory_time_ns", "kernels", "communication_kernel_time_ns",
     "communication_exposed_ns")
)  # fmt: skip
MOST: Final = frozenset(("bad_size_count", "gemm_layers"))
"""Figures of the model, which all ranks have."""
OF_KERNEL_TIME: Final = frozenset(
    ("tc_kernel_time_pct", "coverage_pct", "capable_time_pct", "communication_kernel_time_pct")
)
Over = Literal["sum", "most", "kernel time", "capable time", "GPUs", "ranks"]
WORDS: Final[Mapping[Over, str]] = {
    "sum": "the sum of {} ranks",
    "kernel time": "over the kernel time of {} ranks",
    "capable time": "over such time of {} ranks",
    "GPUs": "the mean over the GPUs of {} ranks",
    "ranks": "the mean of {} ranks",
}


class Figure(Struct, frozen=True):
    """A figure of some ranks."""

    over: Over
    ranks: int  # that have it
    weight: float
    # value, low, high: times `weight`; None where a rank does not know it.
    value: float | None
    low: float | None
    high: float | None
    row: Row  # as in the rank of the largest weight


def figures_of(profile: Profile) -> dict[str, Figure]:
    """Return the figures of one rank by name."""
    spent, could = profile.value("kernel_time_ns") or 0.0, profile.value("capable_time_pct") or 0.0
    weights: dict[Over, float] = {
        "kernel time": spent, "capable time": spent * could / 100.0, "GPUs": float(len(profile.active_gpus)),
    }  # fmt: skip
    found = {}
    for row in profile.require("summary").rows():
        over = _over(str(row["metric"]))
        weight = weights.get(over, 1.0)
        value, low, high = (None if row[c] is None else float(row[c] or 0) * weight for c in ("value", "low", "high"))
        found[str(row["metric"])] = Figure(over, 1, weight, value, low, high, row)
    return found


def _over(metric: str) -> Over:
    if metric in SUMS:
        return "sum"
    if metric in MOST:
        return "most"
    if metric in OF_KERNEL_TIME or metric.startswith("precision_"):
        return "kernel time"
    return {"tc_capable_time_pct": "capable time", "gpu_busy_pct": "GPUs"}.get(metric, "ranks")  # type: ignore[return-value]


def join_figures(one: Mapping[str, Figure], other: Mapping[str, Figure]) -> dict[str, Figure]:
    """Return the figures of both."""
    return {name: _joined(one.get(name), other.get(name)) for name in dict.fromkeys((*one, *other))}


def _joined(one: Figure | None, other: Figure | None) -> Figure:
    if one is None or other is None:
        found = one or other
        assert found is not None, "a name that one of them has"
        return found
    pairs = ((one.value, other.value), (one.low, other.low), (one.high, other.high))
    value, low, high = (
        None if a is None or b is None else max(a, b) if one.over == "most" else a + b for a, b in pairs
    )
    weight, row = one.weight + other.weight, one.row if one.weight >= other.weight else other.row
    return Figure(one.over, one.ranks + other.ranks, weight, value, low, high, row)


def summary_of(figures: Mapping[str, Figure]) -> Table:
    """Return the summary of all ranks; what some of them lack is a share of what the others know."""
    total = figures["kernel_time_ns"].value if "kernel_time_ns" in figures else None
    return Table.from_rows(SUMMARY, [_row(one, total) for one in figures.values()])


def _row(one: Figure, kernel_ns: float | None) -> Row:
    weight = kernel_ns if one.over == "kernel time" and kernel_ns else one.weight
    if one.over in ("sum", "most"):
        weight = 1.0
    value, low, high = (None if v is None or not weight else v / weight for v in (one.value, one.low, one.high))
    row = {**one.row, "value": value, "low": low, "high": high}
    if (value, low, high, row["text"]) == (None, None, None, None):
        return {**row, "basis": None, "reason": row["reason"] or "some ranks do not tell"}
    return {**row, "reason": "; ".join(_reasons(one))}


def _reasons(one: Figure) -> Iterable[str]:
    if one.row["reason"] and one.over not in ("GPUs",):
        yield str(one.row["reason"])
    if one.over in WORDS and one.ranks > 1:
        yield WORDS[one.over].format(one.ranks)


KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kernels": ("kernel", "op", "op_type", "uses_tc", "cause"),
    "ops": ("op", "op_type"),
    "layers": ("layer",),
    "gemms": ("op", "op_type", "layer", "pass", "m", "n", "k", "batch", "dtype", "executes"),
    "bad_sizes": ("layer", "dimension", "size"),
    "range_kernels": ("domain", "name", "bucket"),
    "range_times": ("domain", "name"),
    "iterations": ("iteration",),
    "causes": ("group", "cause"),
    "kinds": ("kind", "group", "cause"),
    "waits": ("host_work", "short", "host_op", "range"),
    "copies": ("kind",),
    "messages": ("collective", "group", "group_size", "dtype", "sent_bytes", "received_bytes"),
}
"""The tables that are joined, and what names a row of theirs over all ranks; which GPU it was does not."""
WEIGHTS: Final = ("split_ns", "sum_ns", "kernel_ns", "idle_ns")
"""What a row costs: the first of these that a table has."""
Rule = Literal["sum", "min", "max", "mean"]
RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("calls", "launches", "stretches", "size_bytes", "sum_ns", "union_ns", "tc_ns"), "sum"),
    **dict.fromkeys(("unknown_ns", "host_ns", "split_ns", "around_ns", "cause_ns", "memory_ns", "kernel_ns"), "sum"),
    **dict.fromkeys(("forward_ns", "dgrad_ns", "wgrad_ns", "capable_ns", "capable_unknown_ns", "idle_ns"), "sum"),
    **dict.fromkeys(("tail_ns", "inclusive_launches", "inclusive_sum_ns", "inclusive_union_ns"), "sum"),
    **dict.fromkeys(("off_ns", "copy_ns", "predicted_ns", "exposed_ns"), "sum"),
    **dict.fromkeys(("min_ns",), "min"),
    **dict.fromkeys(("max_ns", "in_window"), "max"),
    **dict.fromkeys(("step_ns", "saving_low_ns", "saving_ns", "saving_high_ns", "saving_pct", "duration_ns"), "mean"),
}
WEIGHED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("achieved_tflop_per_s", "peak_pct", "memory_pct", "bandwidth_pct"), "sum_ns"),
    "tc_capable_time_pct": "capable_ns",
}
"""Rates and shares, which are means by the time that they are of."""
OF_ONE: Final = frozenset(("device", "start_ns", "span_ns", "busy_ns", "live_iteration"))
"""What is told of one rank alone, on its own clock: NA of several."""


def _again(name: str, columns: Mapping[str, Data]) -> Table:
    return Table(TABLES[name], columns)


# Parts go to and from other processes: there a contract is known by its name.
copyreg.pickle(Table, lambda table: (_again, (table.spec.name, table.columns)))


class Joined(Struct, frozen=True):
    """Rows of one rank or several."""

    table: Table
    ranks: IntArray  # of how many ranks each row is


def of_one(table: Table) -> Joined:
    """Return the rows of a rank, those of its GPUs joined."""
    columns: dict[str, Any] = {name: np.full(len(table), np.nan) for name in OF_ONE if name in table}
    found = _by_key(table.with_columns(**columns), np.ones(len(table), np.int64))
    return Joined(found.table, np.ones(len(found.table), np.int64))


def join(one: Joined, other: Joined) -> Joined:
    """Return the rows of both; where both have one, its columns joined as `RULES` and `WEIGHED` say."""
    table = concatenate(one.table.spec, [one.table, other.table])
    return _by_key(table, np.concatenate([one.ranks, other.ranks]))


def _by_key(table: Table, ranks: IntArray) -> Joined:
    if not len(table):
        return Joined(table, ranks)
    _, group = distinct_rows(*(_codes(table.columns[name]) for name in KEYS[table.spec.name]))
    count = int(group.max()) + 1
    weight = weight_of(table)
    first = _costliest(group, weight)
    columns: dict[str, Data] = {}
    for name, data in table.columns.items():
        if isinstance(data, Names):
            columns[name] = data.take(first)
        elif name in WEIGHED:
            of = np.nan_to_num(table.numbers(WEIGHED[name])) if WEIGHED[name] in table else weight
            columns[name] = _mean(data, of, group, count)
        elif RULES.get(name) == "mean":
            columns[name] = _mean(data, ranks, group, count)
        else:
            columns[name] = _numbers(data, RULES.get(name), group, count, first)
    return Joined(Table(table.spec, columns), _numbers(ranks, "sum", group, count, first))


def _codes(data: Data) -> IntArray:
    return (data.ids if isinstance(data, Names) else np.nan_to_num(data, nan=-1.0)).astype(np.int64)


def weight_of(table: Table) -> NDArray[np.float64]:
    """Return what each row costs, 0 where that is not known."""
    for name in WEIGHTS:
        if name in table and not np.isnan(weight := np.asarray(table.numbers(name), np.float64)).all():
            return np.nan_to_num(weight)
    return np.zeros(len(table))


def _costliest(group: NDArray[Any], weight: NDArray[np.float64]) -> IntArray:
    order = np.lexsort((np.arange(len(group)), -weight, group))
    ordered = group[order]
    rows: IntArray = order[np.r_[True, ordered[1:] != ordered[:-1]]]
    return rows


def _numbers(data: NDArray[Any], rule: Rule | None, group: NDArray[Any], count: int, first: IntArray) -> NDArray[Any]:
    if rule is None:
        return data[first]
    if rule == "sum":
        sums = np.zeros(count, data.dtype)
        np.add.at(sums, group, data)
        return sums
    found = data[first].copy()
    (np.fmin if rule == "min" else np.fmax).at(found, group, data)
    return found


def _mean(data: NDArray[Any], weight: NDArray[Any], group: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Return means of what is known, by a weight."""
    known = ~np.isnan(data)
    total, spent = np.zeros((2, count))
    np.add.at(total, group[known], weight[known])
    np.add.at(spent, group[known], (data * weight)[known])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, spent / total, np.nan)


def shares_of(table: Table, kernel_ns: float) -> Table:
    """Return a joined table, costliest row first, its shares and means those of the sums.

    Args:
        table: joined.
        kernel_ns: of all ranks.
    """
    order = np.arange(len(table)) if "iteration" in table else np.argsort(-weight_of(table), kind="stable")
    table, weight = table.take(order), weight_of(table)[order]
    total = kernel_ns if table.spec.name in ("layers", "range_kernels", "bad_sizes") else float(weight.sum())
    shares = {"share_pct": ratio_pct(weight, total)} if "share_pct" in table else {}
    with np.errstate(invalid="ignore", divide="ignore"):
        if "tc_kernel_time_pct" in table and not np.isnan(table.numbers("tc_kernel_time_pct")).all():
            shares["tc_kernel_time_pct"] = ratio_pct(table.numbers("tc_ns"), table.numbers("sum_ns"))
        if "bytes_per_s" in table:
            shares["bytes_per_s"] = table.numbers("size_bytes") / table.numbers("sum_ns") * 1e9
        if table.spec.name == "range_times":
            shares["mean_ns"] = table.numbers("sum_ns") / table.numbers("calls")
    return table.with_columns(**shares)
