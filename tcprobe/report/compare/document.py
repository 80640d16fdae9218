"""The document of a comparison: the answer, figures, what changed most, losses, settings, notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os.path import commonpath
from typing import Any, Final

from tcprobe import __version__
from tcprobe.errors import UsageError
from tcprobe.report.blocks import Block, Facts, Folded, Heading, LeftOut, Lines, Remark, Remarks, Section, wrapped_line
from tcprobe.report.compare import sections
from tcprobe.report.compare.words import answer, called, verdict_text
from tcprobe.report.document import DataTable
from tcprobe.schema.changes.comparison import ComparedRow, Comparison
from tcprobe.schema.changes.condition import Verdict
from tcprobe.schema.columns import Value
from tcprobe.schema.profile import Profile

ROWS: Final = 10
BY: Final = ("figure", "layer", "op", "kernel", "renamed", "loss", "setting")
"""What ``--by`` takes: the tables of a comparison."""


@dataclass(frozen=True, slots=True)
class ComparisonDocument:
    """A comparison, as a `tcprobe.report.document.Document`.

    Attributes:
        comparison: the runs side by side.
        verdicts: what became of the conditions that were asked.
        top: rows per table; 0 is all, None is 10 for people and all for programs.
        by: the tables to show; empty: all.
    """

    comparison: Comparison
    verdicts: tuple[Verdict, ...] = ()
    top: int | None = None
    by: tuple[str, ...] = ()

    def screen(self) -> list[Block]:
        """Return the answer, figures and what changed."""
        rest = LeftOut("--width 0 or --format csv shows all")
        return [self._runs(), self._answer(), *self._tables(), self._notes(), rest]

    def page(self) -> list[Block]:
        """Return the same for a pull request: all but the figures is folded, unless asked for by name."""
        first, *rest = self._tables() or [Section("")]
        folded: Iterable[Block] = rest if self.by else [Folded(one.title, (replace(one, title=""),)) for one in rest]
        names = " and ".join((", ".join(self.comparison.names[:-1]), self.comparison.names[-1]))
        held = [Lines(tuple(wrapped_line(verdict_text(one, called(self.comparison))) for one in self.verdicts))]
        judged = held if self.verdicts else []
        return [Heading(f"tcprobe: {names}", 2), self._answer(), *judged, first, self._notes(), *folded, self._runs()]

    def data(self) -> dict[str, Any]:
        """Return everything as raw values."""
        one, limit = self.comparison, self.top or None
        return {
            "schema": 1,
            "tcprobe": __version__,
            "runs": [{"name": n, "paths": p.metadata.paths} for n, p in zip(one.names, one.profiles, strict=True)],
            "per_step": one.per_step,
            "figures": [dataclasses.asdict(figure) for figure in one.figures],
            "layers": [dataclasses.asdict(row) for row in one.layers[:limit]],
            "ops": [dataclasses.asdict(row) for row in one.ops[:limit]],
            "kernels": [dataclasses.asdict(row) for row in one.kernels[:limit]],
            "renamed": [dataclasses.asdict(row) for row in one.renamed[:limit]],
            "losses": [dataclasses.asdict(loss) for loss in one.losses],
            "settings": dict(one.settings),
            "conditions": [as_json(verdict) for verdict in self.verdicts],
            "notes": [dataclasses.asdict(note) for note in one.notes],
        }

    def tables(self) -> Iterator[DataTable]:
        """Return each table asked for, by default all that have rows."""
        for name in self.by or BY:
            made = TABLES[name](self.comparison)
            if self.by or name == "figure" or any(True for _ in made.rows()):
                yield made

    def table(self) -> DataTable:
        """Return the table asked for, by default the figures; UsageError if several were asked for."""
        if len(self.by) > 1:
            raise UsageError(
                f"one CSV holds one table, and --by asks for {len(self.by)}", "give --by once, or -o FOLDER for all"
            )
        return TABLES[self.by[0] if self.by else "figure"](self.comparison)

    def _runs(self) -> Facts:
        paths = [_path(profile.metadata.paths) or name for name, profile in self._pairs()]
        return Facts(tuple(zip(called(self.comparison), paths, strict=True)))

    def _pairs(self) -> Iterator[tuple[str, Profile]]:
        yield from zip(self.comparison.names, self.comparison.profiles, strict=True)

    def _answer(self) -> Lines:
        told = [answer(self.comparison, run) for run in range(1, len(self.comparison.names))]
        lines = tuple(wrapped_line(said, "strong" if at == 0 else "plain") for at, (said, _) in enumerate(told))
        remedy = next((todo for _, todo in told if todo), None)
        more = (wrapped_line(f"What to do: {remedy}."),) if remedy else ()
        return Lines((*lines, *more))

    def _tables(self) -> list[Section]:
        one, limit = self.comparison, ROWS if self.top is None else self.top or None
        made: dict[str, list[Section | None]] = {
            "figure": [sections.figures(one)],
            "layer": [sections.rows(one, "layer", one.layers, limit)],
            "op": [sections.rows(one, "op", one.ops, limit)] if "op" in self.by or not one.layers else [],
            "kernel": [sections.rows(one, "kernel", one.kernels, limit)],
            "renamed": [sections.renamed(one, limit)],
            "loss": list(sections.losses(one, limit)),
            "setting": [sections.settings(one)],
        }
        return [section for name in self.by or BY for section in made[name] if section is not None]

    def _notes(self) -> Remarks:
        return Remarks(tuple(Remark(note.level, note.message, note.remedy) for note in self.comparison.notes))


def _path(paths: Sequence[str]) -> str:
    """Return the path of a run: its file, or the folder of its files."""
    return paths[0] if len(paths) == 1 else commonpath(paths) if paths else ""


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Return what became of a condition as raw values."""
    found = dataclasses.asdict(verdict)
    return {**found.pop("condition"), **found}


