"""`ReportSpec`: what the user asked to see of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROWS_FOR_PEOPLE: Final = 10


@dataclass(frozen=True, slots=True)
class ReportSpec:
    """What the user asked to see of a run.

    Attributes:
        top: rows per table; 0 is all, None is 10 for people and all for programs.
        by: tables to show (names of `tcprobe.report.run.views.BY`); empty: the default ones.
    """

    top: int | None = None
    by: tuple[str, ...] = ()

    @property
    def rows_for_people(self) -> int | None:
        """Rows per table on a screen or page; None for all."""
        return ROWS_FOR_PEOPLE if self.top is None else self.top or None

    @property
    def rows_for_programs(self) -> int | None:
        """Rows per table in a file for programs; None for all."""
        return self.top or None
