"""An audit for code scanning: its findings, and notices about the audit itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcprobe.report.audit import unjudged, words
from tcprobe.report.audit.spec import AuditSpec
from tcprobe.report.document import Notice, Scan, ScanResult
from tcprobe.schema.finding import Audited, AuditReport, Finding, Range


def audit_scan(report: AuditReport, spec: AuditSpec) -> Scan:
    """Return every finding once, then the suppressed and the known ones, and the notices, with failed files first."""
    results = [_result(audited, finding) for audited, finding in words.rows(report)]
    results += [replace(_result(*silent), suppressed=True) for silent in words.silenced(report)]
    results += [replace(_result(*old), known=True) for old in words.known(report)]
    return Scan(report.root, spec.rules, tuple(results), tuple(_notices(report)))


def _result(audited: Audited, finding: Finding) -> ScanResult:
    return ScanResult(
        finding,
        words.finding_line(audited, finding),
        audited.file,
        _properties(audited, finding),
        tuple(words.related(finding)),
        words.fixing(finding.fix) if finding.fix else "",
    )


def _properties(audited: Audited, finding: Finding) -> dict[str, Any]:
    given: dict[str, Any] = {
        "model": audited.label,
        "mode": audited.mode,
        "layer": finding.layer,
        "dimension": finding.dimension,
        "size": finding.size,
        "suggested": finding.suggested,
        "passes": list(finding.passes) or None,
        "dtype": finding.dtype,
        "gpu": audited.gpu or None,
        "basis": finding.basis,
        **(finding.constants.columns() if finding.constants else {}),
    }
    given["saving_ns"] = _span(finding.saving_ns, None)
    given["saving_pct"], given["padding_pct"] = _span(finding.saving_pct, 3), _span(finding.padding_pct, 3)
    return given


def _span(figure: Range | None, digits: int | None) -> dict[str, float] | None:
    """Return a range as precise as a prediction is; None where it is not known."""
    ends = None if figure is None else (("low", figure.low), ("mid", figure.mid), ("high", figure.high))
    return None if ends is None else {name: round(value, digits) for name, value in ends}


def _notices(report: AuditReport) -> list[Notice]:
    notices = [Notice("failed", words.reason(path, why), path) for path, why in report.failed]
    notices += [Notice("unjudged", why, path) for path, why in unjudged.failing(report)]
    notices += [Notice("unused", text, place.file, place) for place, text in report.unused]
    unseen = dict.fromkeys((u, audited.file) for audited in report.audited for u in audited.unseen)
    notices += [Notice("unseen", f"{u.what}: {u.reason}", file, u.place) for u, file in unseen]
    foreign = unjudged.not_judged(report)
    notices += [Notice("unseen", unjudged.phrase([n]), n.place.file, n.place) for n in foreign]
    return notices + [Notice("limit", text) for text in (*words.limit_notes(report), *words.predicted_for(report))]
