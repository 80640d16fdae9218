"""Join the headline figures of ranks: sums over all, shares by the time that they are of, means of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import SUMMARY

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
