"""The report of a run with what changed from another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tcprobe.report.blocks import Block, Lines, wrapped_line
from tcprobe.report.compare.document import ComparisonDocument, as_json
from tcprobe.report.compare.words import verdict_text
from tcprobe.report.document import DataTable
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.changes.comparison import Comparison
from tcprobe.schema.changes.condition import Verdict

ROWS = 5
LEADING = 2
"""Blocks of a run's report that stand before what changed: what was profiled, and the headline."""


@dataclass(frozen=True, slots=True)
class JudgedReport:
    """The report of a run, with what became of conditions and what changed from another run.

    Attributes:
        run: the run's own report.
        against: the other run and this one; None where nothing is compared.
        verdicts: of the conditions that were asked.
    """

    run: RunDocument
    against: Comparison | None = None
    verdicts: tuple[Verdict, ...] = ()

    def screen(self) -> list[Block]:
        """Return the run's screen, with what changed after the headline."""
        blocks = list(self.run.screen())
        return [*blocks[:LEADING], *self._changed(), *blocks[LEADING:]]

    def page(self) -> list[Block]:
        """Return the run's page, with what changed after the headline, and what became of conditions."""
        blocks = list(self.run.page())
        names = ("",) if self.against is None else self.against.names
        held = [Lines(tuple(wrapped_line(verdict_text(one, names)) for one in self.verdicts))] if self.verdicts else []
        return [*blocks[: LEADING + 1], *held, *self._changed(), *blocks[LEADING + 1 :]]

    def data(self) -> dict[str, Any]:
        """Return the run's data with ``against`` and ``conditions``."""
        compared = None if self.against is None else ComparisonDocument(self.against, (), self.run.spec.top).data()
        return {**self.run.data(), "against": compared, "conditions": [as_json(one) for one in self.verdicts]}

    def tables(self) -> Iterator[DataTable]:
        """Return the run's tables, then those of the comparison, whose names begin with ``against_``."""
        yield from self.run.tables()
        if self.against is not None:
            for table in ComparisonDocument(self.against).tables():
                yield replace(table, name=f"against_{table.name}")

    def table(self) -> DataTable:
        """Return the run's table."""
        return self.run.table()

    def _changed(self) -> Sequence[Block]:
        if self.against is None:
            return ()
        top = ROWS if self.run.spec.top is None else self.run.spec.top
        blocks = ComparisonDocument(self.against, (), top, ("figure", "layer", "kernel")).screen()
        return list(blocks)[:-1]
