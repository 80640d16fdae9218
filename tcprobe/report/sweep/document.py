"""The document of a sweep: a first screen with verdict, table and curves; all tables; raw values for programs.

The tables of a sweep for people: combinations, what changes give, runs, curves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from tcprobe import formatting as f
from tcprobe.report.document import (
    Block,
    Cell,
    DataTable,
    Heading,
    LeftOut,
    ReportSpec,
    Screen,
    Section,
    TextLine,
    TextPart,
    data_of,
    folded,
    line_of,
    spelt,
)
from tcprobe.report.fields import Field, cell_of, field_of, name_of, number_of, section, sentence_of, share_of, time_of
from tcprobe.report.grid import table_lines, text_lines
from tcprobe.report.sweep import words
from tcprobe.rules.words import listed
from tcprobe.schema.columns import Value
from tcprobe.schema.comparison import Side
from tcprobe.schema.records import as_dict
from tcprobe.schema.sweep import Combination, Curve, Factor, Gain, Plan, Speedup, SweepResult, SweepRow
from tcprobe.visible import shown

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


WIDTH: Final = 80
UNLIMITED: Final = 1 << 30
MOST_LINES: Final = 22
FEWEST_ROWS: Final = 4
CURVE: Final = 8
GIVEN: Final = ("folder", "fastest", "measure", "unit", "other_work", "steps", "gpu_used", "gpus", "target")


class SweepDocument(Struct, frozen=True):
    """A sweep as a `tcprobe.report.document.Document`."""

    result: SweepResult
    spec: ReportSpec

    def screen(self) -> list[Block]:
        """Return the first screen; unless that is all, every table."""
        first = _screen(self.result, self.spec.width)
        rest = LeftOut("--width 0 or --format csv shows all")
        return [first] if self.spec.brief else [first, *self._sections(), rest]

    def page(self) -> list[Block]:
        """Return the same under a title; details are folded."""
        first, *others = self._sections()
        title, screen = Heading(f"Sweep of {self.result.plan.workload}", 1), _screen(self.result, None)
        if not self.spec.web:
            return [title, screen, first, *map(folded, others)]
        from tcprobe.report.sweep import pictures

        screen = replace(screen, first=pictures.first_of(self.result, tuple(_head(self.result, UNLIMITED))))
        drawn = filter(None, (pictures.speeds_of(self.result), pictures.curves_of_runs(self.result)))
        return [title, screen, first, *drawn, *map(folded, others)]

    def data(self) -> dict[str, Any]:
        """Return the verdict, the plan and all tables as raw values."""
        result = self.result
        given = {name: getattr(result, name) for name in GIVEN}
        curves = [{**as_dict(curve), "run": result.runs[curve.run].planned.folder} for curve in result.curves]
        tables = {name: spelt(rows) for name, rows in (_tables(result) | {"losses": curves}).items()}
        return data_of({**given, "verdict": words.answer(result), "plan": as_dict(result.plan), **tables})

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder."""
        for name, rows in _tables(self.result).items():
            columns = tuple(rows[0]) if rows else EMPTY[name]
            yield DataTable(name, columns, partial(_values, rows))

    def table(self) -> DataTable:
        """Return the table of combinations."""
        return next(iter(self.tables()))

    def _sections(self) -> list[Section]:
        result = self.result
        found = [
            combinations(result, title="Combinations"),
            effects(result),
            curves(result, every=self.spec.top == 0),
            runs(result),
        ]
        return [one for one in found if one is not None]


def _screen(result: SweepResult, width: int | None) -> Screen:
    """Return the first screen: at most 22 lines of 80 columns."""
    room = min(width or WIDTH, WIDTH)
    head = [line_of(TextPart(text, "strong" if not at else "dim")) for at, text in enumerate(_head(result, room))]
    said = [
        line_of(TextPart(line, "plain" if number else "strong"))
        for number, sentence in enumerate(words.answer(result))
        for line in f.wrapped(shown(sentence), room)
    ]
    rows, metric = MOST_LINES - len(head) - len(said) - 6, followed(result)
    table = _laid(combinations(result, max(rows, FEWEST_ROWS)), room)
    drawn = _laid(curves(result, names=[metric]), room)[: len(result.rows) + 1] if metric else []
    end = [line_of(TextPart("Next  ", "strong"), "report --all has every table; each run is a run folder of its own")]
    if sum(len(part) + 1 for part in (head, said, table, drawn, end)) - 1 > MOST_LINES:
        table, drawn = _laid(combinations(result, max(rows, FEWEST_ROWS), curve=CURVE), room), []
    lines: list[TextLine] = []
    for part in filter(None, (head, said, table, drawn, end)):
        lines += [line_of(""), *part] if lines else part
    return Screen(tuple(lines))


