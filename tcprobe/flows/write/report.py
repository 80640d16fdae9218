"""Write a report: to a terminal, a file or a folder of CSVs; a file appears whole or not at all."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write.files import UNENCODABLE, named_failure, refuse_existing, write_files
from tcprobe.report import REPORTERS, tables_csv
from tcprobe.report.base import Reporter, ReportSpec
from tcprobe.schema.profile import Profile

__all__ = ["Destination", "destination", "write_files", "write_report", "write_tables"]

DEFAULT_TOP = 10
WHOLE = ReportSpec(top=None)
TO_PEOPLE = ("text", "markdown")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a report goes, and as what.

    Attributes:
        reporter: the format.
        path: file or folder; None is standard output.
        folder: `path` is a folder, which gets one CSV per table.
        force: existing files may be replaced.
    """

    reporter: Reporter
    path: Path | None = None
    folder: bool = False
    force: bool = False


def destination(name: str | None, output: str | None, force: bool = False) -> Destination:
    """Decide the format and the place, before any work is done.

    Args:
        name: of a reporter; None lets the ending of `output` decide, text where it has none to go by.
        output: a file, a folder (ends in ``/``, exists as one, or has no ending), ``-`` or None for standard output.
        force: replace what exists.

    Raises:
        UsageError: no such format, an ending that tells no format, or a folder for what is one file.
        OutputError: the file exists already and `force` is false, or its folder is missing.
    """
    if output is None or output == "-":
        return Destination(_named(name or "text"))
    path = Path(output)
    folder = path.is_dir() or output.endswith("/") or (not path.suffix and name in (None, "csv"))
    if folder and name not in (None, "csv"):
        raise UsageError(
            f"-o {output} is a folder, and {name} is one file", f"-o {path / 'report'}{_named(str(name)).SUFFIXES[0]}"
        )
    chosen = Destination(_named(name or "csv") if name or folder else _by_ending(path), path, folder, force)
    _check(chosen)
    return chosen


def _named(name: str) -> Reporter:
    for reporter in REPORTERS:
        if name == reporter.FORMAT:
            return reporter
    raise UsageError(f"no format {name}", f"there are {', '.join(r.FORMAT for r in REPORTERS)}")


def _by_ending(path: Path) -> Reporter:
    for reporter in REPORTERS:
        if path.suffix.lower() in reporter.SUFFIXES:
            return reporter
    endings = ", ".join(s for r in REPORTERS for s in r.SUFFIXES)
    raise UsageError(f"-o {path}: the ending {path.suffix} tells no format", f"end it in {endings}, or give --format")


def _check(chosen: Destination) -> None:
    path = chosen.path
    if path is None:
        return
    if chosen.folder:
        if path.exists() and not path.is_dir():
            raise OutputError(f"{path}: exists and is no folder", "choose another name for -o")
        return
    if path.is_dir():
        raise OutputError(f"{path}: is a folder", "choose another name for -o")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    refuse_existing([path], chosen.force)


def write_report(profile: Profile, spec: ReportSpec, to: Destination, stdout: TextIO | None = None) -> list[Path]:
    """Write an analysed profile; return the files written, none for standard output.

    ``spec.top`` of None shows 10 rows of each table in text and Markdown and all rows elsewhere; 0 shows all.

    Raises:
        OutputError: a file exists and may not be replaced, or the system refused to write.
        UsageError: the format cannot hold what was asked for.
    """
    spec = replace(spec, top=_rows(spec, to))
    if to.path is None:
        out = stdout or sys.stdout
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors=UNENCODABLE)
        to.reporter.render(profile, spec, out)
        out.flush()
        return []
    if to.folder:
        return write_tables(profile, to.path, to.force, spec)
    plain = replace(spec, width=None, color=False)
    return write_files([(to.path, partial(to.reporter.render, profile, plain))], to.force)


def _rows(spec: ReportSpec, to: Destination) -> int | None:
    if spec.top is None:
        return DEFAULT_TOP if to.reporter.FORMAT in TO_PEOPLE else None
    return spec.top or None


def write_tables(profile: Profile, folder: Path, force: bool = False, spec: ReportSpec = WHOLE) -> list[Path]:
    """Write one CSV per table that `spec` asks for into `folder` (made where missing); return the files.

    Raises:
        OutputError: one of them exists and `force` is false, or the system refused; then none is written.
    """
    with named_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
    tables = list(tables_csv.written(profile, spec.by))
    tops = [None if t.spec.name == "summary" else spec.top for t in tables]
    jobs = [
        (folder / f"{t.spec.name}.csv", partial(tables_csv.write_table, t, top=top))
        for t, top in zip(tables, tops, strict=True)
    ]
    return write_files(jobs, force)
