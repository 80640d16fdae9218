"""The tables of a comparison as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from tcprobe import formatting as f
from tcprobe.report.compare.words import change_text, grounds, time_change
from tcprobe.report.document import Cell, Section
from tcprobe.report.fields import Field, cell_of, field_of, name_of, number_of, section, source_of, time_of
from tcprobe.report.run.causes import GROUP_WORDS
from tcprobe.report.run.figures import label, value_text
from tcprobe.report.run.words import kind_label
from tcprobe.rules.words import listed
from tcprobe.schema.comparison import (
    SPREADS,
    ComparedFigure,
    ComparedPlace,
    ComparedRow,
    Comparison,
    Loss,
    Side,
    Verdict,
)
from tcprobe.schema.kinds import CAUSE_GROUPS

FIRST: Final = (
    *("step_time_ns", "throughput", "wall_ns", "gpu_busy_pct", "idle_pct", "peak_memory_bytes", "tc_kernel_time_pct"),
    *("tc_capable_time_pct", "kernel_time_ns", "mfu_pct", "hfu_pct", "achieved_tflop_per_s", "peak_pct"),
)
"""Figures of the first table; the others stand in a second one."""
LABELS: Final = {
    "wall_ns": "the whole run",
    "peak_memory_bytes": "peak of GPU memory in use",
    "copies": "copies and sets",
    **{f"cause_{group}_ns": GROUP_WORDS[group] for group in CAUSE_GROUPS},
}
SPREAD: Final = "(in brackets beside a median: from the 10th to the 90th percentile)"
MEANS: Final = (
    f"(times from '{GROUP_WORDS['well']}' to '{GROUP_WORDS['idle']}', and of waiting, are the mean over the GPUs;"
    " others are their sum)"
)
SUMS: Final = frozenset(
    ("kernel_time_ns", "tc_time_ns", "communication_kernel_time_ns", "memory_time_ns", "kernels", "copies")
)
KEPT: Final = 3  # names of kernels in one cell


def _of_runs(
    labels: Sequence[str], side: Callable[[int, Any], Cell], change: Callable[[int, Any], Cell]
) -> Iterator[Field]:
    """Yield a column for the first run, and for each other one its own and that of its change."""
    for run, name in enumerate(labels):
        yield cell_of(name, partial(side, run), right=True)
        if run:
            yield cell_of("change" if len(labels) == 2 else f"change of {name}", partial(change, run), wraps=True)


def figures(comparison: Comparison, labels: Sequence[str], first: bool) -> Section | None:
    """Return the first figures side by side, or the others; None if there are none."""
    shown = [one for one in comparison.figures if (one.metric in FIRST) == first]
    causes = any(one.metric.startswith("cause_") for one in shown)
    summed = causes or any(one.metric in SUMS for one in shown)
    sums = f" (sums are of {_whole(comparison)})" if summed and not (first and comparison.per_step) else ""
    notes = {
        SPREAD: any(one.metric in SPREADS and side.low != side.high for one in shown for side in one.sides),
        MEANS: causes and any(len(table) > 1 for one in comparison.profiles if (table := one.table("devices"))),
    }
    fields = (
        cell_of("figure", lambda one: Cell(_label(one), one.metric), least=24),
        *_of_runs(labels, _side, _change),
    )
    said = [*(note for note, needed in notes.items() if needed), *_missing(shown, labels)]
    return section(f"{'Figures' if first else 'Further figures'}{sums}", fields, shown, said)


def _whole(comparison: Comparison) -> str:
    return "a step" if comparison.per_step else "the whole captures"


def _label(figure: ComparedFigure) -> str:
    named = LABELS.get(figure.metric) or label(figure.metric)
    return f"{named}, {figure.unit}" if figure.metric == "throughput" and figure.unit else named


def _side(run: int, figure: ComparedFigure) -> Cell:
    side = figure.sides[run]
    return Cell(_side_text(figure.metric, side), side.value, figure.unit)


def _change(run: int, figure: ComparedFigure) -> Cell:
    change = figure.changes[run - 1]
    return Cell(change_text(figure.metric, change), change.delta, figure.unit)


def _side_text(metric: str, side: Side) -> str:
    """Return a figure with its range; beside a median how far single steps lie from it (``62.0 ms (61.0-66.0 ms)``)."""
    if not side.is_known:
        return f.NA
    if metric not in SPREADS or side.value is None or side.low is None or side.high is None:
        return value_text(metric, {"value": side.value, "low": side.low, "high": side.high, "text": None})
    middle, low, high = (f.metric_text(metric, number) for number in (side.value, side.low, side.high))
    figure, _, unit = low.partition(" ")
    between = f"{figure}-{high}" if unit == high.partition(" ")[2] else f"{low} to {high}"
    return middle if low == high else f"{middle} ({between})"


def _missing(shown: Sequence[ComparedFigure], labels: Sequence[str]) -> Iterator[str]:
    """Yield which figures a run lacks, and why: those of one reason together."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        for name, side in zip(labels, one.sides, strict=True):
            if not side.is_known:
                lacking.setdefault((name, side.reason or "no reason given"), []).append(_label(one))
    for (name, reason), metrics in lacking.items():
        yield f"(not known of {name}: {', '.join(metrics)}: {reason})"


