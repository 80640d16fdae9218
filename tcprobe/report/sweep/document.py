"""The document of a sweep: a first screen with verdict, table and curves; all tables; raw values for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple

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
from tcprobe.report.sweep import sections, words
from tcprobe.rules.words import listed
from tcprobe.schema.changes.comparison import Side
from tcprobe.schema.changes.sweep import Gain, Speedup, SweepResult
from tcprobe.schema.columns import Value
from tcprobe.schema.records import as_dict, plain
from tcprobe.visible import shown

WIDTH: Final = 80
MOST_LINES: Final = 22
FEWEST_ROWS: Final = 4
CURVE: Final = 8


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
        title = Heading(f"Sweep of {self.result.plan.workload}", 1)
        return [title, _screen(self.result, None), first, *map(folded, others)]

    def data(self) -> dict[str, Any]:
        """Return plan, rows, runs and curves as raw values."""
        return data_of(_data(self.result))

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder."""
        return _tables(self.result)

    def table(self) -> DataTable:
        """Return the table of combinations."""
        return next(iter(_tables(self.result)))

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
    rows = MOST_LINES - len(head) - len(said) - 6
    table = _laid(sections.combinations(result, max(rows, FEWEST_ROWS), curve=CURVE), room)
    end = [line_of(TextPart("Next  ", "strong"), "report --all has every table; each run is a run folder of its own")]
    lines: list[TextLine] = []
    for part in filter(None, (head, said, table, end)):
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


SPEEDUP: Final = ("difference", "times_as_fast", "times_low", "times_high", "why")


def _speedup(speedup: Speedup) -> tuple[Value, ...]:
    return (speedup.difference, speedup.ratio, speedup.low, speedup.high, speedup.why)


def _tables(result: SweepResult) -> Iterator[DataTable]:
    settings = tuple(f"setting.{factor.name}" for factor in result.plan.factors)
    names = tuple(dict.fromkeys(name for row in result.rows for name in row.last))
    sides = [f"{name}{end}" for name in SIDES for end in ("", "_low", "_high", "_reason")]
    columns = ("combination", *settings, "baseline", "runs", *sides, "throughput_unit", "peak_memory_bytes")
    predicted = ("predicted_ns", "predicted_low_ns", "predicted_high_ns", "predicted_on")
    last = tuple(f"last.{name}" for name in names)
    yield DataTable("combinations", (*columns, *SPEEDUP, *predicted, *last), partial(_rows, result, names))
    changes = ("kind", "combination", "change", "instead_of", *SPEEDUP, "settings")
    yield DataTable("changes", changes, partial(_changes, result))
    yield DataTable(
        "runs", ("run", "combination", *settings, "repeat", "state", "why", "step_time_ns"), partial(_runs, result)
    )
    yield DataTable("losses", ("name", "step", "run", "combination", "value"), partial(_losses, result))
    yield DataTable("strays", ("run", "name", "kind", "step", "value"), partial(_strays, result))
    clocks = tuple(result.clocks[0]) if result.clocks else ("run", "when")
    yield DataTable("gpus", clocks, lambda: (tuple(row.values()) for row in result.clocks))


SIDES: Final = {
    "step_time_ns": "step",
    "throughput": "throughput",
    "tc_kernel_time_pct": "tc_pct",
    "gpu_busy_pct": "busy_pct",
}


def _rows(result: SweepResult, names: tuple[str, ...]) -> Iterator[tuple[Value, ...]]:
    for row in result.rows:
        sides: list[Side] = [getattr(row, field) for field in SIDES.values()]
        predicted = row.predicted
        yield (
            row.combination.number,
            *row.combination.values,
            row.combination.number == result.plan.baseline,
            row.runs,
            *(value for side in sides for value in astuple(side)),
            result.unit,
            row.peak_bytes,
            *_speedup(row.speedup),
            *((None,) * 4 if predicted is None else (predicted.mid, predicted.low, predicted.high, result.target)),
            *(row.last[name].value if name in row.last else None for name in names),
        )


def _changes(result: SweepResult) -> Iterator[tuple[Value, ...]]:
    """Yield what each change gives: beside the others of its row, alone, in the mean; and what pairs give beyond."""
    for kind, number, gain in _gains(result):
        yield (kind, number, f"{gain.factor}={gain.value}", gain.instead_of, *_speedup(gain.speedup), 1)
    for effect in result.effects:
        change = f"{effect.factor}={effect.value}"
        yield ("mean", None, change, effect.instead_of, *_speedup(effect.speedup), effect.contexts)
    for pair in result.pairs:
        change = ", ".join(f"{name}={value}" for name, value in zip(pair.factors, pair.values, strict=True))
        yield ("pair", None, change, None, *_speedup(pair.speedup), pair.contexts)


def _gains(result: SweepResult) -> Iterator[tuple[str, int, Gain]]:
    yield from (("beside its others", row.combination.number, gain) for row in result.rows for gain in row.gains)
    yield from (("alone", result.fastest[0], gain) for gain in result.alone)


def _runs(result: SweepResult) -> Iterator[tuple[Value, ...]]:
    for run in result.runs:
        planned, figures = run.planned, run.figures
        values = result.plan.combination(planned.combination).values
        step = None if figures is None else figures.step.value
        yield (planned.folder, planned.combination, *values, planned.repeat, run.state, run.why or None, step)


def _losses(result: SweepResult) -> Iterator[tuple[Value, ...]]:
    for curve in result.curves:
        planned = result.runs[curve.run].planned
        for step, value in zip(curve.steps, curve.values, strict=True):
            yield (curve.name, step, planned.folder, planned.combination, value)


def _strays(result: SweepResult) -> Iterator[tuple[Value, ...]]:
    for stray in result.strays:
        yield (result.runs[stray.run].planned.folder, stray.name, stray.kind, stray.step, stray.value)


GIVEN: Final = ("measure", "unit", "other_work", "steps", "gpu_used", "gpus", "target", "effects", "pairs")


def _data(result: SweepResult) -> dict[str, Any]:
    """Return all for JSON; of a run only what its own folder does not say."""
    tree = {name: plain(getattr(result, name)) for name in GIVEN}
    named = [factor.name for factor in result.plan.factors]
    rows = [as_dict(row) for row in result.rows]
    for row in rows:
        row |= {"settings": dict(zip(named, row.pop("combination")["values"], strict=True))}
    folders = [run.planned.folder for run in result.runs]
    data: dict[str, Any] = {
        "sweep": result.folder,
        "verdict": {"text": words.answer(result), "fastest": result.fastest, "alone": plain(result.alone)},
        **tree,
        "plan": as_dict(result.plan),
        "rows": [{"number": one.combination.number, **row} for one, row in zip(result.rows, rows, strict=True)],
        "runs": [{**as_dict(run.planned), "state": run.state, "why": run.why or None} for run in result.runs],
        "losses": [{**as_dict(curve), "run": folders[curve.run]} for curve in result.curves],
        "strays": [{**as_dict(stray), "run": folders[stray.run]} for stray in result.strays],
        "gpu_states": list(result.clocks),
    }
    return {name: spelt(value) for name, value in data.items()}
