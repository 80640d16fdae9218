"""Divide a step among a few rows that add up to it: on Tensor Cores, off them, other kernels, copies, nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import GROUP_OF, CauseGroup, CauseKind, KernelKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.screen import OFF_CAUSES, ROW_KINDS, Bar, BarOf, BarRow, RowKind

ROW_OF_GROUP: Final[Mapping[CauseGroup, RowKind]] = {
    "well": "used", "used": "used", "slowly": "slowly", "off": "off", "never": "others", "layout": "layout",
    "unknown": "unknown", "copy": "copy", "idle": "idle",
}  # fmt: skip
ROW_OF_CAUSE: Final[Mapping[CauseKind, RowKind]] = {
    **dict.fromkeys(OFF_CAUSES, "off"),
    "tc_misaligned": "misaligned",
    "gpu": "matmul",
    "not_nvidia": "matmul",
    "op_unknown": "others",  # kernels whose names tell that they do not multiply
}
"""Causes that are not in the row of their group."""
KERNELS: Final[tuple[RowKind, ...]] = ROW_KINDS[: ROW_KINDS.index("copy")]
ON: Final[tuple[RowKind, ...]] = ("used", "misaligned", "slowly")
WAITS: Final[tuple[RowKind, ...]] = ("copy", "idle", "wait")


def bar_of(profile: Profile) -> Bar | None:
    """Return where the time goes, the mean over GPUs; None where no time of a GPU is known.

    Kernels that run at once share their time equally, so that rows add up to a step of one GPU. Where the step is one
    outside the profiler, its waiting is what its kernels leave of it.
    """
    causes, waiting = list(profile.require("causes").rows()), profile.waiting
    gpus = len({row["device"] for row in causes} - {None}) or profile.busiest_gpu[0]
    if waiting is not None:
        of: BarOf = "capture" if waiting.length == "capture" else "step"
        if not any(row["split_ns"] is not None for row in causes):
            return _bar(profile, of, {"kernels": waiting.busy_ns, "wait": waiting.idle_ns}, gpus)
        spent = _spent(causes, "split_ns")
        kernels = {kind: ns for kind, ns in spent.items() if kind in KERNELS}
        waits = {kind: ns for kind, ns in spent.items() if kind in WAITS} or {"idle": 1.0}
        parts = {**_scaled(kernels, waiting.busy_ns), **_scaled(waits, waiting.idle_ns)}
        return _bar(profile, of, parts, gpus)
    if causes:
        return _bar(profile, "kernel_time", {kind: ns / gpus for kind, ns in _spent(causes, "sum_ns").items()}, gpus)
    idle, pct = (profile.value(f"ops_idle_{unit}") for unit in ("ns", "pct"))
    if not idle or not pct:
        return None
    return _bar(profile, "op_calls", {"kernels": idle * (100.0 - pct) / pct, "wait": idle}, 1)


def row_kind(cause: Value) -> RowKind:
    """Return the row of the bar that time of a cause, one of `CauseKind`, stands in."""
    return ROW_OF_CAUSE.get(cause) or ROW_OF_GROUP[GROUP_OF[cause]]  # type: ignore[call-overload, index]


def _spent(causes: Iterable[Row], column: str) -> dict[RowKind, float]:
    spent = defaultdict[RowKind, float](float)
    for row in causes:
        spent[row_kind(row["cause"])] += float(row[column] or 0)
    return dict(spent)


def _scaled(parts: Mapping[RowKind, float], total: float) -> dict[RowKind, float]:
    """Return parts that add up to `total`, in the same proportions."""
    whole = sum(parts.values())
    return {kind: ns * total / whole for kind, ns in parts.items()} if whole else {}


def _bar(profile: Profile, of: BarOf, spent: Mapping[RowKind, float], gpus: int) -> Bar | None:
    """Return the bar of these times; what its kernels do, and that communication is a row of its own, `kinds` tells."""
    total, kinds = sum(spent.values()), _kinds(profile)
    if not total > 0:
        return None
    rows = list[BarRow]()
    for kind in (kind for kind in ROW_KINDS if spent.get(kind)):
        parts = _of_kinds(spent[kind], kinds.get(kind, {}))
        moved = parts.pop("communication", 0.0) if kind == "others" else 0.0
        if moved:
            rows.append(BarRow("communication", moved, 100.0 * moved / total))
        if (ns := spent[kind] - moved) > 0:
            ordered = tuple(sorted(parts.items(), key=lambda part: (-part[1], part[0])))
            rows.append(BarRow(kind, ns, 100.0 * ns / total, ordered))
    return Bar(of, total, tuple(rows), gpus)


def _of_kinds(ns: float, shares: Mapping[KernelKind, float]) -> dict[KernelKind, float]:
    whole = sum(shares.values())
    return {kind: ns * share / whole for kind, share in shares.items()} if whole else {}


def _kinds(profile: Profile) -> dict[RowKind, dict[KernelKind, float]]:
    """Return of each row the time of each kind of kernels, in any unit."""
    shares = defaultdict[RowKind, dict[KernelKind, float]](dict)
    for row in profile.require("kinds").rows():
        kind: KernelKind = row["kind"]  # type: ignore[assignment]
        mine = shares[row_kind(row["cause"])]
        mine[kind] = mine.get(kind, 0.0) + (float(row["split_ns"] or 0) or float(row["sum_ns"] or 0))
    return shares
