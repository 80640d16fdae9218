"""Read what Nsight Systems records: its SQLite exports, and its own reports through nsys."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from tcprobe.errors import UnreadableInput
from tcprobe.foreign import SQLITE, below, head, modified
from tcprobe.readers.nsys.export import ENDINGS, STREAM_ENDING, looks_like_report, to_sqlite
from tcprobe.readers.one_run import not_one_run
from tcprobe.schema.profile import Profile

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
    if not _reads_databases():
        return _NAMES_TABLE in (head(path, 1 << 20) or b"")
    from tcprobe.readers.nsys.opening import peek_tables
    from tcprobe.readers.nsys.recording import is_recording

    if tables := peek_tables(path):
        return is_recording(tables)
    return _NAMES_TABLE in (head(path, 1 << 20) or b"")


def _reads_databases() -> bool:
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
    if not _reads_databases():
        found = "needs Python's module sqlite3 to be read, which this Python lacks"
        raise UnreadableInput(path, found, "run tcprobe in one that has it: python3 -c 'import sqlite3' tells")
    from tcprobe.readers.nsys.recording import read_recording

    if not looks_like_report(path):
        return read_recording(path, path)
    with to_sqlite(path) as export:
        return read_recording(export, path)
