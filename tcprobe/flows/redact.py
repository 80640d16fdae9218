"""`redact` as a function: take the environment, and what was printed, out of profilers' files."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcprobe.capture import environment
from tcprobe.capture.folder import private_files
from tcprobe.capture.nsys import PRIVATE, REPORTS, STREAM
from tcprobe.errors import MissingInput, OutputError, TcprobeError, UsageError, WrongFormat, writing
from tcprobe.flows.write import write_files
from tcprobe.foreign import SQLITE, below, head, is_file, real_path
from tcprobe.jsonfile import read_object
from tcprobe.masking import REDACTED
from tcprobe.probe.constants import RECORD
from tcprobe.probe.ranks import RANKS
from tcprobe.readers.nsys.recording import CAPTURED, FRAMEWORKS, MACHINE
from tcprobe.schema.statement import Cleaned, Left, Redaction

if TYPE_CHECKING:
    import sqlite3

UNCLEANABLE: Final = (*REPORTS, STREAM)
DATABASES: Final = (".sqlite", ".db", ".sqlite3")
_ENDINGS: Final = (*DATABASES, *UNCLEANABLE)
LEFT_BESIDE: Final = ("-wal", "-journal")  # of SQLite, while somebody writes
STREAMS: Final = ("PROCESS_STREAMS", "ProcessStreams")  # the second to 2022
VACUUM_INTO: Final = (3, 27)  # first version of SQLite that has it
LEFTOVER: Final = re.compile(r"\..+\.redacted-\d+(-new)?")
"""Names of the files beside a database while it is cleaned; of a redact that was killed they stay."""
_VARIABLE: Final = re.compile(rb"[\w.()%+-]+=")
_REFERENCE: Final = re.compile(r"(?:name|(?<!con)text|symbol|module)(?:id)?$", re.IGNORECASE)
_DEVICE: Final = "DeviceEnvironment"
_PROCESS: Final = "ENVIRONMENT_VARIABLE"


class NothingToRedact(UsageError):
    """There is no file of Nsight Systems."""


def redact(path: Path, delete: bool = False) -> Redaction:
    """Blank the environment, and what the workload printed, in databases of Nsight Systems, and name other files.

    Each database is written beside itself and takes the place of the old one when it is whole. Of the environment stays
    what run.json has too: variables that bear on the figures, without secrets.

    Args:
        path: a run folder, any other folder, or a file.
        delete: delete what cannot be cleaned and has an export to SQLite beside it.

    Raises:
        MissingInput: there is no such file or folder.
        NothingToRedact: there is no file of Nsight Systems.
        InputError: the folder cannot be searched.
    """
    cleaned: list[Cleaned] = []
    deleted: list[str] = []
    left: list[Left] = []
    found = list(_files(path))
    if not found:
        raise NothingToRedact(
            f"{path}: holds no file of Nsight Systems, which alone keep the environment",
            f"name a run folder, or a file ending in {', '.join((*UNCLEANABLE, DATABASES[0]))}",
        )
    for one in found:
        if one.suffix in UNCLEANABLE:
            continue
        try:
            cleaned.append(_clean(one))
        except TcprobeError as error:
            left.append(Left(str(one), "being_written" if _is_being_written(one) else "refused", error.message))
    whole = {Path(one.path).with_suffix("") for one in cleaned}
    for one in found:
        if one.suffix not in UNCLEANABLE:
            continue
        if (alone := one.with_suffix("") not in whole) or not delete:
            left.append(Left(str(one), "only_recording" if alone else "environment"))
            continue
        with writing(one):
            one.unlink()
        deleted.append(str(one))
    if path.is_dir():
        for record in below(path, lambda name: name == RECORD).files:
            _tell(record, [Path(one.path) for one in left], [Path(one.path) for one in cleaned if one.arguments])
    return Redaction(tuple(cleaned), tuple(deleted), tuple(left))


def _files(path: Path) -> Iterator[Path]:
    """Yield the files of Nsight Systems, sorted.

    Raises:
        MissingInput: there is nothing.
    """
    if path.is_dir():
        candidates = below(path, lambda name: name.endswith(_ENDINGS) or bool(LEFTOVER.fullmatch(name))).files
    elif is_file(path):
        real = real_path(path)
        leftovers = sorted(real.parent.glob(f".{escape(real.name)}.redacted-*"))
        candidates = (path, *(one for one in leftovers if LEFTOVER.fullmatch(one.name)))
    else:
        raise MissingInput(path, "is not there, or no file", "name a run folder, or a file of a profiler")
    for one in candidates:
        if one.suffix in UNCLEANABLE or (head(one, len(SQLITE)) == SQLITE and _is_of_nsys(one)):
            yield one


def _is_of_nsys(path: Path) -> bool:
    """Whether a database has a table of nsys's that may hold what is the user's alone; one that is damaged counts."""
    import sqlite3

    try:
        with closing(sqlite3.connect(f"{real_path(path).as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            return bool(_tables(database) & {"StringIds", MACHINE, CAPTURED})
    except sqlite3.Error:
        return True


def _tables(database: sqlite3.Connection) -> set[str]:
    named = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name.decode(errors="replace") if isinstance(name, bytes) else name for (name,) in named}


def _is_being_written(path: Path) -> bool:
    real = real_path(path)
    beside = (real.with_name(real.name + ending) for ending in LEFT_BESIDE)
    return any(is_file(one) and one.stat().st_size > 0 for one in beside)


def _clean(path: Path) -> Cleaned:
    """Write a database anew without what is private, and put it in the place of the old one.

    Raises:
        WrongFormat: it is damaged.
        OutputError: somebody writes it, or the system refused; it is then as it was.
    """
    import sqlite3

    if _is_being_written(path):
        raise OutputError(f"{path}: another program writes it", "wait until that has ended")
    real = real_path(path)
    beside = real.with_name(f".{real.name}.redacted-{os.getpid()}")
    new = beside.with_name(f"{beside.name}-new")
    try:
        with writing(beside), private_files():
            shutil.copy(real, beside)
            with closing(sqlite3.connect(beside)) as database:
                database.text_factory = bytes  # texts of nsys need not be UTF-8
                for setting in ("secure_delete = ON", "journal_mode = OFF"):  # a copy needs no way back
                    database.execute(f"PRAGMA {setting}")
                counts = _blank_variables(database), _blank_printed(database), _count_arguments(database)
                database.commit()
                if sqlite3.sqlite_version_info >= VACUUM_INTO:
                    database.execute("VACUUM INTO ?", (str(new),))
                else:
                    database.execute("VACUUM")
            if not new.exists():
                beside.replace(new)
            shutil.copymode(real, new)
            with new.open("ab") as file:
                os.fsync(file.fileno())  # which VACUUM INTO leaves to its caller
            new.replace(real)
    except sqlite3.Error as error:
        raise WrongFormat(path, f"is a damaged database: {error}", "export it again, or delete it") from error
    finally:
        for one in (beside, new):
            with suppress(OSError):
                one.unlink(missing_ok=True)
    return Cleaned(str(path), *counts)


def _blank_variables(database: sqlite3.Connection) -> int:
    """Blank the environment in the three places where versions of nsys keep it; return how many variables went."""
    tables, count = _tables(database), 0
    if MACHINE in tables:
        for row, value in _rows(database, f"SELECT rowid, value FROM {MACHINE} WHERE name = ?", _DEVICE):
            lines = [line for line in re.split("[\0\n]", value) if line and not line.startswith(REDACTED)]
            kept = _kept(lines)
            count += len(lines) - len(kept)
            text = "\0".join((*(f"{name}={held}" for name, held in kept.items()), f"{REDACTED}=1"))
            _write(database, MACHINE, row, text)
    if CAPTURED in tables:
        asked = f"SELECT rowid, value FROM {CAPTURED} WHERE name LIKE ?"
        for row, value in _rows(database, asked, f"%:{_PROCESS}"):
            kept = _kept([value])
            text = next((f'{name}="{held}"' for name, held in kept.items()), f'{REDACTED}="1"')
            count += not kept and REDACTED not in value
            _write(database, CAPTURED, row, text)
    return count + (_blank_strings(database) if "StringIds" in tables else 0)


def _write(database: sqlite3.Connection, table: str, row: int, text: str) -> None:
    written = text.encode(errors="surrogateescape")
    database.execute(f"UPDATE {table} SET value = CAST(? AS TEXT) WHERE rowid = ?", (written, row))


def _blank_strings(database: sqlite3.Connection) -> int:
    """Blank whole environments among the strings; return how many variables went.

    A string with a NUL is one: names of kernels, ranges and threads end there. Without a NUL it is one of a single
    variable, unless a table names something so, as an NVTX range ``lr=0.1``.
    """
    blocks: dict[int, int] = {}
    alone: set[int] = set()
    for row, value in database.execute("SELECT id, value FROM StringIds WHERE instr(CAST(value AS BLOB), x'3d')"):
        if b"\0" in value:
            blocks[row] = sum(map(bool, value.split(b"\0")))
        elif _VARIABLE.match(value):
            alone.add(row)
    if alone:
        blocks |= dict.fromkeys(alone - _names(database), 1)
    database.executemany("UPDATE StringIds SET value = '' WHERE id = ?", ((row,) for row in blocks))
    return sum(blocks.values())


def _names(database: sqlite3.Connection) -> set[int]:
    """Return the strings that are names of something: nsys declares no reference, but names its columns alike."""
    named: set[int] = set()
    for table in _tables(database):
        columns = [row[1].decode(errors="replace") for row in database.execute(f'PRAGMA table_info("{table}")')]
        for column in filter(_REFERENCE.search, columns):
            distinct = database.execute(f'SELECT DISTINCT "{column}" FROM "{table}"')
            named.update(value for (value,) in distinct if isinstance(value, int))
    return named


def _blank_printed(database: sqlite3.Connection) -> int:
    """Blank what the workload printed; return how many texts that are."""
    tables = _tables(database)
    if (streams := next((name for name in STREAMS if name in tables), None)) is None or "StringIds" not in tables:
        return 0
    of = f"id IN (SELECT contentId FROM {streams}) AND value <> ''"
    return database.execute(f"UPDATE StringIds SET value = '' WHERE {of}").rowcount


def _count_arguments(database: sqlite3.Connection) -> int:
    """Return how many words of command lines stay."""
    if CAPTURED not in _tables(database):
        return 0
    counted = database.execute(f"SELECT count(*) FROM {CAPTURED} WHERE name LIKE '%:ARGUMENT!_%' ESCAPE '!'")
    return int(counted.fetchone()[0])


def _rows(database: sqlite3.Connection, *query: str) -> list[tuple[int, str]]:
    found = database.execute(query[0], query[1:]).fetchall()
    return [(row, value.decode(errors="surrogateescape")) for row, value in found if isinstance(value, bytes)]


def _kept(lines: list[str]) -> Mapping[str, str]:
    """Return the variables that may stay: those that run.json has, the rank, and the container's framework."""
    pairs = (line.partition("=") for line in lines)
    held = {name: value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value for name, _, value in pairs}
    plain = {name: held[name] for name in (*RANKS, *FRAMEWORKS) if name in held}
    return {**environment.recorded(held, {}), **plain}


