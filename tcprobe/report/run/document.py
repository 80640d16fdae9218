"""The document of a run's report; a part is built only when a renderer asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from tcprobe.report.blocks import Block, Folded, Heading, LeftOut, Lines, Section, wrapped_line
from tcprobe.report.document import Added, DataTable
from tcprobe.report.run.data import data
from tcprobe.report.run.screen import screen
from tcprobe.report.run.spec import ReportSpec
from tcprobe.report.run.tables import every_table, single
from tcprobe.schema.profile import Profile


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The report of an analysed profile, as a `tcprobe.report.document.Document`.

    Attributes:
        profile: analysed.
        spec: what was asked for.
        added: what a comparison adds: how the run differs from another one, what became of conditions.
    """

    profile: Profile
    spec: ReportSpec
    added: Added = field(default_factory=Added)

    def screen(self) -> list[Block]:
        """Return how good the run is, why and what to do first, then the tables."""
        s = screen(self.profile, self.spec)
        absent = [wrapped_line(f"no {name.replace('_', ' ')}: {why}", indent="  ") for name, why in s.absent]
        closing: list[Block] = [Lines(tuple(absent)), LeftOut("--width 0 or --format csv shows all")]
        more = self.added.blocks
        return [s.facts, s.answer, *more, s.steps, *s.figures, s.warnings, *s.why, s.notes, *s.tables, *closing]

    def page(self) -> list[Block]:
        """Return the same under a title, with tables folded unless asked for by name."""
        s = screen(self.profile, self.spec)
        tables: Iterable[Block] = s.tables if self.spec.by else map(_folded, s.tables)
        absent = Lines(tuple(wrapped_line(f"no {name}: {why}") for name, why in s.absent), bullets=True)
        title = Heading("Tensor Core report", 1)
        more = self.added.blocks
        return [title, s.answer, s.facts, *more, s.steps, *s.figures, s.warnings, *s.why, s.notes, *tables, absent]

    def data(self) -> dict[str, Any]:
        """Return metadata, summary and tables as raw values."""
        return {**data(self.profile, self.spec), **self.added.data}

    def tables(self) -> Iterable[DataTable]:
        """Return the tables for a folder."""
        return chain(every_table(self.profile, self.spec), self.added.tables)

    def table(self) -> DataTable:
        """Return the table asked for, by default the kernels; UsageError if several were asked for."""
        return single(self.profile, self.spec)


def _folded(section: Section) -> Folded:
    return Folded(section.title, (replace(section, title=""),))
