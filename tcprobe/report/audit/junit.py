"""Renderer: an audit as JUnit's XML, which Jenkins, GitLab and others show as tests: a case for each finding and file.

Source: the schema of Jenkins' xUnit plugin, jenkins-junit.xsd (testsuites, testsuite, testcase, failure, error);
``file`` and ``line`` of a case are as pytest writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TextIO
from xml.sax.saxutils import escape, quoteattr

from tcprobe.formatting import relative
from tcprobe.report import RenderSpec
from tcprobe.report.audit import words
from tcprobe.report.audit.data import notices
from tcprobe.visible import shown

if TYPE_CHECKING:
    from tcprobe.report.audit.document import AuditDocument

ERRORS: Final = ("failed", "unjudged")
"""Kinds of notices that are told as errors: files that could not be audited, or of which nothing could be judged."""


def render(document: AuditDocument, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write a case for each finding that is not suppressed or known, a failure but for notes, and for each file."""
    cases = list(_cases(document))
    failures, errors = (sum(kind == wanted for kind, _ in cases) for wanted in ("failure", "error"))
    counts = f'name="tcprobe" tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="0"'
    out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n<testsuite {counts}>\n')
    out.writelines(f"{text}\n" for _, text in cases)
    out.write("</testsuite>\n</testsuites>\n")


def _cases(document: AuditDocument) -> Iterator[tuple[str, str]]:
    """Yield what each case is (failure, error, or empty for one that passes) and its XML."""
    report = document.report
    found = set[str]()
    for audited, finding in words.rows(report):
        place = finding.place
        file = place.file if place is not None else audited.file
        found |= {file, audited.file}
        line = place.line if place is not None else None
        text = words.finding_line(audited, finding)
        kind = "" if finding.severity == "note" else "failure"
        where = f" at {place.position}" if place is not None else ""
        yield kind, _case(f"{finding.code}{where}", relative(file, report.root), line, kind, finding.severity, text)
    for notice in notices(report):
        if notice.kind in ERRORS:
            found.add(notice.file)
            yield "error", _case("audit", relative(notice.file, report.root), None, "error", notice.kind, notice.text)
    for file in dict.fromkeys(audited.file for audited in report.audited):
        if file not in found:
            yield "", _case("audit", relative(file, report.root), None, "", None, "")


def _case(name: str, file: str, line: int | None, kind: str, type_: str | None, text: str) -> str:
    given = {"name": name, "classname": file, "file": file, **({"line": str(line)} if line is not None else {})}
    head = f"<testcase {' '.join(f'{key}={quoteattr(shown(value))}' for key, value in given.items())}"
    if not text:
        return f"{head}/>"
    said = shown(text)
    if not kind:
        return f"{head}><system-out>{escape(said)}</system-out></testcase>"
    return f"{head}><{kind} type={quoteattr(type_ or kind)} message={quoteattr(said)}/></testcase>"
