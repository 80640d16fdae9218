"""An audit as SARIF 2.1.0, which code scanning of GitHub, Azure and IDEs read.

Source: OASIS "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; sections named below.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final, TextIO
from urllib.parse import quote

from tcprobe import __version__
from tcprobe.report.audit import words
from tcprobe.report.audit.base import AuditSpec
from tcprobe.rules.base import RuleDoc
from tcprobe.schema.finding import Audited, AuditReport, Edit, Finding, Fix
from tcprobe.schema.place import Place

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
BASE: Final = "%SRCROOT%"  # the name that GitHub and Visual Studio give the root of the repository
FINGERPRINT: Final = "tcprobe/v1"  # section 3.27.17: the version of how it is made belongs to the name


def render(report: AuditReport, spec: AuditSpec, out: TextIO) -> None:
    """Write one run; paths are relative to the report's root, columns count Unicode code points."""
    json.dump(_log(report, spec), out, indent=2, ensure_ascii=False, allow_nan=False)
    out.write("\n")


def _log(report: AuditReport, spec: AuditSpec) -> dict[str, Any]:
    rules = sorted(spec.rules, key=lambda rule: rule.code)
    run: dict[str, Any] = {
        "tool": {"driver": _driver(rules)},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": _results(report, {rule.code: n for n, rule in enumerate(rules)}),
    }
    if report.root:
        run["originalUriBaseIds"] = {BASE: {"uri": PurePath(report.root).as_uri().rstrip("/") + "/"}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(rules: list[RuleDoc]) -> dict[str, Any]:
    return {
        "name": "tcprobe",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(rule) for rule in rules],
    }


def _rule(rule: RuleDoc) -> dict[str, Any]:
    sources = "\n".join(f"- {source}" for source in rule.sources)
    examples = f"Bad:\n{rule.bad.strip()}\n\nGood:\n{rule.good.strip()}"
    text = f"{rule.explanation}\n\nSeverity: {rule.severity}\n\n{examples}\n\nSources:\n{sources}"
    markdown = (
        f"{rule.explanation}\n\n**Severity:** {rule.severity}\n\n"
        f"**Bad**\n\n```python\n{rule.bad.strip()}\n```\n\n**Good**\n\n```python\n{rule.good.strip()}\n```\n\n"
        f"**Sources**\n\n{sources}"
    )
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["performance" if rule.code.startswith("TC1") else "precision"]},
    }


def _invocation(report: AuditReport) -> dict[str, Any]:
    """Section 3.20: whether all files could be audited, and what to know of the run itself."""
    failed = [
        _notice("error", f"not audited: {words.reason(path, why)}", Place(path, 1), report.root)
        for path, why in report.failed
    ]
    unused = [
        _notice("note", f"unused suppression: {text}", place, report.root, region=True) for place, text in report.unused
    ]
    unseen = dict.fromkeys((u, audited.file) for audited in report.audited for u in audited.unseen)
    notes = [
        _notice(
            "note", f"not judged: {u.what}: {u.reason}", u.place or Place(file, 1), report.root, u.place is not None
        )
        for u, file in unseen
    ]
    limits = [{"level": "note", "message": {"text": text}} for text in words.notes(report)]
    said = [{"level": "note", "message": {"text": text}} for text in words.predicted_for(report)]
    notifications = failed + unused + notes + limits + said
    return {"executionSuccessful": not failed, "toolExecutionNotifications": notifications}


def _notice(level: str, text: str, place: Place, root: str, region: bool = False) -> dict[str, Any]:
    return {"level": level, "message": {"text": text}, "locations": [_location(place, root, region)]}


def _results(report: AuditReport, index: dict[str, int]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    results = []
    for audited, finding in words.rows(report):
        results.append(_result(audited, finding, report.root, seen))
    for audited, finding in words.silenced(report):
        results.append(_result(audited, finding, report.root, seen) | {"suppressions": [{"kind": "inSource"}]})
    for result in results:
        if result["ruleId"] in index:
            result["ruleIndex"] = index[result["ruleId"]]
    return results


def _result(audited: Audited, finding: Finding, root: str, seen: Counter[str]) -> dict[str, Any]:
    place = finding.place
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity or "note",
        "message": {"text": words.sentence(audited, finding)},
        "locations": [_location(place or Place(audited.file, 1), root, place is not None)],
        "partialFingerprints": {FINGERPRINT: _fingerprint(audited, finding, root, seen)},
        "properties": _properties(audited, finding),
    }
    if finding.related:
        result["relatedLocations"] = [
            _location(p, root, True) | {"id": n, "message": {"text": text}}
            for n, (p, text) in enumerate(words.related(finding), 1)
        ]
    if finding.fix:
        result["fixes"] = [_fix(finding.fix, root)]
    return result


def _fingerprint(audited: Audited, finding: Finding, root: str, seen: Counter[str]) -> str:
    """Return what stays the same when lines above the finding come or go, as section 3.27.17 asks.

    Made of rule, path, class, dimension and size; equals are numbered in the order of the file. Names of layers
    are left out: Keras numbers them, so that a new layer above would rename them all.
    """
    file = _uri(finding.place.file if finding.place else audited.file, root)
    parts = (finding.code, file, finding.layer_class, finding.dimension, finding.size)
    text = "\0".join("" if part is None else str(part) for part in parts)
    seen[text] += 1
    return sha256(f"{text}\0{seen[text]}".encode()).hexdigest()


def _properties(audited: Audited, finding: Finding) -> dict[str, Any]:
    """Return the figures; what is unknown is left out."""
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
    }
    for name, figure in (("saving_ns", finding.saving_ns), ("saving_pct", finding.saving_pct)):
        given[name] = None if figure is None else {"low": figure.low, "mid": figure.mid, "high": figure.high}
    return {name: value for name, value in given.items() if value is not None}


def _fix(fix: Fix, root: str) -> dict[str, Any]:
    """Section 3.55: replacements by file; their regions are never empty of meaning, an insertion deletes nothing."""
    by_file: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.place.file, []).append(edit)
    changes = [
        {
            "artifactLocation": _artifact(file, root),
            "replacements": [{"deletedRegion": _region(e.place), "insertedContent": {"text": e.after}} for e in edits],
        }
        for file, edits in by_file.items()
    ]
    return {"description": {"text": words.fixing(fix)}, "artifactChanges": changes}


def _location(place: Place, root: str, region: bool) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file, root)}
    if region:
        physical["region"] = _region(place)
    return {"physicalLocation": physical}


def _region(place: Place) -> dict[str, int]:
    region = {"startLine": place.line, "startColumn": place.column}
    if place.end_line is not None and place.end_column is not None:
        region |= {"endLine": place.end_line, "endColumn": place.end_column}
    return region


def _artifact(path: str, root: str) -> dict[str, str]:
    uri = _uri(path, root)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": BASE}


def _uri(path: str, root: str) -> str:
    """Return the path relative to the root as a URI; a file URI outside it."""
    inside = words.relative(path, root)
    return quote(inside) if inside != path else PurePath(path).as_uri()
