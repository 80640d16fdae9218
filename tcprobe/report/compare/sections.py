"""The tables of a comparison as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead, Section
from tcprobe.report.compare.amounts import change_text, time_change
from tcprobe.report.compare.spec import joined
from tcprobe.report.run.causes.words import GROUP_WORDS
from tcprobe.report.run.headline import label, value_text
from tcprobe.schema.changes.comparison import ComparedFigure, ComparedRow, Comparison, Loss, Side
from tcprobe.schema.changes.condition import SPREADS
from tcprobe.schema.kinds import CAUSE_GROUPS

FIRST: Final = (
    *("step_time_ns", "throughput", "wall_ns", "gpu_busy_pct", "idle_pct", "peak_memory_bytes", "tc_kernel_time_pct"),
    *("tc_capable_time_pct", "kernel_time_ns", "achieved_tflop_per_s", "peak_pct"),
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


def figures(comparison: Comparison, labels: Sequence[str], first: bool) -> Section | None:
    """Return the first figures side by side, or the others; None if there are none."""
    shown = [one for one in comparison.figures if (one.metric in FIRST) == first]
    if not shown:
        return None
    summed = any(one.metric in SUMS or one.metric.startswith("cause_") for one in shown)
    sums = f" (sums are of {_whole(comparison)})" if summed and not (first and comparison.per_step) else ""
    title = f"{'Figures' if first else 'Further figures'}{sums}"
    heads = (ColumnHead("figure", least=24), *_heads(labels))
    cells = tuple((Cell(_label(one), one.metric), *_figure_cells(one)) for one in shown)
    spread = any(one.metric in SPREADS and side.low != side.high for one in shown for side in one.sides)
    means = any(one.metric.startswith("cause_") for one in shown) and _several_gpus(comparison)
    notes = (*((SPREAD,) if spread else ()), *((MEANS,) if means else ()), *_missing(shown, labels))
    return Section(title, heads, cells, notes)


def _several_gpus(comparison: Comparison) -> bool:
    return any(len(table) > 1 for one in comparison.profiles if (table := one.table("devices")) is not None)


def _whole(comparison: Comparison) -> str:
    return "a step" if comparison.per_step else "the whole captures"


def _heads(labels: Sequence[str]) -> Iterator[ColumnHead]:
    """Yield a column for the first run, and for each other one its own and that of its change."""
    yield ColumnHead(labels[0], right=True)
    for name in labels[1:]:
        yield ColumnHead(name, right=True)
        yield ColumnHead("change" if len(labels) == 2 else f"change of {name}", wraps=True)


def _label(figure: ComparedFigure) -> str:
    named = LABELS.get(figure.metric) or label(figure.metric)
    return f"{named}, {figure.unit}" if figure.metric == "throughput" and figure.unit else named


def _figure_cells(figure: ComparedFigure) -> Iterator[Cell]:
    yield _side_cell(figure, figure.sides[0])
    for side, change in zip(figure.sides[1:], figure.changes, strict=True):
        yield _side_cell(figure, side)
        yield Cell(change_text(figure.metric, change), change.delta, figure.unit)


def _side_cell(figure: ComparedFigure, side: Side) -> Cell:
    return Cell(_side_text(figure.metric, side), side.value, figure.unit)


def _side_text(metric: str, side: Side) -> str:
    """Return a figure with its range; beside a median how far single steps lie from it (``62.0 ms (61.0-66.0 ms)``)."""
    if side.value is None and side.low is None:
        return f.NA
    if metric not in SPREADS or side.value is None or side.low is None or side.high is None:
        return value_text(metric, {"value": side.value, "low": side.low, "high": side.high, "text": None})
    middle, low, high = (f.metric_text(metric, number) for number in (side.value, side.low, side.high))
    alike = low.partition(" ")[2] == high.partition(" ")[2]
    between = f"{low.partition(' ')[0]}-{high}" if alike else f"{low} to {high}"
    return middle if low == high else f"{middle} ({between})"


def _missing(shown: Sequence[ComparedFigure], labels: Sequence[str]) -> Iterator[str]:
    """Yield which figures a run lacks, and why: those of one reason together."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for one in shown:
        for name, side in zip(labels, one.sides, strict=True):
            if side.value is None and side.low is None:
                lacking.setdefault((name, side.reason or "no reason given"), []).append(_label(one))
    for (name, reason), metrics in lacking.items():
        yield f"(not known of {name}: {', '.join(metrics)}: {reason})"


