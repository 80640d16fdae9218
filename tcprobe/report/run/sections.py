"""Fill a view with rows: select and sort them, and add what no table stores (shares, means, bars)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.report.blocks import ColumnHead, Section
from tcprobe.report.formatting import NA
from tcprobe.report.run.base import Field, View
from tcprobe.report.run.views import ITERATION_VIEW, KERNEL_VIEW
from tcprobe.report.run.window import step_known, summed
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Profile


def section(profile: Profile, view: View, top: int | None) -> Section | None:
    """Return the first `top` rows of a view, or all if None; None if it has no rows."""
    table = _ordered(_executed(profile.require(view.table)), view.order)
    total = len(table)
    if not total:
        return None
    start = _start(table, top) if view is ITERATION_VIEW else 0
    stop = total if top is None else min(start + top, total)
    chosen = _chosen(table, view, start, stop)
    rows = _rows(profile, view, table.take(chosen), table)
    known = step_known(profile)
    columns = [(field, [field.show(row) for row in rows]) for field in view.fields]
    captured = profile.waiting is not None and profile.waiting.length == "capture"
    shown = [
        (_head(field, known, captured), cells)
        for field, cells in columns
        if {c.text for c in cells} - {NA, field.usual}
    ]
    left = total - len(rows)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    of = "" if not left else f"{len(rows):,} of " if not view.order else f"top {len(rows):,} of "
    title = f"{view.title if known else view.without_step or view.title} ({of}{total:,}{_over(profile, view, table)})"
    return Section(title, tuple(h for h, _ in shown), tuple(zip(*(cells for _, cells in shown), strict=True)), notes)


def _head(field: Field, step: bool, captured: bool) -> ColumnHead:
    text = field.of_capture if captured and field.of_capture else "" if step else field.without_step
    return replace(field.head, text=text) if text else field.head


def _over(profile: Profile, view: View, table: Table) -> str:
    """Say how many steps a view's kernel times add up; empty if it has no times or its rows are steps."""
    without = dict.fromkeys(("host_ops", "iterations", "phases", "gaps", "advice"))
    times = {"gemms": "kernel_ns", **without}.get(view.table, "sum_ns")
    if times is None or np.isnan(np.asarray(table.numbers(times), dtype=np.float64)).all():
        return ""
    words = summed(profile)
    return f"; {words}" if words else ""


def _chosen(table: Table, view: View, start: int, stop: int) -> NDArray[np.int64]:
    """Return the rows to show: from `start` to before `stop`, and what the view keeps of those after."""
    shown = np.arange(start, stop)
    if view.kept is None:
        return shown
    column, values = view.kept
    after = np.flatnonzero(table.names(column).among(*values))
    return np.concatenate([shown, after[after >= stop]])


def _start(iterations: Table, top: int | None) -> int:
    """Return where the `top` shown iterations start: at the end of the warm-up, followed by those that count."""
    counted = np.flatnonzero(iterations.numbers("in_window"))
    if top is None or not len(counted):
        return 0
    return max(0, min(int(counted[0]) - 2, len(iterations) - top))


def _executed(table: Table) -> Table:
    """Leave out ops that were traced but do not run."""
    if "executes" not in table:
        return table
    return table.take(np.array([x != "no" for x in table.values("executes")], dtype=np.bool_))


def _ordered(table: Table, order: tuple[str, ...]) -> Table:
    if not order:
        return table
    keys: list[Any] = [-np.nan_to_num(np.asarray(table.numbers(c), dtype=np.float64)) for c in reversed(order)]
    return table.take(np.lexsort(keys))


def _rows(profile: Profile, view: View, shown: Table, whole: Table) -> list[dict[str, Value]]:
    """Return the rows with what no table stores: shares, means, whether the kernel's op is capable, a bar."""
    rows = list(shown.rows())
    if "sum_ns" in whole:
        _add_shares(rows, _total(profile, whole))
    if view is KERNEL_VIEW:
        ops = profile.require("ops")
        capable = dict(zip(ops.values("op"), ops.values("tc_capable"), strict=True))
        for row in rows:
            row["op_capable"] = capable.get(row["op"])
    if view is ITERATION_VIEW:
        _add_bars(rows)
    return rows


def _total(profile: Profile, whole: Table) -> float:
    """Return the total for shares: all kernel time, or all host time for host ops."""
    kernels = 0.0 if whole.spec.name == "host_ops" else float(np.nansum(profile.require("kernels").numbers("sum_ns")))
    return kernels or float(np.nansum(whole.numbers("sum_ns")))


def _add_shares(rows: list[dict[str, Value]], total: float) -> None:
    for row in rows:
        spent, calls = row["sum_ns"], row.get("calls")
        known = spent is not None
        if row.get("share_pct") is None:
            row["share_pct"] = 100 * float(spent) / total if known and total > 0 else None  # type: ignore[arg-type]
        row["mean_ns"] = float(spent) / float(calls) if known and calls else None  # type: ignore[arg-type]


def _add_bars(rows: list[dict[str, Value]], width: int = 24) -> None:
    """Draw each step's kernel time, Tensor Core time first, on the scale of the longest counted step.

    A longer step that is not counted (warm-up) is cut at the end of the scale and marked with a plus sign.
    """
    counted = [row for row in rows if row["in_window"]] or rows
    longest = max(float(row["sum_ns"] or 0) for row in counted)
    for row in rows:
        row["bar"] = None
        if longest and row["sum_ns"] is not None and row["tc_ns"] is not None:
            on, unknown, whole = (float(row[c] or 0) / longest * width for c in ("tc_ns", "unknown_ns", "sum_ns"))
            ends = [max(0, min(round(x), width + 1)) for x in (on, whole - unknown, whole)]
            bar = "#" * ends[0] + "=" * (ends[1] - ends[0]) + "?" * (ends[2] - ends[1])
            row["bar"] = bar if len(bar) <= width else bar[:width] + "+"
