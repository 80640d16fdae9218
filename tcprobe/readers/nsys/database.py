"""Read what Nsight Systems records: its SQLite exports, and its own reports through nsys."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

from msgspec import Struct

from tcprobe.errors import EmptyInput, InputError, ToolError, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.foreign import SQLITE, below, head, modified, opened, real_path, size_text
from tcprobe.readers.one_run import not_one_run
from tcprobe.schema.profile import Profile
from tcprobe.visible import say

FORMAT: Final = "nsys"
WHAT: Final = "Nsight Systems' report (*.nsys-rep) or its SQLite export (nsys export --type=sqlite)"
_DATABASES: Final = (".sqlite", ".sqlite3", ".db")
_NAMES_TABLE: Final = b"CREATE TABLE StringIds"


def finds(path: Path) -> list[Path]:
    """Return the exports and reports of Nsight Systems at `path`, by content.

    A report beside its own export is the same recording: the export is read alone, unless it is older. What a report
    was made of is passed over.
    """
    if not path.is_dir():
        return [path] if _is_export(path) or looks_like_report(path) else []
    found = below(path, lambda name: name.lower().endswith((*_DATABASES, *ENDINGS))).files
    exports = [one for one in found if one.name.lower().endswith(_DATABASES) and _is_export(one)]
    reports = [one for one in found if one.name.lower().endswith(ENDINGS) and looks_like_report(one)]
    stale = {one for one in exports if any(_same(one, r) and modified(r) > modified(one) for r in reports)}
    fresh = [one for one in exports if one not in stale]
    alone = [r for r in reports if not any(_same(one, r) for one in fresh)]
    whole = [r for r in alone if not r.name.lower().endswith(STREAM_ENDING)]
    return sorted([*fresh, *whole, *(r for r in alone if r not in whole and not any(_same(r, w) for w in whole))])


def _same(export: Path, report: Path) -> bool:
    return export.parent == report.parent and export.stem == report.stem


def _is_export(path: Path) -> bool:
    """Whether a file is an export; one whose tables cannot be read is, where it begins like one."""
    if head(path, len(SQLITE)) != SQLITE:
        return False
    if not reads_databases():
        return _NAMES_TABLE in (head(path, 1 << 20) or b"")
    from tcprobe.readers.nsys.opening import peek_tables
    from tcprobe.readers.nsys.recording import is_recording

    if tables := peek_tables(path):
        return is_recording(tables)
    return _NAMES_TABLE in (head(path, 1 << 20) or b"")


def reads_databases() -> bool:
    """Whether this Python has the module for SQLite, which not every build has."""
    try:
        import_module("sqlite3")
    except ImportError:
        return False
    return True


def read(files: list[Path]) -> Profile:
    """Read one recording; see `read_recording`.

    Raises:
        UsageError: there are several, which are ranks or runs of their own.
        InputError: the file is damaged, being written, or holds no recording, or this Python reads no database.
    """
    if len(files) > 1:
        raise not_one_run(files, "each recording of Nsight Systems is read by itself")
    (path,) = files
    if not reads_databases():
        found = "needs Python's module sqlite3 to be read, which this Python lacks"
        raise UnreadableInput(path, found, "run tcprobe in one that has it: python3 -c 'import sqlite3' tells")
    from tcprobe.readers.nsys.recording import read_recording

    if not looks_like_report(path):
        return read_recording(path, path)
    with to_sqlite(path) as export:
        return read_recording(export, path)


STREAM_ENDING: Final = ".qdstrm"
ENDINGS: Final = (".nsys-rep", ".qdrep", STREAM_ENDING)
REPORT: Final = b"NVIDIA Tegra Profiler Report "
STREAM: Final = b"U3w[END]NVIDIA Nsight Systems Stream "
LARGEST: Final = 1 << 40
LEAST_S: Final = 120.0
S_PER_MIB: Final = 5.0  # nsys 2022.4.2 takes 0.2 s for a report of 1 MiB
_PEEK: Final = 160
_NSYS: Final = "nsys"
_VERSION: Final = re.compile(r"(\d{4})[.@](\d{1,2})[.@](\d{1,3})")
_TOO_NEW: Final = re.compile(r"Version number is invalid|ProtobufParseException|update your .*Nsight", re.IGNORECASE)
_FULL: Final = re.compile(r"disk is full|No space left|disk quota", re.IGNORECASE)
_ERROR: Final = re.compile(r"^(?:Exportation error|.*\berror)\s*:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_MOST_SAID: Final = 1 << 16


class _Export(Struct, frozen=True):
    """An export that was tried."""

    report: Path  # the report, as the user named it
    nsys: str  # the program
    made: Path  # what it was to write
    status: int | None  # how it ended; None if its time ran out
    said: str  # what it printed, its end if that is long


def looks_like_report(path: Path) -> bool:
    """Return whether a file begins as nsys's reports do (.nsys-rep, .qdrep), or as what comes before one (.qdstrm)."""
    return (head(path, _PEEK) or b"").startswith((REPORT, STREAM))


@contextmanager
def to_sqlite(path: Path) -> Iterator[Path]:
    """Export a report with the nsys on PATH; provide the database, which is removed in the end.

    Nothing is written beside the report. One line on standard error says what takes the time.

    Raises:
        InputError: there is no nsys, or none that reads this report; the report is empty, damaged or none; the
            database is too large for the disk or takes too long.
        OutputError: there is no place for temporary files.
    """
    from tcprobe.bypath import scratch_folder

    nsys = _able(path)
    with scratch_folder("tcprobe-nsys-") as folder:
        tried = _export(path, nsys, folder)
        _check(tried)
        yield tried.made


