"""Renderer: an audit as workflow commands of GitHub Actions, which are shown beside the lines of a pull request.

Source: GitHub Docs, "Workflow commands for GitHub Actions", sections on notice, warning and error messages;
the escapes are those of actions/toolkit, packages/core/src/command.ts; visible text holds no line break to escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

from tcprobe.formatting import relative
from tcprobe.report import RenderSpec
from tcprobe.report.audit import words
from tcprobe.report.audit.data import notices
from tcprobe.schema.model import Place
from tcprobe.visible import shown

if TYPE_CHECKING:
    from tcprobe.report.audit.document import AuditDocument

NOTICES: Final = {
    "unused": ("notice", "tcprobe (unused suppression)", ""),
    "failed": ("error", "tcprobe", "not audited: "),
    "unjudged": ("error", "tcprobe", "nothing judged: "),
}
"""The command of each notice that is told, its title, and what its text begins with."""
COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def render(document: AuditDocument, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write a command for each finding that is not suppressed or known, unused suppression, file not read or judged."""
    report = document.report
    for audited, finding in words.rows(report):
        command, title = COMMANDS.get(finding.severity or "", "notice"), f"tcprobe ({finding.code})"
        said = words.finding_line(audited, finding)
        out.write(_command(command, title, finding.place, audited.file, report.root, said))
    for notice in sorted(notices(report), key=lambda notice: notice.kind != "unused"):
        if notice.kind in NOTICES:
            command, title, opening = NOTICES[notice.kind]
            out.write(_command(command, title, notice.place, notice.file, report.root, f"{opening}{notice.text}"))


def _command(command: str, title: str, place: Place | None, file: str, root: str, text: str) -> str:
    given: dict[str, object] = {"title": title, "file": relative(place.file if place else file, root)}
    if place is not None and place.in_cell is not None:
        given["line"] = place.in_cell.row  # GitHub counts the lines of the file itself, not those of cells
        text = f"{place.position}: {text}"
    elif place is not None:
        given |= {"line": place.line, "col": place.column}
        if place.end_line is not None and place.end_column is not None:
            # GitHub shows columns only if start and end are on one line.
            given |= {"endLine": place.end_line, "endColumn": place.end_column}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in given.items())
    return f"::{command} {properties}::{_data(text)}\n"


def _data(text: str) -> str:
    return shown(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
