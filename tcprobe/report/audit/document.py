"""The document of an audit; a part is built, and its module loaded, only when a renderer asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tcprobe.report.audit.spec import AuditSpec
from tcprobe.schema.finding import AuditReport

if TYPE_CHECKING:
    from tcprobe.report.blocks import Block
    from tcprobe.report.document import DataTable, Scan


@dataclass(frozen=True, slots=True)
class AuditDocument:
    """The report of an audit, as a `tcprobe.report.scan.Scanned` document."""

    report: AuditReport
    spec: AuditSpec

    def screen(self) -> list[Block]:
        """Return one line per finding, the costliest sizes, the gain, what figures rest on, and the next command."""
        from tcprobe.report.audit.screen import screen

        return screen(self.report, self.spec)

    def page(self) -> list[Block]:
        """Return the count, what to change first, every finding, and what figures rest on."""
        from tcprobe.report.audit.page import page

        return page(self.report, self.spec)

    def data(self) -> dict[str, Any]:
        """Return everything in the report as raw values."""
        from tcprobe.report.audit.data import data

        return data(self.report)

    def tables(self) -> list[DataTable]:
        """Return the findings as the only table."""
        return [self.table()]

    def table(self) -> DataTable:
        """Return the findings, including suppressed ones."""
        from tcprobe.report.audit.table import findings

        return findings(self.report, self.spec)

    def scan(self) -> Scan:
        """Return findings and notices for code scanning."""
        from tcprobe.report.audit.scan import audit_scan

        return audit_scan(self.report, self.spec)