def _able(path: Path) -> str:
    """Return the nsys to use for a file that it may read."""
    with opened(path, LARGEST) as file:
        start = file.read(_PEEK)
    if not start:
        raise EmptyInput(path, "the file is empty", "record again, and wait until nsys has ended")
    if start.startswith(STREAM):
        found = "is what nsys recorded before it made a report of it: its importer was missing"
        raise WrongFormat(path, found, f"run QdstrmImporter --input-file={_quoted(path)} of a full Nsight Systems")
    if not start.startswith(REPORT):
        raise WrongFormat(path, "is no report of Nsight Systems", "check the path")
    nsys = shutil.which(_NSYS)
    if nsys is None:
        found = "is Nsight Systems' own report, which only nsys reads, and no nsys is on PATH"
        raise UnreadableInput(path, found, f"install Nsight Systems, or {_elsewhere(path)}")
    return nsys


def _elsewhere(path: Path) -> str:
    made = path.with_suffix(".sqlite").name
    return f"export it where it was recorded: nsys export --type=sqlite --output={_quoted(made)} {_quoted(path.name)}"


def _quoted(path: Path | str) -> str:
    return shlex.quote(str(path))


def _export(path: Path, nsys: str, folder: Path) -> _Export:
    """Run nsys on a link to the report: its name may be any, and nothing is written beside it."""
    from tcprobe.bypath import run_to_end

    size = path.stat().st_size
    say(f"{path}: exporting {size_text(size)} to SQLite with {nsys}")
    link, made, log = folder / "report.nsys-rep", folder / "report.sqlite", folder / "log"
    link.symlink_to(real_path(path))
    command = (nsys, "export", "--type=sqlite", f"--output={made}", str(link))
    try:
        status = run_to_end(command, os.environ, log, log, _limit_s(size))
    except ToolError as error:
        raise UnreadableInput(path, f"nsys does not export it: {error.message}", _elsewhere(path)) from error
    with opened(log, LARGEST) as file:
        file.seek(max(log.stat().st_size - _MOST_SAID, 0))
        said = file.read().decode(errors="replace").replace("\r", "\n")  # a progress bar begins its line anew
    return _Export(path, nsys, made, status, said)


def _limit_s(size: int) -> float:
    return LEAST_S + S_PER_MIB * size / 2**20


def _check(tried: _Export) -> None:
    """Raise what went wrong, whatever the exit status says."""
    if tried.status == 0 and _has_tables(tried.made):
        return
    path = tried.report
    if tried.status is None:
        found = f"nsys did not export it within {_limit_s(path.stat().st_size):,.0f} s"
        raise UnreadableInput(path, found, _elsewhere(path))
    if tried.status == -signal.SIGXFSZ or _FULL.search(tried.said):
        found = f"its export does not fit in {tried.made.parent.parent}, the folder for temporary files"
        raise UnreadableInput(path, found, "make room there, or set TMPDIR to a folder with more")
    told = _version_line(tried)
    if _version(told) is None and "nsight" not in told.lower():
        found = f"only nsys reads it, and {tried.nsys} is another program: --version printed '{told[:200]}'"
        raise UnreadableInput(path, found, f"put Nsight Systems first on PATH, or {_elsewhere(path)}")
    raise _too_new(tried, _version(told)) or _refused(tried)


def _has_tables(database: Path) -> bool:
    """Return whether a file is a database with nsys's table of names, which none of its exports lacks."""
    from tcprobe.readers.nsys.opening import peek_tables

    return "StringIds" in (peek_tables(database) or ())


def _too_new(tried: _Export, have: tuple[int, ...] | None) -> InputError | None:
    """Return the error for a report that a newer nsys than what we `have` wrote; None where nothing says so."""
    start = (head(tried.report, _PEEK) or b"").removeprefix(REPORT).decode("ascii", "replace")
    wrote = _version(start)
    told = _TOO_NEW.search(tried.said) is not None
    if not told and not (wrote and have and wrote > have):
        return None
    by = f"Nsight Systems {_dotted(wrote)}" if wrote else "another version of Nsight Systems, which it does not name"
    ours = f"nsys {_dotted(have)}" if have else "an nsys that does not say its version"
    need = f"nsys {_dotted(wrote)} or later" if wrote else "a later nsys"
    found = f"was written by {by}; on PATH is {ours}, which does not read it"
    return UnsupportedVersion(tried.report, found, f"put {need} on PATH, or {_elsewhere(tried.report)}")


def _version_line(tried: _Export) -> str:
    from tcprobe.bypath import last_line, run_to_end

    log = tried.made.with_name("version")
    run_to_end((tried.nsys, "--version"), os.environ, log, log, LEAST_S)
    return last_line(log)


def _version(text: str) -> tuple[int, ...] | None:
    """Return the version in ``version 2022.4.2.1-df9881f`` or ``2025@5@1@121-255136380782v0``; None without one."""
    found = _VERSION.search(text)
    return tuple(map(int, found.groups())) if found else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _refused(tried: _Export) -> InputError:
    """Return the error for a report that nsys does not take, in its words."""
    from tcprobe.bypath import ending

    errors = _ERROR.findall(tried.said)
    said = errors[-1].strip() if errors else " ".join(tried.said.split())
    how = f"nsys says '{said[:200]}'" if said else f"nsys {ending(tried.status or 0)} and wrote no table"
    found = f"is damaged, cut off or still written: {how}"
    return WrongFormat(tried.report, found, "copy it again, or record again and wait until nsys has ended")