def _tell(record: Path, left: list[Path], with_arguments: list[Path]) -> None:
    """Have a run.json say what its folder still holds, where a note says that all is there.

    Where the probe ran, the words of a recording's command lines are not the workload's.
    """
    run = read_object(record)
    notes = run.get("notes")
    if not isinstance(notes, list) or not any(_is_private(note) for note in notes):
        return
    home = record.parent
    mine = [path.name for path in left if path.is_relative_to(home)]
    arguments = [path.name for path in below(home, lambda name: name.startswith("dlprof_dldb")).files]
    if not is_file(home / "probe" / "probe.json"):
        arguments += [path.name for path in (*left, *with_arguments) if path.is_relative_to(home)]
    held = ((mine, "the whole environment and all the output"), (arguments, "the arguments"))
    parts = [f"{', '.join(names)}: still with {what} of the run" for names, what in held if names]
    remedy = "tcprobe redact --delete deletes them" if mine else "look at them before you pass the folder on"
    changed: list[Any] = []
    for note in notes:
        if not _is_private(note):
            changed.append(note)
        elif parts:
            changed.append({**note, "message": "; ".join(parts), "remedy": remedy})
    write: Callable[[Any], None] = lambda out: json.dump({**run, "notes": changed}, out, indent=1)  # noqa: E731
    mode = record.stat().st_mode
    write_files([(record, write)], force=True)
    record.chmod(mode & 0o777)


def _is_private(note: Any) -> bool:
    return isinstance(note, dict) and note.get("code") == PRIVATE
