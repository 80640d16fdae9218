"""The document of a comparison, and what a comparison adds to the report of a single run.

Its tables for programs have a row for each figure, layer, op or kernel of each run. Run 0 is the first; others have
their change from it beside them. However many runs there are, the columns are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from tcprobe.report.compare import sections
from tcprobe.report.compare.screen import screen_of, verdicts
from tcprobe.report.compare.words import answer, letters
from tcprobe.report.document import (
    Added,
    Block,
    DataTable,
    Heading,
    LeftOut,
    Lines,
    Remark,
    Remarks,
    ReportSpec,
    Section,
    answer_of,
    data_of,
    folded,
    spelt,
    wrapped_line,
)
from tcprobe.schema.columns import Value
from tcprobe.schema.comparison import Change, ComparedPlace, ComparedRange, ComparedRow, Comparison, Verdict
from tcprobe.schema.records import as_dict

BOTH: Final = ("the other run", "this run")
ROWS_AGAINST: Final = 5


class CompareDocument(Struct, frozen=True):
    """A comparison as a `tcprobe.report.document.Document`; in it the runs are called A, B, ..."""

    comparison: Comparison  # two runs or more
    spec: ReportSpec  # what was asked for
    verdicts: tuple[Verdict, ...] = ()  # what became of the conditions

    def screen(self) -> list[Block]:
        """Return the first screen; unless that is all, figures, what changed, what else differs, notes."""
        screen: list[Block] = [screen_of(self.comparison, self._labels, self.spec.width)]
        if self.spec.brief and not self.spec.by:
            return screen
        first, others = self._tables()
        rest = LeftOut("--width 0 or --format csv shows all")
        return [*screen, *first, *_notes(self.comparison), *others, self._same(), rest]

    def page(self) -> list[Block]:
        """Return the same under a title, short enough for a pull request: details are folded."""
        first, others = self._tables()
        shown: Iterable[Block] = others if self.spec.by else map(folded, others)
        verdicts = filter(None, [sections.conditions(self.verdicts, self._labels)])
        title, notes = Heading("Comparison of runs", 1), _notes(self.comparison)
        screen = screen_of(self.comparison, self._labels)
        if not self.spec.web:
            return [title, screen, *verdicts, *first, *notes, *shown, self._same()]
        from tcprobe.report.compare import pictures

        drawn = pictures.drawn_of(self.comparison, self._labels)
        screen = replace(screen, first=pictures.first_of(self.comparison, self._labels))
        return [title, screen, *verdicts, *drawn, *first, *notes, *shown, self._same()]

    def data(self) -> dict[str, Any]:
        """Return runs, tables and conditions as raw values."""
        return data_of({**_data(self.comparison, self.spec), **held(self.verdicts)})

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder."""
        return every_table(self.comparison, self.spec)

    def table(self) -> DataTable:
        """Return the table asked for, by default the figures; UsageError if several were asked for."""
        return single(self.comparison, self.spec)

    @property
    def _labels(self) -> tuple[str, ...]:
        return letters(len(self.comparison.names))

    def _tables(self) -> tuple[list[Section], list[Section]]:
        """Return the tables of the first screen and those after it; with ``spec.by`` only those named there."""
        runs, labels, top, by = self.comparison, self._labels, self.spec.rows_for_people, self.spec.by
        every = sections.every_loss(runs, labels, top) if by else None
        found = {
            **{name: sections.rows(runs, labels, f"{name}s", top) for name in ("layer", "op", "kernel")},
            "renamed": sections.renamed(runs, labels, top),
            "place": sections.places(runs, labels, top),
            "range": sections.ranges(runs, labels, top),
            "loss": every or sections.losses(runs, labels, top),
            "setting": sections.settings(runs, labels),
            "figure": sections.figures(runs, labels, first=False),
        }
        first = sections.figures(runs, labels, first=True) if not by or "figure" in by else None
        return [*filter(None, [first])], [s for name in dict.fromkeys(by or found) if (s := found[name])]

    def _same(self) -> Lines:
        same = sections.unchanged(self.comparison)
        return Lines((wrapped_line(same),) if same else ())


