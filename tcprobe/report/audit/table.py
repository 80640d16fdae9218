"""An audit as one table: a row per finding, suppressed and known ones too; NA for unknown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tcprobe.report.audit import words
from tcprobe.report.audit.spec import AuditSpec
from tcprobe.report.document import DataTable
from tcprobe.report.formatting import relative
from tcprobe.schema.finding import Audited, AuditReport, Finding, Range
from tcprobe.schema.provenance import COLUMNS as PROVENANCE

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row, Value

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
    *PROVENANCE,
    "padding_low_pct",
    "padding_pct",
    "padding_high_pct",
    "evidence",
    "known",
    "cell",
)


def findings(report: AuditReport, spec: AuditSpec) -> DataTable:
    """Return one row per finding; times are per step of `batch` samples."""
    return DataTable("findings", COLUMNS, partial(_rows, report, spec), newline="\r\n")


def _rows(report: AuditReport, spec: AuditSpec) -> list[tuple[Value, ...]]:
    made = [_row(audited, finding, spec) for audited, finding in words.rows(report)]
    made += [_row(*silent, spec) | {"suppressed": True} for silent in words.silenced(report)]
    made += [_row(*old, spec) | {"known": True} for old in words.known(report)]
    return [tuple(row.get(column) for column in COLUMNS) for row in made]


def _row(audited: Audited, finding: Finding, spec: AuditSpec) -> Row:
    place = finding.place
    return {
        "file": relative(place.file if place else audited.file, spec.cwd),
        **(words.placed(place) if place else {}),
        "code": finding.code,
        "severity": finding.severity,
        "suppressed": False,
        "known": False,
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
        "xla": audited.xla,
        "batch": audited.batch,
        "batch_known": audited.batch_known,
        "fix": words.fixing(finding.fix) if finding.fix else None,
        "kind": finding.says.kind,
        "why_kind": finding.why.kind if finding.why else None,
        **(finding.constants.columns() if finding.constants else {}),
        **_span("padding", "pct", finding.padding_pct),
        "evidence": finding.evidence,
    }


def _span(name: str, unit: str, value: Range | None) -> Row:
    """Return three columns for a range, as precise as a prediction is: whole ns, or thousandths of a percent."""
    if value is None:
        return {}
    digits = 0 if unit == "ns" else 3
    ends = ((f"{name}_low", value.low), (name, value.mid), (f"{name}_high", value.high))
    return {f"{key}_{unit}": f"{figure:.{digits}f}" for key, figure in ends}
