"""The tables of a run's report: for people the rows of a view, with what no table stores (shares, means, bars).

For programs those of the contract, with the columns of `tcprobe.schema.tables` in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.report.document import DataTable, Section
from tcprobe.report.fields import Field, more, section
from tcprobe.report.run import views
from tcprobe.report.run.time_views import View
from tcprobe.report.run.words import FEWEST_PHASES, step_known, summed
from tcprobe.schema.columns import ColumnKind, Table, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import (
    DERIVED,
    GRADIENTS,
    HOST_OPS,
    KERNEL_COUNTERS,
    MESSAGES,
    METRICS,
    REPORTED,
    STEPS,
    TABLES,
)

ALWAYS: Final = ("summary", "kernels", "ops", "layers", "iterations", "devices", "bad_sizes")
WRITTEN: Final = tuple(
    t.name for t in (*DERIVED, MESSAGES, HOST_OPS, STEPS, METRICS, GRADIENTS, KERNEL_COUNTERS, REPORTED)
)
PANDAS_DTYPES: Final[dict[ColumnKind, str]] = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean"}
WITHOUT_STEP: Final = {
    "FLOP/step": "FLOP/execution",
    "calls/step": "calls/execution",
    "Matrix multiplications of a step": "Matrix multiplications",
}
"""Headings and titles where no step is known."""
OF_CAPTURE: Final = {"a step": "time", "of the step": "of the time captured"}
"""Headings where the capture stands for a step."""
BAR: Final = 24  # characters


def written(profile: Profile, by: Iterable[str] = ()) -> Iterator[Table]:
    """Yield the tables to write to a folder: seven whenever they exist, the others only if they have rows.

    Phases are written only of a run that has several: a single one is the whole run.

    An absent table (the kernels of a CPU run) is not written: an empty one would mean that there were none.
    With `by`, only the summary and the tables named there.
    """
    asked = {views.BY[name].table for name in by}
    for name in (name for name in WRITTEN if not asked or name in {"summary", *asked}):
        table, fewest = profile.table(name), FEWEST_PHASES if name == "phases" else 1
        if table is not None and (name in ALWAYS or len(table) >= fewest):
            yield table


def data_table(table: Table, top: int | None = None) -> DataTable:
    """Return a table of the contract, or its first `top` rows."""
    names = tuple(column.name for column in table.spec.columns)
    return DataTable(table.spec.name, names, partial(_rows, table, names, top))


def _rows(table: Table, names: tuple[str, ...], top: int | None) -> Iterable[tuple[Value, ...]]:
    return zip(*(table.values(name)[:top] for name in names), strict=True)


def pandas_dtypes(table: str) -> dict[str, str]:
    """Return the dtypes with which ``pandas.read_csv`` restores a table from its CSV.

    Raises:
        KeyError: there is no such table.
    """
    return {c.name: PANDAS_DTYPES[c.kind] for c in TABLES[table].columns}


def view_section(profile: Profile, view: View, top: int | None) -> Section | None:
    """Return the first `top` rows of a view, or all if None; None if it has no rows."""
    table = _ordered(profile.require(view.table), view.order)
    total = len(table)
    if not total:
        return None
    start = _start(table, top) if view is views.ITERATION_VIEW else 0
    stop = total if top is None else min(start + top, total)
    rows = _view_rows(profile, view, table.take(_chosen(table, view, start, stop)), table)
    captured = profile.waiting is not None and profile.waiting.length == "capture"
    words = {**(OF_CAPTURE if captured else {}), **({} if step_known(profile) else WITHOUT_STEP)}
    left = total - len(rows)
    of = "" if not left else f"{'top ' if view.order else ''}{len(rows):,} of "
    times = summed(profile, each_gpu="device" in table) if _has_times(table) else ""
    over = f"; {times}" if times else ""
    title = f"{words.get(view.title, view.title)} ({of}{total:,}{over})"
    fields = (_kept(_renamed(field, words), table, view.order) for field in view.fields)
    return section(title, fields, rows, more(left), drop_idle=True)


def _kept(field: Field, table: Table, order: tuple[str, ...]) -> Field:
    """Return a field that is never dropped where the rows are sorted by it: the first of `order` that is known."""
    first = next((name for name in order if not np.isnan(np.asarray(table.numbers(name), np.float64)).all()), None)
    if first is None or field.head.column != first:
        return field
    return replace(field, head=replace(field.head, rank=0))


def _renamed(field: Field, words: dict[str, str]) -> Field:
    text = words.get(field.head.text)
    return replace(field, head=replace(field.head, text=text)) if text else field


_NO_SUMS: Final = frozenset(
    (
        *("host_ops", "iterations", "phases", "waits", "gaps", "copies", "units", "stretches", "step_ranges"),
        *("range_times", "advice", "ranks", "messages", "gradients"),
    )
)


def _has_times(table: Table) -> bool:
    """Return whether a table has kernel times that are sums over steps."""
    name = table.spec.name
    times = "kernel_ns" if name == "gemms" else "sum_ns"
    if name in _NO_SUMS:
        return False
    return not np.isnan(np.asarray(table.numbers(times), dtype=np.float64)).all()


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


def _ordered(table: Table, order: tuple[str, ...]) -> Table:
    """Return the rows in order, without ops that were traced but do not run."""
    if "executes" in table:
        table = table.take(~table.names("executes").among("no"))
    if not order:
        return table
    keys: list[Any] = [-np.nan_to_num(np.asarray(table.numbers(c), dtype=np.float64)) for c in reversed(order)]
    return table.take(np.lexsort(keys))


def _view_rows(profile: Profile, view: View, shown: Table, whole: Table) -> list[dict[str, Value]]:
    """Return the rows with what no table stores: shares, means, whether the kernel's op is capable, a bar."""
    rows = list(shown.rows())
    if "sum_ns" in whole:
        _add_shares(rows, _total(profile, whole))
    if view is views.KERNEL_VIEW:
        ops = profile.require("ops")
        capable = dict(zip(ops.values("op"), ops.values("tc_capable"), strict=True))
        for row in rows:
            row["op_capable"] = capable.get(row["op"])
    if view is views.ITERATION_VIEW:
        _add_bars(rows)
    return rows