def rows(comparison: Comparison, labels: Sequence[str], what: str, top: int | None) -> Section | None:
    """Return layers, ops or kernels whose time changed, largest change first; None if none of them did."""
    found: tuple[ComparedRow, ...] = getattr(comparison, what)
    changed = [row for row in found if any(row.changes)]
    others = {
        "did not change": sum(all(delta == 0.0 for delta in row.changes) for row in found),
        "not known of each run": sum(None in row.changes and not any(row.changes) for row in found),
    }
    unchanged = "".join(f", {many:,} {why}" for why, many in others.items() if many)
    fields = (
        name_of(what.removesuffix("s"), lambda row: row.name),
        field_of("type", lambda row: row.op_type, 4),
        field_of("pass", lambda row: row.pass_, 3),
        *_of_runs(labels, _time, _time_change),
        cell_of("Tensor Cores", _tensor_cores, 2),
        cell_of("launches", lambda row: _course(_rounded(n, 3) for n in row.launches), 5, right=True),
        *([cell_of("each", lambda row: _course(_each(row)), 4, right=True)] if what == "kernels" else []),
        source_of(6, lambda row: row.source),
    )
    of = f"{len(changed[:top]):,} of {len(changed):,}{unchanged}; time in {_whole(comparison)}"
    return section(f"{what.capitalize()} that changed most ({of})", fields, changed, top=top, drop_idle=True)


def _time(run: int, row: ComparedRow) -> Cell:
    return Cell(f.duration(row.sides[run]), row.sides[run], "ns")


def _time_change(run: int, row: ComparedRow) -> Cell:
    delta = row.changes[run - 1]
    return Cell(time_change(row.sides[0], row.sides[run], delta), delta, "ns")


def _course(texts: Iterable[str]) -> Cell:
    """Return what is so in each run, once where all are alike."""
    each = list(texts)
    text = " -> ".join(each) if len(set(each)) > 1 else each[0] if each else f.NA
    return Cell(text, text)


def _each(row: ComparedRow) -> list[str]:
    """Return the mean time of a kernel in each run that launched it."""
    runs = zip(row.sides, row.launches, strict=True)
    return [f.duration(spent / count) for spent, count in runs if spent is not None and count]


def _tensor_cores(row: ComparedRow) -> Cell:
    """Say whether the Tensor Cores take it in each run that has it: of a layer or op, the share of its time."""
    each = zip(row.uses_tc, row.tc_ns, row.sides, strict=False)
    taken = [uses or (tc_ns is not None and f.percent(100.0 * tc_ns / spent)) for uses, tc_ns, spent in each if spent]
    return _course(text for text in taken if text)


