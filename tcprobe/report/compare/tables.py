"""The tables of a comparison for programs: a row for each figure, layer, op or kernel of each run.

Run 0 is the first; others have their change from it beside them. However many runs there are, the columns are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from tcprobe.errors import UsageError
from tcprobe.report.compare.spec import TABLE_OF, CompareSpec
from tcprobe.report.document import DataTable
from tcprobe.schema.changes.comparison import Change, ComparedRow, Comparison
from tcprobe.schema.columns import Value

RUN: Final = ("run", "run_name")
FIGURES: Final = (
    *("metric", "unit", *RUN, "value", "low", "high", "reason", "difference", "change", "change_pct"),
    *("change_low_pct", "change_high_pct", "why", "less_is_better"),
)
ROWS: Final = (
    *("name", "op_type", "layer", "pass", "source", *RUN, "time_ns", "change_ns", "tc_ns", "uses_tc", "launches"),
    "per_step",
)
RENAMED: Final = ("op", *RUN, "place", "kernel", "kernels_ns")
LOSSES: Final = ("name", "step", *RUN, "value")
SETTINGS: Final = ("setting", *RUN, "value")


def every_table(comparison: Comparison, spec: CompareSpec) -> Iterator[DataTable]:
    """Yield the tables for a folder: those in ``spec.by``, else all."""
    wanted = [TABLE_OF[name] for name in spec.by]
    for table in _tables(comparison, spec.rows_for_programs):
        if not wanted or table.name in wanted:
            yield table


def single(comparison: Comparison, spec: CompareSpec) -> DataTable:
    """Return one table: the one in ``spec.by``, by default the figures.

    Raises:
        UsageError: several tables were asked for; a CSV holds one.
    """
    if len(spec.by) > 1:
        raise UsageError(
            f"one CSV holds one table, and --by asks for {len(spec.by)} ({', '.join(spec.by)})",
            "give --by once, or write all tables with -o FOLDER",
        )
    wanted = TABLE_OF[spec.by[0] if spec.by else "figure"]
    return next(table for table in _tables(comparison, spec.rows_for_programs) if table.name == wanted)


def _tables(comparison: Comparison, top: int | None) -> Iterator[DataTable]:
    """Yield all tables; `top` limits layers, ops, kernels and losses, of each of which all runs are there."""
    yield DataTable("figures", FIGURES, lambda: _figures(comparison))
    for name, found in (("layers", comparison.layers), ("ops", comparison.ops), ("kernels", comparison.kernels)):
        yield DataTable(name, ROWS, partial(_rows, comparison, found[:top]))
    yield DataTable("renamed", RENAMED, lambda: _renamed(comparison))
    yield DataTable("losses", LOSSES, lambda: _losses(comparison, top))
    yield DataTable("settings", SETTINGS, lambda: _settings(comparison))


def _figures(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    for figure in comparison.figures:
        for run, (side, change) in enumerate(zip(figure.sides, (None, *figure.changes), strict=True)):
            told = (side.value, side.low, side.high, side.reason)
            yield (
                *(figure.metric, figure.unit, run, comparison.names[run], *told),
                *_change(change),
                figure.less_is_better,
            )


def _change(change: Change | None) -> tuple[Value, ...]:
    if change is None:
        return (None,) * 6
    ends = (None, None) if change.interval is None else (change.interval.low_pct, change.interval.high_pct)
    return (change.difference, change.delta, change.pct, *ends, change.why)


def _rows(comparison: Comparison, found: Sequence[ComparedRow]) -> Iterator[tuple[Value, ...]]:
    for row in found:
        for run, name in enumerate(comparison.names):
            yield (
                *(row.name, row.op_type, row.layer, row.pass_, row.source, run, name, row.sides[run]),
                row.changes[run - 1] if run else None,
                *(values[run] if values else None for values in (row.tc_ns, row.uses_tc, row.launches)),
                comparison.per_step,
            )


def _renamed(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    for one in comparison.renamed:
        for place, kernels, spent in (("before", one.before, one.before_ns), ("after", one.after, one.after_ns)):
            for kernel in kernels:
                yield (one.op, one.run, comparison.names[one.run], place, kernel, spent)


def _losses(comparison: Comparison, top: int | None) -> Iterator[tuple[Value, ...]]:
    for loss in comparison.losses[:top]:
        for at, step in enumerate(loss.steps):
            for run, values in enumerate(loss.values):
                yield (loss.name, step, run, comparison.names[run], values[at])


def _settings(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    for what, values in comparison.settings:
        for run, value in enumerate(values):
            yield (what, run, comparison.names[run], value)