def against(comparison: Comparison, verdicts: Sequence[Verdict] = (), top: int | None = None) -> Added:
    """Return what the report of the second of two runs says of the first one.

    Args:
        comparison: of the other run and this one, in this order.
        verdicts: what became of conditions; empty where none was asked.
        top: rows of each table; 0 is all, None is `ROWS_AGAINST` for people and all for programs.
    """
    rows, spec = ROWS_AGAINST if top is None else top or None, ReportSpec(top)
    found = [
        sections.figures(comparison, BOTH, first=True),
        sections.rows(comparison, BOTH, "layers" if comparison.layers else "ops", rows),
        sections.rows(comparison, BOTH, "kernels", rows),
        sections.renamed(comparison, BOTH, rows),
        sections.places(comparison, BOTH, rows),
        sections.ranges(comparison, BOTH, rows),
        sections.settings(comparison, BOTH),
    ]
    first, *others = answer(comparison, BOTH)
    titled = [replace(s, title=f"Against the other run: {_lower(s.title)}") for s in found if s]
    answered = answer_of([f"Against {comparison.names[0]}: {_lower(first)}", *others])
    blocks: tuple[Block, ...] = (
        answered,
        *titled,
        *_notes(comparison),
    )
    written = tuple(replace(table, name=f"against_{table.name}") for table in every_table(comparison, spec))
    data = {"against": _data(comparison, spec), **(held(verdicts) if verdicts else {})}
    return Added(blocks, data, written)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def held(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what became of each condition, for JSON: as typed, as read, and what it was held against."""
    trees = map(as_dict, verdicts)
    return {"conditions": [{**tree.pop("condition"), **tree} for tree in trees]}


def _notes(comparison: Comparison) -> list[Remarks]:
    remarks = tuple(Remark(note.level, note.message, note.remedy) for note in comparison.notes)
    return [Remarks(remarks)] if remarks else []


TABLE_OF: Final[dict[str, str]] = {
    "figure": "figures",
    "layer": "layers",
    "op": "ops",
    "kernel": "kernels",
    "renamed": "renamed",
    "place": "places",
    "range": "ranges",
    "loss": "losses",
    "setting": "settings",
}
"""What ``--by`` takes, and the tables that it stands for."""
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
PLACES: Final = ("place", "kind", *RUN, "kernel", "mean_ns", "change_ns")
RANGES: Final = ("domain", "name", *RUN, "calls", "mean_ns", "change_ns")
LOSSES: Final = ("name", "step", *RUN, "value")
SETTINGS: Final = ("setting", *RUN, "value")


def every_table(comparison: Comparison, spec: ReportSpec) -> Iterator[DataTable]:
    """Yield the tables for a folder: those in ``spec.by``, else all."""
    wanted = [TABLE_OF[name] for name in spec.by]
    return (table for table in _tables(comparison, spec.rows_for_programs) if not wanted or table.name in wanted)


def single(comparison: Comparison, spec: ReportSpec) -> DataTable:
    """Return the table in ``spec.by``, by default the figures; UsageError if several were asked for."""
    wanted = TABLE_OF[spec.one_table("figure")]
    return next(table for table in _tables(comparison, spec.rows_for_programs) if table.name == wanted)


def _tables(comparison: Comparison, top: int | None) -> Iterator[DataTable]:
    """Yield all tables; `top` limits layers, ops, kernels and losses, of each of which all runs are there."""
    yield DataTable("figures", FIGURES, partial(_figures, comparison))
    for name in ("layers", "ops", "kernels"):
        yield DataTable(name, ROWS, partial(_rows, comparison, getattr(comparison, name)[:top]))
    yield DataTable("renamed", RENAMED, partial(_renamed, comparison))
    yield DataTable("places", PLACES, partial(_places, comparison, comparison.places[:top]))
    yield DataTable("ranges", RANGES, partial(_ranges, comparison, comparison.ranges[:top]))
    yield DataTable("losses", LOSSES, partial(_losses, comparison, top))
    yield DataTable("settings", SETTINGS, partial(_settings, comparison))


def _figures(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    for figure in comparison.figures:
        for run, (side, change) in enumerate(zip(figure.sides, (None, *figure.changes), strict=True)):
            yield (
                figure.metric,
                figure.unit,
                run,
                comparison.names[run],
                *astuple(side),
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


def _places(comparison: Comparison, found: Sequence[ComparedPlace]) -> Iterator[tuple[Value, ...]]:
    for one in found:
        for run, (name, kernel, mean) in enumerate(zip(comparison.names, one.kernels, one.sides, strict=True)):
            yield (one.place, one.kind, run, name, kernel, mean, one.changes[run - 1] if run else None)


def _ranges(comparison: Comparison, found: Sequence[ComparedRange]) -> Iterator[tuple[Value, ...]]:
    for one in found:
        for run, (name, calls, mean) in enumerate(zip(comparison.names, one.calls, one.sides, strict=True)):
            yield (one.domain, one.name, run, name, calls, mean, one.changes[run - 1] if run else None)


def _losses(comparison: Comparison, top: int | None) -> Iterator[tuple[Value, ...]]:
    for loss in comparison.losses[:top]:
        for at, step in enumerate(loss.steps):
            for run, values in enumerate(loss.values):
                yield (loss.name, step, run, comparison.names[run], values[at])


def _settings(comparison: Comparison) -> Iterator[tuple[Value, ...]]:
    for what, values in comparison.settings:
        for run, value in enumerate(values):
            yield (what, run, comparison.names[run], value)


def _data(comparison: Comparison, spec: ReportSpec) -> dict[str, Any]:
    """Return runs and tables for JSON, changes of each run but the first; NA is None, times are ns.

    ``spec.by`` selects tables, ``spec.top`` limits their rows.
    """
    wanted = [TABLE_OF[name] for name in spec.by]
    runs = zip(comparison.names, comparison.profiles, strict=True)
    limits = {"figures": None, "renamed": None}
    tables = {
        name: [_plain(row) for row in getattr(comparison, name)[: limits.get(name, spec.rows_for_programs)]]
        for name in TABLE_OF.values()
        if name != "settings" and (not wanted or name in wanted)
    }
    return {
        "runs": [{"name": name, "metadata": as_dict(profile.metadata)} for name, profile in runs],
        "verdicts": verdicts(comparison),
        "per_step": comparison.per_step,
        **tables,
        **({"losses": spelt(tables["losses"])} if "losses" in tables else {}),
        "settings": [{"setting": what, "values": list(values)} for what, values in comparison.settings],
        "notes": [as_dict(note) for note in comparison.notes],
    }


def _plain(row: Struct) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in as_dict(row).items()}