def rows(
    comparison: Comparison, labels: Sequence[str], what: str, found: Sequence[ComparedRow], top: int | None
) -> Section | None:
    """Return layers, ops or kernels whose time changed, largest change first; None if none of them did."""
    changed = [row for row in found if any(row.changes)]
    if not changed:
        return None
    shown = changed[:top]
    columns = [(head, [cell(row) for row in shown]) for head, cell in _columns(what, labels)]
    kept = [(head, cells) for head, cells in columns if {c.text for c in cells} - {f.NA}]
    many = f"{len(shown):,} of {len(changed):,}{_others(found)}"
    left = len(changed) - len(shown)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    title = f"{what.capitalize()} that changed most ({many}; time in {_whole(comparison)})"
    return Section(title, tuple(head for head, _ in kept), tuple(zip(*(c for _, c in kept), strict=True)), notes)


def _others(found: Sequence[ComparedRow]) -> str:
    """Say how many rows did not change, and of how many that is not known."""
    same = sum(all(delta == 0.0 for delta in row.changes) for row in found)
    unknown = sum(None in row.changes and not any(row.changes) for row in found)
    told = ((same, "did not change"), (unknown, "not known of each run"))
    return "".join(f", {many:,} {what}" for many, what in told if many)


_Column = tuple[ColumnHead, Callable[[ComparedRow], Cell]]


def _columns(what: str, labels: Sequence[str]) -> Iterator[_Column]:
    yield ColumnHead(what.removesuffix("s"), least=24), lambda row: Cell(row.name, row.name)
    yield ColumnHead("type", rank=4), lambda row: Cell(f.any_text(row.op_type), row.op_type)
    yield ColumnHead("pass", rank=3), lambda row: Cell(f.any_text(row.pass_), row.pass_)
    for number, head in enumerate(_heads(labels)):
        run, is_change = (number + 1) // 2, number > 0 and number % 2 == 0
        yield head, (_change_cell(run) if is_change else _time_cell(run))
    yield ColumnHead("Tensor Cores", rank=2), _tensor_cores
    yield ColumnHead("launches", rank=5, right=True), _launches
    yield ColumnHead("source", rank=6, least=20, path=True), lambda row: Cell(f.any_text(row.source), row.source)


def _time_cell(run: int) -> Callable[[ComparedRow], Cell]:
    return lambda row: Cell(f.duration(row.sides[run]), row.sides[run], "ns")


def _change_cell(run: int) -> Callable[[ComparedRow], Cell]:
    def cell(row: ComparedRow) -> Cell:
        delta = row.changes[run - 1]
        return Cell(time_change(row.sides[0], row.sides[run], delta), delta, "ns")

    return cell


def _tensor_cores(row: ComparedRow) -> Cell:
    """Say whether the Tensor Cores take it in each run: of a layer or op, the share of its time."""
    each = [_taken(*of_run) for of_run in zip(row.uses_tc, row.tc_ns, row.sides, strict=False)]
    told = [taken for taken in each if taken != f.NA]  # a run that has it not says nothing of it
    text = " -> ".join(told) if len(set(told)) > 1 else (told[0] if told else f.NA)
    return Cell(text, text)


def _taken(uses: str | None, tc_ns: float | None, whole: float | None) -> str:
    if not whole or (uses is None and tc_ns is None):
        return f.NA
    if uses is None and tc_ns is not None:
        return f.percent(100.0 * tc_ns / whole)
    return str(uses)


def _launches(row: ComparedRow) -> Cell:
    told = [f.NA if n is None else f.full_number(n, 3) for n in row.launches]
    text = " -> ".join(told) if len(set(told)) > 1 else (told[0] if told else f.NA)
    return Cell(text, text)