def _figures(one: Comparison) -> DataTable:
    each = ("value", "low", "high")
    columns = [
        "metric",
        "unit",
        "run",
        "name",
        *each,
        "difference",
        "delta",
        "change_pct",
        "low_pct",
        "high_pct",
        "why",
    ]

    def rows() -> Iterator[Sequence[Value]]:
        for figure in one.figures:
            for run, side in enumerate(figure.sides):
                change = figure.changes[run - 1] if run else None
                interval = None if change is None else change.interval
                told: tuple[Value, ...] = (None,) * 6
                if change is not None:
                    ends = (None, None) if interval is None else (interval.low_pct, interval.high_pct)
                    told = (change.difference, change.delta, change.pct, *ends, change.why)
                yield (figure.metric, figure.unit, run, one.names[run], side.value, side.low, side.high, *told)

    return DataTable("figures", tuple(columns), rows)


def _rows(name: str, found: Callable[[Comparison], Sequence[ComparedRow]]) -> Callable[[Comparison], DataTable]:
    columns = ("name", "op_type", "layer", "pass", "source", "run", "run_name", "time_ns", "change_ns", "launches",
               "uses_tc", "tc_ns")  # fmt: skip

    def made(one: Comparison) -> DataTable:
        def rows() -> Iterator[Sequence[Value]]:
            for row in found(one):
                for run, side in enumerate(row.sides):
                    yield (
                        row.name, row.op_type, row.layer, row.pass_, row.source, run, one.names[run], side,
                        row.changes[run - 1] if run else None, _at(row.launches, run), _at(row.uses_tc, run),
                        _at(row.tc_ns, run),
                    )  # fmt: skip

        return DataTable(name, columns, rows)

    return made


def _at(values: Sequence[Any], run: int) -> Any:
    return values[run] if run < len(values) else None


def _renamed(one: Comparison) -> DataTable:
    columns = ("op", "run", "run_name", "before", "before_ns", "after", "after_ns")
    return DataTable("renamed", columns, lambda: (
        (r.op, r.run, one.names[r.run], "; ".join(r.before), r.before_ns, "; ".join(r.after), r.after_ns)
        for r in one.renamed
    ))  # fmt: skip


def _losses(one: Comparison) -> DataTable:
    return DataTable("losses", ("name", "step", "run", "run_name", "value"), lambda: (
        (loss.name, step, run, one.names[run], values[at])
        for loss in one.losses for run, values in enumerate(loss.values) for at, step in enumerate(loss.steps)
    ))  # fmt: skip


def _settings(one: Comparison) -> DataTable:
    return DataTable("settings", ("what", "run", "run_name", "value"), lambda: (
        (what, run, one.names[run], value) for what, values in one.settings for run, value in enumerate(values)
    ))  # fmt: skip


TABLES: Final[dict[str, Callable[[Comparison], DataTable]]] = {
    "figure": _figures,
    "layer": _rows("layers", lambda one: one.layers),
    "op": _rows("ops", lambda one: one.ops),
    "kernel": _rows("kernels", lambda one: one.kernels),
    "renamed": _renamed,
    "loss": _losses,
    "setting": _settings,
}
