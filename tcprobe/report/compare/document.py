"""The document of a comparison, and what a comparison adds to the report of a single run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tcprobe.report.blocks import (
    Block,
    ColumnHead,
    Facts,
    Folded,
    Heading,
    LeftOut,
    Lines,
    Remark,
    Remarks,
    Section,
    wrapped_line,
)
from tcprobe.report.compare import data, sections, tables
from tcprobe.report.compare.spec import CompareSpec, letters
from tcprobe.report.compare.words import answer, grounds
from tcprobe.report.document import Added, DataTable
from tcprobe.schema.changes.comparison import Comparison
from tcprobe.schema.changes.condition import Verdict

BOTH: Final = ("the other run", "this run")
ROWS_AGAINST: Final = 5


@dataclass(frozen=True, slots=True)
class CompareDocument:
    """A comparison as a `tcprobe.report.document.Document`; in it the runs are called A, B, ...

    Attributes:
        comparison: two runs or more.
        spec: what was asked for.
        verdicts: what became of the conditions.
    """

    comparison: Comparison
    spec: CompareSpec
    verdicts: tuple[Verdict, ...] = ()

    def screen(self) -> list[Block]:
        """Return which runs, the answer, figures, what changed, what else differs, then notes."""
        first, others = self._tables()
        rest = LeftOut("--width 0 or --format csv shows all")
        return [self._facts(), self._answer(), *first, *_notes(self.comparison), *others, self._same(), rest]

    def page(self) -> list[Block]:
        """Return the same under a title, short enough for a pull request: details are folded."""
        first, others = self._tables()
        folded: Iterable[Block] = others if self.spec.by else map(_folded, others)
        held = [section] if (section := _conditions(self.verdicts, self._labels)) else []
        title = Heading("Comparison of runs", 1)
        remarks = _notes(self.comparison)
        return [title, self._answer(), self._facts(), *held, *first, *remarks, *folded, self._same()]

    def data(self) -> dict[str, Any]:
        """Return runs, tables and conditions as raw values."""
        return data.data(self.comparison, self.spec, self.verdicts)

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder."""
        return tables.every_table(self.comparison, self.spec)

    def table(self) -> DataTable:
        """Return the table asked for, by default the figures; UsageError if several were asked for."""
        return tables.single(self.comparison, self.spec)

    @property
    def _labels(self) -> tuple[str, ...]:
        return letters(len(self.comparison.names))

    def _facts(self) -> Facts:
        return Facts(tuple(zip(self._labels, self.comparison.names, strict=True)))

    def _answer(self) -> Lines:
        return _answer(answer(self.comparison, self._labels))

    def _tables(self) -> tuple[list[Section], list[Section]]:
        """Return the tables of the first screen and those after it."""
        comparison, labels, top, by = self.comparison, self._labels, self.spec.rows_for_people, self.spec.by
        first = [sections.figures(comparison, labels, first=True)]
        changed = {
            "layer": sections.rows(comparison, labels, "layers", comparison.layers, top),
            "op": sections.rows(comparison, labels, "ops", comparison.ops, top),
            "kernel": sections.rows(comparison, labels, "kernels", comparison.kernels, top),
        }
        further = sections.figures(comparison, labels, first=False)
        if by:
            asked = {
                **changed,
                "figure": further,
                "renamed": sections.renamed(comparison, labels, top),
                "setting": sections.settings(comparison, labels),
                "loss": sections.every_loss(comparison, labels, top) or sections.losses(comparison, labels, top),
            }
            shown = [asked[name] for name in dict.fromkeys(by)]
            return [s for s in first if s and "figure" in by], [s for s in shown if s]
        rest = [
            *changed.values(),
            sections.renamed(comparison, labels, top),
            sections.losses(comparison, labels, top),
            sections.settings(comparison, labels),
            further,
        ]
        return [s for s in first if s], [s for s in rest if s]

    def _same(self) -> Lines:
        said = sections.unchanged(self.comparison)
        return Lines((wrapped_line(said),) if said else ())


def against(comparison: Comparison, verdicts: Sequence[Verdict] = (), top: int | None = None) -> Added:
    """Return what the report of the second of two runs says of the first one.

    Args:
        comparison: of the other run and this one, in this order.
        verdicts: what became of conditions; empty where none was asked.
        top: rows of each table; 0 is all, None is `ROWS_AGAINST` for people and all for programs.
    """
    labels, rows = BOTH, ROWS_AGAINST if top is None else top or None
    found = [
        sections.figures(comparison, labels, first=True),
        *(sections.rows(comparison, labels, what, found, rows) for what, found in _rows(comparison)),
        sections.renamed(comparison, labels, rows),
        sections.settings(comparison, labels),
    ]
    first, *others = answer(comparison, labels)
    said = [f"Against {comparison.names[0]}: {_lower(first)}", *others]
    blocks: tuple[Block, ...] = (
        _answer(said),
        *(_titled(section) for section in found if section),
        *_notes(comparison),
    )
    spec = CompareSpec(top)
    written = tuple(replace(table, name=f"against_{table.name}") for table in tables.every_table(comparison, spec))
    return Added(blocks, {"against": data.parts(comparison, spec), **(held(verdicts) if verdicts else {})}, written)


def _rows(comparison: Comparison) -> Iterator[tuple[str, Any]]:
    """Yield layers, or ops where there are none, and kernels."""
    yield ("layers", comparison.layers) if comparison.layers else ("ops", comparison.ops)
    yield "kernels", comparison.kernels


def _titled(section: Section) -> Section:
    return replace(section, title=f"Against the other run: {_lower(section.title)}")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def held(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what became of conditions, for JSON."""
    return {"conditions": data.conditions(verdicts)}


def _answer(sentences: Sequence[str]) -> Lines:
    first, *rest = sentences
    return Lines((wrapped_line(first, "strong"), *map(wrapped_line, rest)))


def _notes(comparison: Comparison) -> list[Remarks]:
    remarks = tuple(Remark(note.level, note.message, note.remedy) for note in comparison.notes)
    return [Remarks(remarks)] if remarks else []


def _conditions(verdicts: Sequence[Verdict], labels: Sequence[str]) -> Section | None:
    """Return what became of each condition; None if none was asked."""
    if not verdicts:
        return None
    heads = (ColumnHead("condition"), ColumnHead("run"), ColumnHead("outcome"), ColumnHead("found", wraps=True))
    rows = tuple((v.condition.text.strip(), labels[v.run], v.outcome, grounds(v)) for v in verdicts)
    return Section("Conditions", heads, rows)


def _folded(section: Section) -> Folded:
    return Folded(section.title, (replace(section, title=""),))