def renamed(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return the kernels that took the place of others; None if none did."""
    found = comparison.renamed
    several = len(labels) > 2
    fields = (
        cell_of("op", lambda one: Cell(one.op or "(several)", one.op), 1, least=20),
        cell_of(f"kernels of {labels[0]} alone", lambda one: _kernels(one.before), least=24),
        time_of("time", lambda one: one.before_ns),
        *([cell_of("run", lambda one: labels[one.run])] if several else []),
        cell_of(
            "took their place" if several else f"kernels of {labels[1]} alone",
            lambda one: _kernels(one.after),
            least=24,
        ),
        time_of("time", lambda one: one.after_ns),
    )
    title = f"Kernels that took the place of others ({len(found[:top]):,} of {len(found):,})"
    return section(title, fields, found, top=top)


def _kernels(names: Sequence[str]) -> Cell:
    left = len(names) - KEPT
    text = ", ".join(names[:KEPT]) + (f" and {left:,} more" if left > 0 else "")
    return Cell(text, text)


def ranges(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return the NVTX ranges whose length changed, what changed most first; None if there are none."""
    changed = [one for one in comparison.ranges if any(one.changes)]
    fields = (
        name_of("range", lambda one: one.name),
        field_of("domain", lambda one: one.domain, 2),
        *_of_runs(labels, _time, _time_change),
        cell_of("ranges", lambda one: _course(f.count(calls) for calls in one.calls), 1, right=True),
    )
    title = f"Ranges that changed most ({len(changed[:top]):,} of {len(changed):,}; mean time of one on the host)"
    return section(title, fields, changed, top=top, drop_idle=True)


def places(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return the kernels of the unit that the runs repeat, by their place in it; None if they repeat none."""
    changed = [one for one in comparison.places if any(one.changes)]
    fields = (
        number_of("place", lambda one: one.place),
        field_of("kind", lambda one: kind_label(one.kind)),
        *_of_runs(labels, _time, _time_change),
        *(name_of(f"kernel of {label}", partial(_kernel_at, run), run) for run, label in enumerate(labels)),
    )
    of = f"{len(changed[:top]):,} of {len(changed):,} that changed, of {len(comparison.places):,} in the unit"
    return section(f"Kernels by their place in the unit that repeats ({of})", fields, changed, top=top)


def _kernel_at(run: int, one: ComparedPlace) -> str | None:
    return one.kernels[run]


def losses(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return what the workloads logged: at the last step that they have in common, and last of all; None if nothing."""
    found = [(loss.name, *_in_common(loss), *zip(loss.last, loss.since, strict=True)) for loss in comparison.losses]
    fields = (
        field_of("figure", 0, least=16),
        number_of("step in common", 1),
        *(_value_of(f"{name} at that step", n) for n, name in enumerate(labels, 2)),
        *(
            cell_of(f"last of {name}", partial(_last, n), 1, right=True)
            for n, name in enumerate(labels, 2 + len(labels))
        ),
    )
    title = f"Logged by the workloads ({len(found[:top])} of {len(found)})"
    return section(title, fields, found, top=top)


def _in_common(loss: Loss) -> tuple[float | None, ...]:
    """Return the last step that all runs logged, and its value in each."""
    held = [row for row in zip(loss.steps, *loss.values, strict=True) if None not in row]
    return held[-1] if held else (None,) * (1 + len(loss.values))


def every_loss(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return every step in which the workloads logged a figure; None if they logged nothing in common."""
    lines = [(one.name, *row) for one in comparison.losses for row in zip(one.steps, *one.values, strict=True)]
    fields = (
        field_of("figure", 0, least=16),
        number_of("step", 1),
        *(_value_of(name, n) for n, name in enumerate(labels, 2)),
    )
    title = f"Logged, step by step ({len(lines[:top])} of {len(lines)})"
    return section(title, fields, lines, top=top)


def _value_of(text: str, column: int, rank: int = 0) -> Field:
    return field_of(text, column, rank, _rounded, right=True)


def _last(column: int, row: Sequence[Any]) -> Cell:
    value, since = row[column]
    return Cell(f.since_step(_rounded(value), since), value)


def _rounded(value: float | None, significant: int = 6) -> str:
    return f.NA if value is None else f.full_number(value, significant)


def settings(comparison: Comparison, labels: Sequence[str]) -> Section | None:
    """Return the settings that differ between the runs; None if all are the same."""
    rows = [(what, *values) for what, values in comparison.settings]
    fields = (
        field_of("setting", 0, show=_setting),
        *(field_of(name, n, least=16) for n, name in enumerate(labels, 1)),
    )
    return section("What differs between the runs", fields, rows)


def _setting(what: str) -> str:
    variable = what.removeprefix("environment.")
    return variable if variable != what else what.replace("_", " ")


def unchanged(comparison: Comparison) -> str | None:
    """Return which kinds of rows have no change at all; None if there are none of these."""
    kinds = {"layers": comparison.layers, "ops": comparison.ops, "kernels": comparison.kernels}
    same = [what for what, found in kinds.items() if found and all(d == 0.0 for row in found for d in row.changes)]
    return f"The times of {listed(same)} are the same." if same else None


def conditions(verdicts: Sequence[Verdict], labels: Sequence[str]) -> Section | None:
    """Return what became of each condition; None if none was asked."""
    fields = (
        cell_of("condition", lambda verdict: verdict.condition.text.strip()),
        cell_of("run", lambda verdict: labels[verdict.run]),
        cell_of("outcome", lambda verdict: verdict.outcome),
        cell_of("found", grounds, wraps=True),
    )
    return section("Conditions", fields, verdicts)
