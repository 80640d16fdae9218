"""The document of a sweep: a first screen with verdict, table and curves; all tables; raw values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from tcprobe import formatting as f
from tcprobe.report.document import (
    Block,
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
from tcprobe.report.grid import text_lines
from tcprobe.report.sweep import pictures, sections, words
from tcprobe.rules.words import listed
from tcprobe.schema.changes.sweep import Gain, Plan, Speedup, SweepResult, SweepRow
from tcprobe.schema.columns import Value
from tcprobe.schema.records import as_dict
from tcprobe.visible import shown

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
            sections.combinations(result, title="Combinations"),
            sections.effects(result),
            sections.curves(result, every=self.spec.top == 0),
            sections.runs(result),
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
    rows, followed = MOST_LINES - len(head) - len(said) - 6, sections.followed(result)
    table = _laid(sections.combinations(result, max(rows, FEWEST_ROWS)), room)
    curves = _laid(sections.curves(result, names=[followed]), room)[: len(result.rows) + 1] if followed else []
    end = [line_of(TextPart("Next  ", "strong"), "report --all has every table; each run is a run folder of its own")]
    if sum(len(part) + 1 for part in (head, said, table, curves, end)) - 1 > MOST_LINES:
        table, curves = _laid(sections.combinations(result, max(rows, FEWEST_ROWS), curve=CURVE), room), []
    lines: list[TextLine] = []
    for part in filter(None, (head, said, table, curves, end)):
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
