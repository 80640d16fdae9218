"""The output formats of an audit: one module each, listed here; each renders an `AuditReport`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, TextIO

from tcprobe.schema.finding import AuditReport

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What a person asked to see of an audit.

    Attributes:
        cwd: folder to which paths are shown relative, where they lie inside it; absolute.
        rules: documentation of the rules, for formats that carry it.
        width: columns of the terminal; None where the output is no terminal, so nothing is cut.
        color: whether escape codes may be written.
        verbose: whether to list what the short form only counts.
        typed: what the user typed behind ``tcprobe audit-shapes``, to propose the next command; empty where unknown.
    """

    cwd: str
    rules: tuple[RuleDoc, ...] = ()
    width: int | None = None
    color: bool = False
    verbose: bool = False
    typed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditReporter:
    """One output format; its module has a function ``render(report, spec, out)`` and is loaded when it is called.

    Attributes:
        FORMAT: its name on the command line.
        SUFFIXES: file name endings that choose it (``.sarif``).
        module: of this package.
    """

    FORMAT: str
    SUFFIXES: tuple[str, ...]
    module: str

    def render(self, report: AuditReport, spec: AuditSpec, out: TextIO) -> None:
        """Write the report to `out`; the same report and spec give the same bytes."""
        import_module(f"tcprobe.report.audit.{self.module}").render(report, spec, out)


AUDIT_REPORTERS: Final[tuple[AuditReporter, ...]] = (
    AuditReporter("text", (".txt",), "text"),
    AuditReporter("json", (".json",), "json"),
    AuditReporter("csv", (".csv",), "csv"),
    AuditReporter("markdown", (".md", ".markdown"), "markdown"),
    AuditReporter("sarif", (".sarif",), "sarif"),
    AuditReporter("github", (), "github"),
)
