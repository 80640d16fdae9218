"""Write an audit: to a terminal or a file; a file appears whole or not at all."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from tcprobe.errors import OutputError, UsageError
from tcprobe.report.audit.base import AUDIT_REPORTERS, AuditReporter, AuditSpec
from tcprobe.schema.finding import AuditReport


@dataclass(frozen=True, slots=True)
class AuditDestination:
    """Where a report of an audit goes, and as what.

    Attributes:
        reporter: the format.
        path: file; None is standard output.
        force: an existing file may be replaced.
    """

    reporter: AuditReporter
    path: Path | None = None
    force: bool = False


def audit_destination(name: str | None, output: str | None, force: bool = False) -> AuditDestination:
    """Decide the format and the place, before any work is done.

    Args:
        name: of a reporter; None lets the ending of `output` decide, text on standard output.
        output: a file; ``-`` or None for standard output.
        force: replace what exists.

    Raises:
        UsageError: no such format, or an ending that tells none.
        OutputError: the file exists already and `force` is false, or its folder is missing.
    """
    if output is None or output == "-":
        return AuditDestination(_named(name or "text"))
    path = Path(output)
    chosen = AuditDestination(_named(name) if name else _by_ending(path), path, force)
    if path.is_dir():
        raise OutputError(f"{path}: is a folder", "choose another name for -o")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    if not force and (path.exists() or path.is_symlink()):
        raise OutputError(f"{path}: exists already", "--force replaces it, or choose another name for -o")
    return chosen


def _named(name: str) -> AuditReporter:
    for reporter in AUDIT_REPORTERS:
        if name == reporter.FORMAT:
            return reporter
    raise UsageError(f"no format {name}", f"there are {', '.join(r.FORMAT for r in AUDIT_REPORTERS)}")


def _by_ending(path: Path) -> AuditReporter:
    for reporter in AUDIT_REPORTERS:
        if path.suffix.lower() in reporter.SUFFIXES:
            return reporter
    endings = ", ".join(s for r in AUDIT_REPORTERS for s in r.SUFFIXES)
    raise UsageError(f"-o {path}: its ending tells no format", f"end it in {endings}, or give --format")


def write_audit(report: AuditReport, spec: AuditSpec, to: AuditDestination, stdout: TextIO | None = None) -> list[Path]:
    """Write an audit; return the files written, none for standard output.

    Raises:
        OutputError: the file exists and may not be replaced, or the system refused to write.
    """
    if to.path is None:
        out = stdout or sys.stdout
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")
        to.reporter.render(report, spec, out)
        out.flush()
        return []
    from tcprobe.flows.write.files import write_files

    plain = replace(spec, width=None, color=False)
    return write_files([(to.path, partial(to.reporter.render, report, plain))], to.force)
