"""The tables of a sweep for people: combinations, what changes give, runs, curves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from tcprobe import formatting as f
from tcprobe.report.document import Cell, Section
from tcprobe.report.fields import Field, cell_of, field_of, name_of, number_of, section, sentence_of, share_of, time_of
from tcprobe.report.grid import table_lines
from tcprobe.report.sweep import words
from tcprobe.schema.changes.comparison import Side
from tcprobe.schema.changes.sweep import Combination, Curve, Factor, Gain, Plan, SweepResult, SweepRow

WIDE: Final = 32
"""Characters of a curve."""


def _side(text: str, name: str, unit: str, rank: int) -> Field:
    def cell(row: SweepRow) -> Cell:
        side: Side = getattr(row, name)
        ranged = side.value is None and side.low is not None
        shown = f.percents(side.low, side.high) if ranged else f.percent(side.value)
        return Cell(shown, side.value, unit)

    return cell_of(text, cell, rank, right=True)


def combinations(result: SweepResult, top: int | None = None, title: str = "", curve: int = 0) -> Section | None:
    """Return the table of the sweep: a row for each combination, with its first loss in so many characters."""
    plan = result.plan
    on_cpu = " (CPU)" if result.gpu_used is False else ""
    names = list(dict.fromkeys(name for row in result.rows for name in row.last))
    drawn = curves_by_combination(result, followed(result), curve) if curve else {}
    on_cpu_rank = 1 if result.gpu_used is False else 5
    fields = [
        *(field_of(factor.name, partial(_value, at)) for at, factor in _varied(plan)),
        time_of(f"step time{on_cpu}", lambda row: row.step.value),
        field_of("range", words.step_range, 2),
        cell_of("speed-up", lambda row: Cell(words.judged(row.speedup), row.speedup.ratio), right=True),
        field_of("95 %", lambda row: words.span(row.speedup), 3),
        field_of(
            result.unit or "throughput",
            lambda row: row.throughput.value,
            1 if result.measure == "throughput" else 4,
            lambda value: f.metric_text("throughput", value),
            right=True,
        ),
        _side("TC share", "tc_pct", "pct", 1),
        _side("GPU busy", "busy_pct", "pct", 3),
        number_of("peak memory", lambda row: row.peak_bytes, 3, "bytes"),
        field_of("predicted step", _predicted, on_cpu_rank),
        *([field_of(followed(result), lambda row: drawn.get(row.combination.number), 1)] if drawn else ()),
        *(field_of(f"last {name}", partial(_last, name), 3 + at, right=True) for at, name in enumerate(names)),
        field_of("beside its other changes", partial(_beside, result), 8),
    ]
    return section(title, fields, result.rows, top=top, drop_idle=True)


def _value(at: int, row: SweepRow | Combination) -> str:
    return (row if isinstance(row, Combination) else row.combination).values[at]


def _varied(plan: Plan) -> list[tuple[int, Factor]]:
    return [(at, factor) for at, factor in enumerate(plan.factors) if len(factor.values) > 1]


def _value_of_run(result: SweepResult, at: int, curve: Curve) -> str:
    return result.plan.combination(result.runs[curve.run].planned.combination).values[at]


def _beside(result: SweepResult, row: SweepRow) -> str:
    """Return what each change of a row gives that its others do not."""
    mine = [one for one in result.gains if (one.kind, one.combination) == ("beside", row.combination.number)]
    return ", ".join(f"{words.changes_text(result.plan, one)} {words.judged(one.speedup)}" for one in mine)


def _predicted(row: SweepRow) -> str | None:
    return None if row.predicted is None else f"{f.likely(row.predicted)} ({f.range_text(row.predicted)})"


def _last(name: str, row: SweepRow) -> str | None:
    if (last := row.last.get(name)) is None:
        return None
    return f.full_number(last.value, 4) if math.isfinite(last.value) else f.since_step(str(last.value), last.since)


def effects(result: SweepResult) -> Section | None:
    """Return what each change gives in the mean, and what pairs give beyond it."""
    rows = [gain for gain in result.gains if gain.kind in ("mean", "pair")]
    fields = (
        name_of("change", lambda gain: words.changes_text(result.plan, gain)),
        field_of("what", _against),
        cell_of("times as fast", lambda gain: words.judged(gain.speedup), right=True),
        field_of("95 %", lambda gain: words.span(gain.speedup)),
        number_of("settings", lambda gain: gain.contexts, 1),
    )
    lacking = any(gain.speedup.why == "no repeats" for gain in rows)
    notes = ["(?): runs of each combination tell it from noise: --repeat 2 or more"] if lacking else []
    return section("What each change gives, in the mean over the other settings", fields, rows, notes)


def _against(gain: Gain) -> str:
    return "beyond the product of both" if gain.kind == "pair" else f"instead of {gain.changes[0].instead_of}"


def plan_lines(plan: Plan, width: int | None) -> list[str]:
    """Return the combinations of a plan as a table, each with its runs."""
    fields = [
        number_of("combination", lambda one: one.number),
        *(field_of(factor.name, partial(_value, at)) for at, factor in enumerate(plan.factors)),
        number_of("runs", lambda one: sum(run.combination == one.number for run in plan.runs)),
    ]
    return table_lines(fields, plan.combinations, width)


def runs(result: SweepResult) -> Section | None:
    """Return the runs, and how each ended."""
    fields = (
        name_of("run", lambda run: run.planned.folder),
        field_of("state", lambda run: run.state),
        time_of("step time", lambda run: run.figures and run.figures.step.value),
        share_of("TC share", lambda run: run.figures and run.figures.tc_pct.value),
        sentence_of("why", lambda run: run.why),
    )
    return section("Runs", fields, result.runs, drop_idle=True)


def curves(result: SweepResult, every: bool = False, names: Collection[str] = ()) -> Section | None:
    """Return the curves of some names, of all by default, each on a scale of its own; of a combination one, or all."""
    names = names or {curve.name for curve in result.curves}
    shown = {name: _shown_runs(result, name) for name in names}
    chosen = [curve for curve in result.curves if curve.name in names and (every or curve.run in shown[curve.name])]
    scales = {curve.name: _scale([one for one in chosen if one.name == curve.name]) for curve in chosen}
    plan = result.plan
    fields = (
        field_of("logged", lambda curve: curve.name),
        *(field_of(factor.name, partial(_value_of_run, result, at)) for at, factor in _varied(plan)),
        *([number_of("run", lambda curve: result.runs[curve.run].planned.repeat)] if every else ()),
        field_of("curve", lambda curve: words.sparkline(curve.values, *scales[curve.name], WIDE)),
        field_of("first", lambda curve: f.full_number(curve.values[0], 4), 2, right=True),
        field_of("last", lambda curve: f.full_number(curve.values[-1], 4), right=True),
        number_of("step", lambda curve: curve.steps[-1], 3),
    )
    left = sum(curve.name in names for curve in result.curves) - len(chosen)
    notes = [f"({left} of further runs; --top 0 shows all)"] if left else []
    return section("Losses and accuracies, step by step", fields, chosen, notes)


def curves_by_combination(result: SweepResult, name: str, width: int) -> dict[int, str]:
    """Return the curve of one name that stands for each combination, all on one scale."""
    chosen = [curve for curve in result.curves if curve.name == name and curve.run in _shown_runs(result, name)]
    scale = _scale(chosen)
    lines = {curve.run: words.sparkline(curve.values, *scale, width) for curve in chosen}
    return {result.runs[run].planned.combination: line for run, line in lines.items()}


def followed(result: SweepResult) -> str:
    """Return the name whose curves stand on the first screen: of the first that strays, else the first; or nothing."""
    names = (*(stray.name for stray in result.strays), *(curve.name for curve in result.curves))
    return next(iter(names), "")


def _shown_runs(result: SweepResult, name: str) -> set[int]:
    """Return a run of each combination that logged a name: the first, or the first that strays."""
    strays = {stray.run for stray in result.strays if stray.name == name}
    mine = [curve.run for curve in result.curves if curve.name == name]
    mine.sort(key=lambda run: (run in strays, -run))  # of each combination the last one counts
    first = {result.runs[run].planned.combination: run for run in mine}
    return set(first.values())


def _scale(curves_: Sequence[Curve]) -> tuple[float, float]:
    """Return the least and the largest value that are finite."""
    values = [value for curve in curves_ for value in curve.values if math.isfinite(value)]
    return min(values, default=0.0), max(values, default=0.0)
