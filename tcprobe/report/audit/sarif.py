"""Renderer: an audit as SARIF 2.1.0, which code scanning by GitHub, Azure and IDEs reads.

Source: OASIS "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; sections named below.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TextIO
from urllib.parse import quote

from msgspec.structs import astuple

from tcprobe import __version__
from tcprobe.formatting import relative
from tcprobe.report import RenderSpec
from tcprobe.report.audit import words
from tcprobe.report.audit.data import Notice, notices
from tcprobe.rules.docs import DOCS
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.schema.finding import Audited, AuditReport, Edit, Finding, Fix, Range
from tcprobe.schema.model import Place
from tcprobe.visible import shown

if TYPE_CHECKING:
    from tcprobe.report.audit.document import AuditDocument

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
BASE: Final = "%SRCROOT%"  # the name that GitHub and Visual Studio give the root of the repository
NOTICE_PREFIXES: Final = {
    "failed": "not audited: ",
    "unjudged": "nothing judged: ",
    "unused": "unused suppression: ",
    "unseen": "not judged: ",
    "limit": "",
}
MOST_SHOWN: Final = 1024  # characters of a description: GitHub Docs, "SARIF support for code scanning"
FINGERPRINT: Final = "tcprobe/v1"  # section 3.27.17: the name includes the version of how the fingerprint is made


def render(document: AuditDocument, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write one run; paths are relative to the audit's root, columns count Unicode code points.

    Known findings are left out: GitHub shows suppressed results as open alerts.
    """
    json.dump(_log(document.report), out, indent=1, allow_nan=False)
    out.write("\n")


def _log(report: AuditReport) -> dict[str, Any]:
    told = [*words.rows(report), *words.rows(report, "suppressed")]
    occurring = {finding.code for _, finding in told}
    rules = [rule for rule in DOCS if rule.code in occurring]
    driver = {"name": "tcprobe", "version": __version__, "semanticVersion": __version__}
    run: dict[str, Any] = {
        "tool": {"driver": {**driver, "rules": [_rule(rule) for rule in rules]}},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": _results(report, told, {rule.code: n for n, rule in enumerate(rules)}),
    }
    if report.root:
        run["originalUriBaseIds"] = {BASE: {"uri": PurePath(report.root).as_uri().rstrip("/") + "/"}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RuleDoc) -> dict[str, Any]:
    more = f"tcprobe explain {rule.code}"
    markdown = (
        f"**Bad**\n\n```python\n{rule.bad.strip()}\n```\n\n**Good**\n\n```python\n{rule.good.strip()}\n```\n\n"
        f"**Severity:** {rule.severity}\n\n`{more}` has the sources."
    )
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": _shortened(rule.explanation)},
        "help": {"text": f"{rule.severity} {more} has examples and sources.", "markdown": markdown},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["performance" if rule.code.startswith("TC1") else "precision"]},
    }


def _shortened(text: str) -> str:
    """Return the sentences that fit what GitHub shows of a rule."""
    if len(text) <= MOST_SHOWN:
        return text
    return text[: text.rindex(". ", 0, MOST_SHOWN) + 1]


def _invocation(report: AuditReport) -> dict[str, Any]:
    """Section 3.20: whether all files could be read, and notices about the run itself."""
    told = [_notification(notice, report.root) for notice in notices(report)]
    return {"executionSuccessful": not report.failed, "toolExecutionNotifications": told}


def _notification(notice: Notice, root: str) -> dict[str, Any]:
    level = "error" if notice.kind in ("failed", "unjudged") else "note"
    said: dict[str, Any] = {
        "level": level,
        "message": {"text": shown(f"{NOTICE_PREFIXES[notice.kind]}{notice.text}")},
    }
    if notice.file:
        said["locations"] = [_location(notice.place, notice.file, root)]
    return said


