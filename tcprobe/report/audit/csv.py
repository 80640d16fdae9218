"""An audit as CSV: one row per finding, suppressed ones included; an empty field is unknown."""

from __future__ import annotations

import csv
from typing import Any, Final, TextIO

from tcprobe.report.audit import words
from tcprobe.report.audit.base import AuditSpec
from tcprobe.schema.finding import Audited, AuditReport, Finding, Range

COLUMNS: Final = (
    "file",
    "line",
    "column",
    "end_line",
    "end_column",
    "code",
    "severity",
    "suppressed",
    "message",
    "model",
    "mode",
    "layer",
    "layer_class",
    "dimension",
    "size",
    "suggested",
    "passes",
    "dtype",
    "saving_low_ns",
    "saving_ns",
    "saving_high_ns",
    "saving_low_pct",
    "saving_pct",
    "saving_high_pct",
    "step_low_ns",
    "step_ns",
    "step_high_ns",
    "why",
    "basis",
    "gpu",
    "library",
    "xla",
    "batch",
    "batch_known",
    "fix",
    "kind",
    "why_kind",
)


def render(report: AuditReport, spec: AuditSpec, out: TextIO) -> None:
    """Write a header and one row per finding; times are of one step of `batch` samples."""
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(_row(audited, finding, False, spec) for audited, finding in words.rows(report))
    writer.writerows(_row(audited, finding, True, spec) for audited, finding in words.silenced(report))


def _row(audited: Audited, finding: Finding, suppressed: bool, spec: AuditSpec) -> dict[str, Any]:
    place = finding.place
    return {
        "file": words.relative(place.file if place else audited.file, spec.cwd),
        "line": place and place.line,
        "column": place and place.column,
        "end_line": place and place.end_line,
        "end_column": place and place.end_column,
        "code": finding.code,
        "severity": finding.severity,
        "suppressed": _flag(suppressed),
        "message": words.message(finding),
        "model": audited.label,
        "mode": audited.mode,
        "layer": finding.layer,
        "layer_class": finding.layer_class,
        "dimension": finding.dimension,
        "size": finding.size,
        "suggested": finding.suggested,
        "passes": ";".join(finding.passes),
        "dtype": finding.dtype,
        **_span("saving", "ns", finding.saving_ns),
        **_span("saving", "pct", finding.saving_pct),
        **_span("step", "ns", audited.step_ns),
        "why": words.why(finding),
        "basis": finding.basis,
        "gpu": audited.gpu,
        "library": audited.library,
        "xla": _flag(audited.xla),
        "batch": audited.batch,
        "batch_known": _flag(audited.batch_known),
        "fix": words.fixing(finding.fix) if finding.fix else None,
        "kind": finding.says.kind,
        "why_kind": finding.why and finding.why.kind,
    }


def _span(name: str, unit: str, value: Range | None) -> dict[str, str]:
    if value is None:
        return {}
    digits = 0 if unit == "ns" else 3
    ends = ((f"{name}_low", value.low), (name, value.mid), (f"{name}_high", value.high))
    return {f"{key}_{unit}": f"{figure:.{digits}f}" for key, figure in ends}


def _flag(value: bool) -> str:
    return "true" if value else "false"