def renamed(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return the kernels that took the place of others; None if none did."""
    found = comparison.renamed
    if not found:
        return None
    shown = found[:top]
    several = len(labels) > 2
    heads = [ColumnHead("op", rank=1, least=20), ColumnHead(f"kernels of {labels[0]} alone", least=24)]
    heads += [ColumnHead("time", right=True), *([ColumnHead("run")] if several else [])]
    heads += [ColumnHead("took their place" if several else f"kernels of {labels[1]} alone", least=24)]
    heads += [ColumnHead("time", right=True)]
    cells: tuple[tuple[Cell | str, ...], ...] = tuple(
        (
            Cell(one.op or "(several)", one.op),
            _kernels(one.before),
            Cell(f.duration(one.before_ns), one.before_ns, "ns"),
            *([labels[one.run]] if several else []),
            _kernels(one.after),
            Cell(f.duration(one.after_ns), one.after_ns, "ns"),
        )
        for one in shown
    )
    left = len(found) - len(shown)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    title = f"Kernels that took the place of others ({len(shown):,} of {len(found):,})"
    return Section(title, tuple(heads), cells, notes)


def _kernels(names: Sequence[str]) -> Cell:
    left = len(names) - KEPT
    text = ", ".join(names[:KEPT]) + (f" and {left:,} more" if left > 0 else "")
    return Cell(text, text)


def losses(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return what the workloads logged: at the last step that they have in common, and last of all; None if nothing."""
    found = comparison.losses[:top]
    if not found:
        return None
    common = tuple(ColumnHead(f"{name} at that step", right=True) for name in labels)
    last = tuple(ColumnHead(f"last of {name}", right=True, rank=1) for name in labels)
    heads = (ColumnHead("figure", least=16), ColumnHead("step in common", right=True), *common, *last)
    left = len(comparison.losses) - len(found)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    title = f"Logged by the workloads ({len(found)} of {len(comparison.losses)})"
    return Section(title, heads, tuple(map(_loss, found)), notes)


def _loss(loss: Loss) -> tuple[Cell, ...]:
    at = max((n for n in range(len(loss.steps)) if all(v[n] is not None for v in loss.values)), default=None)
    step = None if at is None else loss.steps[at]
    there = [None if at is None else values[at] for values in loss.values]
    numbers = (Cell(_logged(value), value) for value in (*there, *loss.last))
    return (Cell(loss.name, loss.name), Cell(f.count(step), step), *numbers)


def _logged(value: float | None) -> str:
    return f.NA if value is None else f.full_number(value, 6)


def every_loss(comparison: Comparison, labels: Sequence[str], top: int | None) -> Section | None:
    """Return every step in which the workloads logged a figure; None if they logged nothing in common."""
    lines = [
        (Cell(one.name, one.name), Cell(f.count(step), step), *(Cell(_logged(v[n]), v[n]) for v in one.values))
        for one in comparison.losses
        for n, step in enumerate(one.steps)
    ]
    if not lines:
        return None
    heads = (ColumnHead("figure", least=16), ColumnHead("step", right=True))
    runs = tuple(ColumnHead(name, right=True) for name in labels)
    left = len(lines) - len(lines[:top])
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    return Section(
        f"Logged, step by step ({len(lines[:top])} of {len(lines)})", heads + runs, tuple(lines[:top]), notes
    )


def settings(comparison: Comparison, labels: Sequence[str]) -> Section | None:
    """Return the settings that differ between the runs; None if all are the same."""
    if not comparison.settings:
        return None
    heads = (ColumnHead("setting"), *(ColumnHead(name, least=16) for name in labels))
    lines = tuple((_setting(what), *map(f.any_text, values)) for what, values in comparison.settings)
    return Section("What differs between the runs", heads, lines)


def _setting(what: str) -> str:
    return what.removeprefix("environment.") if what.startswith("environment.") else what.replace("_", " ")


def unchanged(comparison: Comparison) -> str | None:
    """Return which kinds of rows have no change at all; None if there are none of these."""
    kinds = {"layers": comparison.layers, "ops": comparison.ops, "kernels": comparison.kernels}
    same = [what for what, found in kinds.items() if found and all(d == 0.0 for row in found for d in row.changes)]
    return f"The times of {joined(same)} are the same." if same else None
