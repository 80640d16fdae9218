"""The tables of a comparison: figures, layers, ops, kernels, kernels that changed name, losses, settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead, Section
from tcprobe.report.compare.words import called, change_text, label, side_text
from tcprobe.schema.changes.comparison import ComparedFigure, ComparedRow, Comparison, Loss

LOSS_ROWS: Final = 10
NAMES: Final = 3  # of kernels in one cell


def figures(comparison: Comparison) -> Section:
    """Return the headline figures side by side, with the change of each run from the first."""
    names = called(comparison)
    heads = [ColumnHead("figure"), ColumnHead(names[0], right=True)]
    for name in names[1:]:
        heads += [ColumnHead(name, right=True), ColumnHead("change", right=True)]
    rows = tuple(_figure(one, comparison) for one in comparison.figures)
    return Section(f"Figures (against {names[0]})", tuple(heads), rows)


def _figure(one: ComparedFigure, comparison: Comparison) -> tuple[Cell | str, ...]:
    cells: list[Cell | str] = [label(one, comparison), _side(one, 0)]
    for run, change in enumerate(one.changes, 1):
        cells += [_side(one, run), Cell(change_text(one, change), change.pct, "pct")]
    return tuple(cells)


def _side(one: ComparedFigure, run: int) -> Cell:
    side = one.sides[run]
    return Cell(side_text(one, side), side.value, one.unit)


def rows(comparison: Comparison, what: str, found: Sequence[ComparedRow], top: int | None) -> Section | None:
    """Return layers, ops or kernels, largest change first; None where there are none."""
    changed = [row for row in found if any(change for change in row.changes)]
    if not changed:
        return None
    shown = changed[:top]
    names, each = called(comparison), "a step" if comparison.per_step else "of the capture"
    heads = [ColumnHead(what, least=30), ColumnHead(names[0], right=True)]
    for name in names[1:]:
        heads += [ColumnHead(name, right=True), ColumnHead("change", right=True)]
    tells = any(row.uses_tc for row in shown)
    heads += [ColumnHead("uses TC", rank=1)] * tells
    sources = any(row.source for row in shown)
    heads += [ColumnHead("source", rank=2, least=20, path=True)] * sources
    cells = tuple(_row(row, tells, sources) for row in shown)
    left = len(changed) - len(shown)
    more = (f"({left:,} more; --top 0 shows all)",) if left else ()
    return Section(
        f"{what.capitalize()}s that changed ({len(changed):,}; kernel time {each})", tuple(heads), cells, more
    )


def _row(row: ComparedRow, tells: bool, sources: bool) -> tuple[Cell | str, ...]:
    cells: list[Cell | str] = [Cell(row.name, row.name), _time(row.sides[0])]
    for side, change in zip(row.sides[1:], row.changes, strict=True):
        cells += [_time(side), Cell(signed(change), change, "ns")]
    if tells:
        said = [one or f.NA for one in row.uses_tc]
        cells.append(said[0] if len(set(said)) == 1 else " -> ".join(said))
    if sources:
        cells.append(f.any_text(row.source))
    return tuple(cells)


def _time(ns: float | None) -> Cell:
    return Cell("not run" if ns == 0 else f.duration(ns), ns, "ns")


def signed(ns: float | None) -> str:
    """Return a change of time with its sign."""
    if ns is None:
        return f.NA
    return "0 ns" if ns == 0 else f"{'-' if ns < 0 else '+'}{f.duration(abs(ns))}"


def renamed(comparison: Comparison, top: int | None) -> Section | None:
    """Return the ops whose kernels changed name; None where there are none."""
    found = comparison.renamed
    if not found:
        return None
    several = len(comparison.names) > 2
    heads = (
        *((ColumnHead("in"),) if several else ()),
        ColumnHead("op or layer", least=28), ColumnHead("left", least=30), ColumnHead("time", right=True),
        ColumnHead("came", least=30), ColumnHead("time now", right=True),
    )  # fmt: skip
    cells = tuple(
        (
            *((called(comparison)[one.run],) if several else ()),
            one.op or "(the whole run)", _names(one.before), Cell(f.duration(one.before_ns), one.before_ns, "ns"),
            _names(one.after), Cell(f.duration(one.after_ns), one.after_ns, "ns"),
        )
        for one in found[:top]
    )  # fmt: skip
    left = len(found) - len(cells)
    return Section(
        f"Kernels that changed name ({len(found):,})",
        heads,
        cells,
        (f"({left:,} more; --top 0 shows all)",) if left else (),
    )


def _names(kernels: Sequence[str]) -> str:
    more = f", and {len(kernels) - NAMES} more" if len(kernels) > NAMES else ""
    return ", ".join(kernels[:NAMES]) + more if kernels else f.NA


def losses(comparison: Comparison, top: int | None) -> list[Section]:
    """Return what the workloads logged, side by side: some of the steps, and the last value."""
    return [_loss(one, comparison, top) for one in comparison.losses]


def _loss(one: Loss, comparison: Comparison, top: int | None) -> Section:
    count = len(one.steps)
    most = count if top is None else max(1, min(top, LOSS_ROWS))
    at = sorted({round(place * (count - 1) / max(1, most - 1)) for place in range(most)}) if count else []
    heads = (ColumnHead("step", right=True), *(ColumnHead(name, right=True) for name in called(comparison)))
    cells: list[tuple[Cell | str, ...]] = [
        (Cell(str(one.steps[row]), one.steps[row]), *(_value(values[row]) for values in one.values)) for row in at
    ]
    cells.append(("last", *(_value(last) for last in one.last)))
    left = count - len(at)
    note = (f"({left:,} more steps; --top 0 shows all)",) if left > 0 else ()
    return Section(f"Logged: {one.name}", heads, tuple(cells), note)


def _value(value: float | None) -> Cell:
    return Cell(f.NA if value is None else f.full_number(value, 6), value)


def settings(comparison: Comparison) -> Section | None:
    """Return what differs between the runs; None where nothing that is recorded does."""
    if not comparison.settings:
        return None
    heads = (ColumnHead("what"), *(ColumnHead(name, least=16) for name in called(comparison)))
    cells = tuple((what, *(f.any_text(value) for value in values)) for what, values in comparison.settings)
    return Section("What differs", heads, cells)
