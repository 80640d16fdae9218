"""An audit as one tree of raw values, for JSON: all that an `AuditReport` holds, None for unknown."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from tcprobe import __version__
from tcprobe.report.audit import unjudged, words
from tcprobe.report.audit.phrases import statements
from tcprobe.schema.finding import SEVERITIES, Audited, AuditReport, Finding, Fix
from tcprobe.schema.place import Place
from tcprobe.schema.provenance import Provenance
from tcprobe.schema.statement import Statement

SCHEMA: Final = 1
"""Increases when a key is removed or changes its meaning; new keys may be added at any time."""

TEXTS: Final = {"says": "message"}
"""Keys for the statement of a finding, which is text here."""


def data(report: AuditReport) -> dict[str, Any]:
    """Return the whole report; paths are absolute, times in ns, shares 0-100."""
    return {
        "schema": SCHEMA,
        "tcprobe": __version__,
        "root": report.root or None,
        "summary": _summary(report),
        "audited": [_audited(a) for a in report.audited],
        "unused": [{"place": _plain(place), "text": text} for place, text in report.unused],
        "unjudged": [{"file": one.file, "fails": one.fails} for one in report.unjudged],
        "failed": [{"file": path, "reason": words.reason(path, why)} for path, why in report.failed],
        "baseline": _plain(report.baseline),
    }


def _summary(report: AuditReport) -> dict[str, int]:
    """Return the number of findings by severity, and what else a build may want to count."""
    found = [finding for _, finding in words.rows(report)]
    return {
        **{severity: sum(f.severity == severity for f in found) for severity in SEVERITIES},
        "fixable": sum(f.fix is not None for f in found),
        "suppressed": len(words.silenced(report)),
        "known": len(words.known(report)),
        "unseen": sum(count for _, count in unjudged.unseen(report)),
        "not_judged": unjudged.count(report),
        "unjudged": len(report.unjudged),
        "failed": len(report.failed),
    }


def _audited(audited: Audited) -> dict[str, Any]:
    plain = {name: _plain(value) for name, value in _fields(audited)}
    return plain | {"notes": list(words.limits(audited))}


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(value, f.name)) for f in fields(value)]


def _plain(value: Any) -> Any:
    """Convert objects to mappings of their attributes and tuples to lists; related places and fixes get their texts."""
    match value:
        case Finding():
            plain = {TEXTS.get(name, name): _plain(v) for name, v in _fields(value)}
            plain["related"] = [{"place": _plain(p), "text": text} for p, text in words.related(value)]
            return plain | {"kind": value.says.kind, "why_kind": value.why and value.why.kind}
        case Provenance():
            plain = {name: _plain(v) for name, v in _fields(value)}
            return plain | {"borrowed": list(value.borrowed)}
        case Statement():
            return statements.sentence_of(value)
        case Fix():
            applicability = "safe" if value.safe else "unsafe"
            return {
                "applicability": applicability,
                "message": words.fixing(value),
                "edits": [_plain(e) for e in value.edits],
            }
        case Place():
            return {"file": value.file, **words.placed(value)}
        case tuple():
            return [_plain(v) for v in value]
        case str() | int() | float() | None:
            return value
        case _:
            return {name: _plain(v) for name, v in _fields(value)}