def _results(report: AuditReport, told: list[words.ModelFinding], index: dict[str, int]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for audited, finding in words.rows(report, "known"):  # the first of equal ones: the others keep their numbers
        _fingerprint(audited, finding, report.root, seen)
    return [_result(*row, report.root, index, seen) for row in told]


def _result(audited: Audited, finding: Finding, root: str, index: dict[str, int], seen: Counter[str]) -> dict[str, Any]:
    sentence = words.finding_line(audited, finding)
    made: dict[str, Any] = {
        "ruleId": finding.code,
        "level": finding.severity or "note",
        "message": {"text": shown(f"{_cell(finding.place)}{sentence}")},
        "locations": [_location(finding.place, audited.file, root)],
        "partialFingerprints": {FINGERPRINT: _fingerprint(audited, finding, root, seen)},
        "properties": _properties(audited, finding),
    }
    if related := words.related(finding):
        made["relatedLocations"] = [
            _location(p, p.file, root) | {"id": n, "message": {"text": shown(text)}}
            for n, (p, text) in enumerate(related, 1)
        ]
    if finding.fix:
        made["fixes"] = [_fix(finding.fix, root)]
    if finding in audited.suppressed:
        made["suppressions"] = [{"kind": "inSource"}]
    if finding.code in index:
        made["ruleIndex"] = index[finding.code]
    return made


def _properties(audited: Audited, finding: Finding) -> dict[str, Any]:
    """Return the figures of a finding, as precise as a prediction is, without those that are unknown."""
    figures = {"saving_ns": None, "saving_pct": 3, "padding_pct": 3}
    found = {
        "model": audited.label,
        "mode": audited.mode,
        **{name: getattr(finding, name) for name in ("layer", "dimension", "size", "suggested")},
        "passes": list(finding.passes) or None,
        "dtype": finding.dtype,
        "gpu": audited.gpu or None,
        "basis": finding.basis,
        **(finding.constants.columns() if finding.constants else {}),
        **{name: _rounded(getattr(finding, name), digits) for name, digits in figures.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def _rounded(figure: Range | None, digits: int | None) -> dict[str, float] | None:
    return None if figure is None else {name: round(getattr(figure, name), digits) for name in ("low", "mid", "high")}


def _fingerprint(audited: Audited, finding: Finding, root: str, seen: Counter[str]) -> str:
    """Return a fingerprint that survives added or removed lines above the finding, as section 3.27.17 asks.

    It is made of the finding's identity; equal ones are numbered in file order.
    """
    identity = astuple(finding.identity(_uri(finding.place.file if finding.place else audited.file, root)))
    text = "\0".join("" if part is None else str(part) for part in identity)
    seen[text] += 1
    return sha256(f"{text}\0{seen[text]}".encode(errors="surrogatepass")).hexdigest()


def _fix(fix: Fix, root: str) -> dict[str, Any]:
    """Section 3.55: replacements by file; the region of an insertion is empty and deletes nothing."""
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
    return {"description": {"text": shown(words.fixing(fix))}, "artifactChanges": changes}


def _location(place: Place | None, file: str, root: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file if place else file, root)}
    if place is None:
        return {"physicalLocation": physical}
    physical["region"] = _region(place)
    if place.in_cell is None:
        return {"physicalLocation": physical}
    named = {"name": f"cell {place.in_cell.cell}", "fullyQualifiedName": f"{place.position}:{place.column}"}
    return {"physicalLocation": physical, "logicalLocations": [named]}


def _cell(place: Place | None) -> str:
    """Return the beginning of what is said of a place in a notebook: its region is that of the notebook's JSON."""
    return "" if place is None or place.in_cell is None else f"{place.position}: "


def _region(place: Place) -> dict[str, int]:
    if place.in_cell is not None:
        return {"startLine": place.in_cell.row}
    region = {"startLine": place.line, "startColumn": place.column}
    if place.end_line is not None and place.end_column is not None:
        region |= {"endLine": place.end_line, "endColumn": place.end_column}
    return region


def _artifact(path: str, root: str) -> dict[str, str]:
    uri = _uri(path, root)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": BASE}


def _uri(path: str, root: str) -> str:
    """Return the path relative to the root as a URI; a file URI if it is outside the root."""
    inside = relative(path, root)
    return quote(inside, errors="surrogateescape") if inside != path else PurePath(path).as_uri()
