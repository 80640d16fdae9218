"""The reader of DLProf's own database, which it writes on every run: what is left where its reports are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tcprobe.errors import InputError, UnsupportedVersion, WrongFormat
from tcprobe.foreign import SQLITE, below, head
from tcprobe.readers.dlprof.layout import scan
from tcprobe.readers.nsys import database as nsys
from tcprobe.readers.one_run import not_one_run
from tcprobe.schema.profile import Note, Profile

FORMAT: Final = "dlprof_database"
WHAT: Final = "DLProf's database (dlprof_dldb*.sqlite)"
_ENDING: Final = ".sqlite"
_NAMED: Final = "dldb"  # in each name that DLProf gives, numbered or not
_TABLES: Final = frozenset({"dictionary", "read_only_kernels", "read_only_ops"})
_AGAIN: Final = "copy it again, or have DLProf write it again from its recording: dlprof --database=nsys_profile.sqlite"


def finds(path: Path) -> list[Path]:
    """Return DLProf's databases at `path`, by content; in a folder, where none of its reports lies beside.

    One that is empty or damaged goes by its name. With one that is not whole comes what Nsight Systems recorded beside
    it, which is then read in its place.
    """
    if not path.is_dir():
        return [path] if _is_database(path) else []
    found = [one for one in below(path, lambda name: name.lower().endswith(_ENDING)).files if _is_database(one)]
    reported = {report.path.parent for report in scan(path)} if found else set()
    held = [one for one in found if one.parent not in reported]
    broken = {one.parent for one in held if not _is_whole(one)}
    beside = (one for home in broken for one in home.iterdir() if one.name.lower().endswith(_ENDING))
    return sorted([*held, *(one for one in beside if one not in held and nsys.finds(one))])


def _is_database(path: Path) -> bool:
    start = head(path, len(SQLITE))
    if start not in (b"", SQLITE) or not nsys.reads_databases():
        return False
    from tcprobe.readers.nsys.opening import peek_tables

    tables = peek_tables(path) if start else frozenset()
    return tables >= _TABLES if tables else _NAMED in path.name.lower()


def _is_whole(path: Path) -> bool:
    from tcprobe.readers.dlprof.dldb import is_whole

    return is_whole(path)


def read(files: list[Path]) -> Profile:
    """Read one database, or the recording beside one that is not whole.

    Raises:
        UsageError: there are several, of runs or aggregations of their own.
        InputError: it is damaged or being written, or DLProf captured no kernel.
    """
    from tcprobe.readers.dlprof.dldb import read_database

    databases = [path for path in files if _is_database(path)]
    recordings = [path for path in files if path not in databases]
    if len(databases) > 1:
        raise not_one_run(databases, "each database of DLProf is of a run of its own")
    try:
        return read_database(FORMAT, databases[0])
    except InputError as error:
        if recordings:
            return nsys.read(recordings).with_notes(_rescued(databases[0], recordings[0], error))
        if isinstance(error, (WrongFormat, UnsupportedVersion)):
            raise type(error)(error.path, error.found, _AGAIN) from error
        raise


def _rescued(path: Path, recording: Path, error: InputError) -> Note:
    found = f"DLProf left no report, and its database cannot be used ({path.name}: {error.found})"
    message = f"{found}: the recording {recording.name} was read, which knows no key node"
    return Note(
        "dlprof-rescued", message, f"have DLProf read it again: dlprof --database={recording.name} --reports=all"
    )
