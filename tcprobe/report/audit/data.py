"""An audit for programs: as one tree for JSON, one table for CSV, and notices for code scanning."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple

from msgspec import Struct

from tcprobe.formatting import relative
from tcprobe.report.audit import unjudged, words
from tcprobe.report.document import DataTable, ReportSpec, data_of
from tcprobe.schema.finding import SEVERITIES, Audited, AuditReport, Finding, Fix, Range
from tcprobe.schema.model import Place
from tcprobe.schema.provenance import COLUMNS as PROVENANCE
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import Statement

COLUMNS: Final = (
    *("file", "line", "column", "end_line", "end_column", "code", "severity", "suppressed", "message", "model", "mode"),
    *("layer", "layer_class", "dimension", "size", "suggested", "passes", "dtype", "saving_low_ns", "saving_ns"),
    *("saving_high_ns", "saving_low_pct", "saving_pct", "saving_high_pct", "step_low_ns", "step_ns", "step_high_ns"),
    *("why", "basis", "gpu", "library", "xla", "batch", "batch_known", "fix", "kind", "why_kind", *PROVENANCE),
    *("padding_low_pct", "padding_pct", "padding_high_pct", "evidence", "known", "cell"),
)
OF_AUDITED: Final = ("mode", "gpu", "library", "xla", "batch", "batch_known")
OF_FINDING: Final = (
    *("code", "severity", "layer", "layer_class", "dimension", "size", "suggested", "dtype", "basis", "evidence"),
)
STATES: Final = ("findings", "suppressed", "known")


def data(report: AuditReport) -> dict[str, Any]:
    """Return the whole report: all that an `AuditReport` holds; paths are absolute, times in ns, shares 0-100."""
    return data_of(
        {
            "root": report.root or None,
            "summary": _summary(report),
            "audited": [_plain(audited) | {"notes": list(words.limits(audited))} for audited in report.audited],
            "unused": [{"place": _plain(place), "text": text} for place, text in report.unused],
            "unjudged": _plain(report.unjudged),
            "failed": [{"file": path, "reason": words.reason(path, why)} for path, why in report.failed],
            "baseline": _plain(report.baseline),
        }
    )


def _summary(report: AuditReport) -> dict[str, int]:
    """Return the number of findings by severity, and what else a build may want to count."""
    found = [finding for _, finding in words.rows(report)]
    return {
        **{severity: sum(one.severity == severity for one in found) for severity in SEVERITIES},
        "fixable": sum(one.fix is not None for one in found),
        "suppressed": len(words.rows(report, "suppressed")),
        "known": len(words.rows(report, "known")),
        "unseen": sum(count for _, count in unjudged.unseen(report)),
        "not_judged": unjudged.count(report),
        "unjudged": len(report.unjudged),
        "failed": len(report.failed),
    }


def _plain(value: Any) -> Any:
    """Return records as their fields and tuples as lists; what is said, where, and what a fix does gets its text."""
    match value:
        case Statement():
            return words.sentence_of(value)
        case Place():
            return {"file": value.file, **words.placed(value)}
        case Fix():
            safe = "safe" if value.safe else "unsafe"
            return {"applicability": safe, "message": words.fixing(value), "edits": _plain(value.edits)}
        case Finding():
            tree = {"message" if name == "says" else name: one for name, one in _tree(value).items()}
            tree["related"] = [{"place": _plain(place), "text": text} for place, text in words.related(value)]
            return tree | {"kind": value.says.kind, "why_kind": value.why and value.why.kind}
        case Provenance():
            return _tree(value) | {"borrowed": list(value.borrowed)}
        case Struct():
            return _tree(value)
        case tuple():
            return list(map(_plain, value))
        case _:
            return value


def _tree(record: Struct) -> dict[str, Any]:
    return {name: _plain(getattr(record, name)) for name in record.__struct_fields__}


def table(report: AuditReport, spec: ReportSpec) -> DataTable:
    """Return a row per finding, suppressed and known ones too; times are per step of `batch` samples."""
    return DataTable("findings", COLUMNS, partial(_rows, report, spec), newline="\r\n")


def _rows(report: AuditReport, spec: ReportSpec) -> list[tuple[Any, ...]]:
    rows = [_row(*row, state, spec) for state in STATES for row in words.rows(report, state)]
    return [tuple(map(row.get, COLUMNS)) for row in rows]


def _row(audited: Audited, finding: Finding, state: str, spec: ReportSpec) -> dict[str, Any]:
    place = finding.place
    return {
        "file": relative(place.file if place else audited.file, spec.cwd),
        **(words.placed(place) if place else {}),
        "suppressed": state == "suppressed",
        "known": state == "known",
        "message": words.message(finding),
        "model": audited.label,
        **{name: getattr(audited, name) for name in OF_AUDITED},
        **{name: getattr(finding, name) for name in OF_FINDING},
        "passes": ";".join(finding.passes),
        **_span("saving", "ns", finding.saving_ns),
        **_span("saving", "pct", finding.saving_pct),
        **_span("step", "ns", audited.step_ns),
        **_span("padding", "pct", finding.padding_pct),
        "why": words.why(finding),
        "fix": finding.fix and words.fixing(finding.fix),
        "kind": finding.says.kind,
        "why_kind": finding.why and finding.why.kind,
        **(finding.constants.columns() if finding.constants else {}),
    }


def _span(name: str, unit: str, value: Range | None) -> dict[str, str]:
    """Return three columns for a range, as precise as a prediction is: whole ns, or thousandths of a percent."""
    if value is None:
        return {}
    digits = 0 if unit == "ns" else 3
    ends = ((f"{name}_low", value.low), (name, value.mid), (f"{name}_high", value.high))
    return {f"{key}_{unit}": f"{figure:.{digits}f}" for key, figure in ends}


class Notice(NamedTuple):
    """Something to know about an audit itself, for code scanning."""

    # failed (the file was not read), unjudged (no layer of it could be judged, and so it fails), unused (a suppression
    # that silences nothing), unseen (something that could not be judged), limit (of the whole audit)
    kind: str
    text: str  # the notice in words, without its kind
    file: str = ""  # absolute path; empty for a limit
    place: Place | None = None  # where in the file; None if no line is known


def notices(report: AuditReport) -> list[Notice]:
    """Return the notices of an audit, ordered by kind."""
    found = [Notice("failed", words.reason(path, why), path) for path, why in report.failed]
    found += [Notice("unjudged", why, path) for path, why in unjudged.failing(report)]
    found += [Notice("unused", text, place.file, place) for place, text in report.unused]
    unseen = dict.fromkeys((u, audited.file) for audited in report.audited for u in audited.unseen)
    found += [Notice("unseen", f"{u.what}: {u.reason}", file, u.place) for u, file in unseen]
    foreign = unjudged.not_judged(report)
    found += [Notice("unseen", unjudged.phrase([n]), n.place.file, n.place) for n in foreign]
    limits = (*words.steps(report), *words.limit_notes(report), *words.predicted_for(report))
    return found + [Notice("limit", text) for text in limits]
