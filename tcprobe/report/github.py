"""Renderer: a scan as workflow commands of GitHub Actions, which are shown beside the lines of a pull request.

Source: GitHub Docs, "Workflow commands for GitHub Actions", sections on notice, warning and error messages;
the escapes are those of actions/toolkit, packages/core/src/command.ts; visible text holds no line break to escape.
"""

from __future__ import annotations

from typing import Final, TextIO

from tcprobe.report.base import RenderSpec
from tcprobe.report.document import Scanned
from tcprobe.report.formatting import relative
from tcprobe.schema.place import Place
from tcprobe.visible import shown

NOTICES: Final = {
    "unused": ("notice", "tcprobe (unused suppression)", ""),
    "failed": ("error", "tcprobe", "not audited: "),
    "unjudged": ("error", "tcprobe", "nothing judged: "),
}
"""The command of each notice that is told, its title, and what its text begins with."""
COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}


def render(document: Scanned, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write a command for each finding that is not suppressed or known, unused suppression, file not read or judged."""
    scan = document.scan()
    for one in scan.results:
        if not (one.suppressed or one.known):
            finding, title = one.finding, f"tcprobe ({one.finding.code})"
            command = COMMANDS.get(finding.severity or "", "notice")
            out.write(_command(command, title, finding.place, one.file, scan.root, one.sentence))
    for notice in sorted(scan.notices, key=lambda notice: notice.kind != "unused"):
        if notice.kind in NOTICES:
            command, title, opening = NOTICES[notice.kind]
            out.write(_command(command, title, notice.place, notice.file or "", scan.root, f"{opening}{notice.text}"))


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
