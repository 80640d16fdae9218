"""An audit as workflow commands of GitHub Actions, which it shows beside the lines of a pull request.

Source: GitHub Docs, "Workflow commands for GitHub Actions", sections on notice, warning and error messages;
the escapes are those of actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from typing import Final, TextIO

from tcprobe.report.audit import words
from tcprobe.report.audit.base import AuditSpec
from tcprobe.schema.finding import Audited, AuditReport, Finding
from tcprobe.schema.place import Place

COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: AuditReport, spec: AuditSpec, out: TextIO) -> None:  # noqa: ARG001 - a reporter's signature
    """Write one command per finding, unused suppression and file that could not be audited."""
    lines = [_finding(audited, f, report.root) for audited, f in words.rows(report)]
    lines += [
        _command("notice", "tcprobe (unused suppression)", place, place.file, report.root, text)
        for place, text in report.unused
    ]
    lines += [
        _command("error", "tcprobe", None, path, report.root, f"not audited: {words.reason(path, why)}")
        for path, why in report.failed
    ]
    out.writelines(f"{line}\n" for line in lines)


def _finding(audited: Audited, finding: Finding, root: str) -> str:
    command = COMMANDS.get(finding.severity or "", "notice")
    said = words.sentence(audited, finding)
    return _command(command, f"tcprobe ({finding.code})", finding.place, audited.file, root, said)


def _command(command: str, title: str, place: Place | None, file: str, root: str, text: str) -> str:
    given: dict[str, object] = {"title": title, "file": words.relative(place.file if place else file, root)}
    if place is not None:
        given |= {"line": place.line, "col": place.column}
        if place.end_line is not None and place.end_column is not None:
            # GitHub shows the columns only of what stands on one line.
            given |= {"endLine": place.end_line, "endColumn": place.end_column}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in given.items())
    return f"::{command} {properties}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