def _total(profile: Profile, whole: Table) -> float:
    """Return the total for shares: all kernel time, or all host time for host ops."""
    kernels = 0.0 if whole.spec.name == "host_ops" else float(np.nansum(profile.require("kernels").numbers("sum_ns")))
    return kernels or float(np.nansum(whole.numbers("sum_ns")))


def _add_shares(rows: list[dict[str, Any]], total: float) -> None:
    for row in rows:
        spent, calls = row["sum_ns"], row.get("calls")
        if row.get("share_pct") is None:
            row["share_pct"] = 100 * spent / total if spent is not None and total > 0 else None
        row["mean_ns"] = spent / calls if spent is not None and calls else None


def _add_bars(rows: list[dict[str, Any]]) -> None:
    """Draw each step's kernel time, Tensor Core time first, on the scale of the longest counted step.

    A longer step that is not counted (warm-up) is cut at the end of the scale and marked with a plus sign.
    """
    counted = [row for row in rows if row["in_window"]] or rows
    longest = max(row["sum_ns"] or 0 for row in counted)
    for row in rows:
        row["bar"] = None
        if longest and row["sum_ns"] is not None and row["tc_ns"] is not None:
            on, unknown, whole = ((row[c] or 0) / longest * BAR for c in ("tc_ns", "unknown_ns", "sum_ns"))
            ends = [max(0, min(round(x), BAR + 1)) for x in (on, whole - unknown, whole)]
            bar = "#" * ends[0] + "=" * (ends[1] - ends[0]) + "?" * (ends[2] - ends[1])
            row["bar"] = bar if len(bar) <= BAR else bar[:BAR] + "+"