def _head(result: SweepResult, room: int) -> Iterator[str]:
    plan = result.plan
    varied = [factor.name for factor in plan.factors if len(factor.values) > 1]
    repeats = max((run.repeat for run in plan.runs), default=1)
    many = f.many(len(plan.combinations), "combination")
    each = f", {f.many(repeats, 'run')} each" if repeats > 1 else ""
    yield f.shorten(
        shown(f"{plan.workload}: {many} of {listed(varied)}{each}" if varied else f"{plan.workload}{each}"), room
    )
    gpus = listed(result.gpus) or ("no GPU: a CPU run" if result.gpu_used is False else "no GPU is known to have run")
    steps = f"; steps {result.steps}" if result.steps else ""
    predicted = f"; predicted for {result.target}" if result.target else ""
    yield f.shorten(shown(f"{gpus}{steps}{predicted}"), room)


def _laid(table: Section | None, room: int) -> list[TextLine]:
    if table is None:
        return []
    head, *rows = [shown(line) for line in text_lines(table, room)] or [""]
    return [
        line_of(TextPart(head, "dim")),
        *map(line_of, rows),
        *(line_of(TextPart(note, "dim")) for note in table.notes),
    ]


SIDES: Final = {
    "step_time_ns": "step",
    "throughput": "throughput",
    "tc_kernel_time_pct": "tc_pct",
    "gpu_busy_pct": "busy_pct",
}
Rows = list[dict[str, Value]]
EMPTY: Final = {"changes": ("kind", "change"), "losses": ("name", "step", "run", "value"), "strays": ("run", "name")}
"""Columns of tables that may have no rows."""


def _values(rows: Rows) -> Iterator[tuple[Value, ...]]:
    return (tuple(row.values()) for row in rows)


def _tables(result: SweepResult) -> dict[str, Rows]:
    """Return the tables for programs."""
    plan, folders = result.plan, [run.planned.folder for run in result.runs]
    of_curves: Rows = [
        {"name": curve.name, "step": step, "run": folders[curve.run], "value": value}
        for curve in result.curves
        for step, value in zip(curve.steps, curve.values, strict=True)
    ]
    of_runs: Rows = [
        {**as_dict(run.planned), **_settings(plan, run.planned.combination), "state": run.state, "why": run.why or None}
        for run in result.runs
    ]
    return {
        "combinations": [_row(result, row) for row in result.rows],
        "changes": [_gain(gain) for gain in result.gains],
        "runs": of_runs,
        "losses": of_curves,
        "strays": [{**as_dict(stray), "run": folders[stray.run]} for stray in result.strays],
    }


def _settings(plan: Plan, combination: int) -> dict[str, Value]:
    names = (f"setting.{factor.name}" for factor in plan.factors)
    return dict(zip(names, plan.combination(combination).values, strict=True))


def _row(result: SweepResult, row: SweepRow) -> dict[str, Value]:
    number, predicted = row.combination.number, row.predicted
    told: dict[str, Value] = {"combination": number, **_settings(result.plan, number)}
    told |= {"baseline": number == result.plan.baseline, "fastest": number in result.fastest, "runs": row.runs}
    for name, field in SIDES.items():
        ends = zip(("", "_low", "_high", "_reason"), astuple(getattr(row, field)), strict=True)
        told |= {f"{name}{end}": value for end, value in ends}
    told |= {"throughput_unit": result.unit, "peak_memory_bytes": row.peak_bytes, **_speedup(row.speedup)}
    for end in ("mid", "low", "high"):
        told[f"predicted_{end}_ns"] = None if predicted is None else getattr(predicted, end)
    names = dict.fromkeys(name for each in result.rows for name in each.last)
    return told | {f"last.{name}": row.last[name].value if name in row.last else None for name in names}


def _gain(gain: Gain) -> dict[str, Value]:
    told: dict[str, Value] = {"kind": gain.kind, "combination": gain.combination}
    told["change"] = ", ".join(f"{change.factor}={change.value}" for change in gain.changes)
    told["instead_of"] = ", ".join(f"{change.factor}={change.instead_of}" for change in gain.changes)
    return told | {**_speedup(gain.speedup), "settings": gain.contexts}


def _speedup(speedup: Speedup) -> dict[str, Value]:
    ends = {"times_as_fast": speedup.ratio, "times_low": speedup.low, "times_high": speedup.high}
    return {"difference": speedup.difference, **ends, "why": speedup.why}
