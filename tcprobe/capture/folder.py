"""Make run folders: under a temporary name, renamed when complete, never over anything else."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tcprobe.errors import OutputError, writing
from tcprobe.jsonfile import read_object
from tcprobe.probe.constants import PARTIAL, RECORD, RESERVE, RESERVED_BYTES
from tcprobe.schema.profile import Note

HOME: Final = "tcprobe-runs"
LEAST_FREE_BYTES: Final = 64 * 2**20
"""Free space needed at the start: a small profile and its tables."""
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
DISK_FULL: Final = Note(
    "disk-full",
    "no space was left on the disk of the run folder when the workload ended: what was not written by then is lost",
    "make room, or choose another place with --output",
)
REPLACED: Final = Note(
    "folder-replaced",
    "the run folder was removed or renamed while the workload ran: what the profiler had written before is not in it",
    "if it was renamed, it still has that",
)
TAKEN: Final = (errno.ENOTEMPTY, errno.EEXIST)


class RunFolder(Struct, frozen=True):
    """A run folder in the making."""

    path: Path  # where it is now, under its temporary name; ``raw/`` and ``probe/`` exist
    final: Path  # its path when complete
    derived: bool  # whether tcprobe made up the final name, so that a number may be added if it is taken
    # device and inode of the folder; another one lies at `path` where this one was removed or renamed
    identity: tuple[int, int] | None = None
    # the earlier run folder of that name (device and inode) that it replaces; None if it replaces none
    replaces: tuple[int, int] | None = None
    rights: int = 0o700  # of the complete folder and those in it


@contextmanager
def private_files() -> Iterator[int]:
    """Let nobody else read what this process makes in the block, and provide the umask that it had."""
    umask = os.umask(0o077)
    try:
        yield umask
    finally:
        os.umask(umask)


def set_modes(folder: Path, rights: int) -> None:
    """Give a folder and every folder in it these rights, and files those of them that files have.

    Profilers write under masks of their own: Nsight Systems lets everybody write. What the system refuses stays.
    """
    for place, _, names in os.walk(folder):
        for path, mode in ((Path(place), rights), *((Path(place, name), rights & 0o666) for name in names)):
            with suppress(OSError):
                if not path.is_symlink():
                    path.chmod(mode)


def make_folder(output: Path | None, label: str, force: bool = False, share: bool = False) -> RunFolder:
    """Make the folder of a new run.

    Args:
        output: path of the complete folder; None derives ``tcprobe-runs/LABEL-UTC``.
        label: short name of the workload.
        force: whether to replace an earlier run folder at `output`; anything else there is never touched.
        share: whether others may read the complete folder, as far as the umask lets them.

    Raises:
        OutputError: `output` exists, or the folder cannot be made or lacks free space.
    """
    final = output if output is not None else derived(label)
    refuse(final, force)
    with writing(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=_short(PARTIAL, final), dir=final.parent)).resolve()
        for name in ("raw", "probe"):
            (path / name).mkdir(0o700)
        free = shutil.disk_usage(path).free
    if free < LEAST_FREE_BYTES:
        shutil.rmtree(path, ignore_errors=True)
        raise OutputError(
            f"{final.parent}: only {free // 2**20} MB are free, and a run needs {LEAST_FREE_BYTES // 2**20} MB",
            "make room, or choose another place with --output",
        )
    with private_files() as umask, suppress(OSError):  # room for the run's last files, should the disk be full by then
        (path / RESERVE).write_bytes(bytes(RESERVED_BYTES))
    rights = 0o700 | 0o755 & ~umask if share else 0o700
    return RunFolder(path, final, output is None, _identity(path), _identity(final) if force else None, rights)


def was_replaced(folder: RunFolder) -> bool:
    """Say whether the folder was removed or renamed and another one made in its place, which the probe does."""
    return os.path.lexists(folder.path) and _identity(folder.path) != folder.identity


def _short(start: str, final: Path) -> str:
    """Return the beginning of a temporary name; a file system takes 255 bytes, and characters take up to four."""
    return f"{start}{final.name[:50]}-"


def derived(label: str) -> Path:
    """Return a path for a new folder below ``tcprobe-runs``, by name and time."""
    return _free(Path(HOME) / _stamp(label))


def _stamp(label: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', label).strip('.') or 'workload'}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def _free(wanted: Path) -> Path:
    """Return `wanted`, with a number added if it is taken."""
    candidate, number = wanted, 2
    while os.path.lexists(candidate):
        candidate, number = wanted.with_name(f"{wanted.name}-{number}"), number + 1
    return candidate


def refuse(final: Path, force: bool) -> None:
    """Raise OutputError if a run folder may not be written at `final`."""
    if not os.path.lexists(final) or _is_empty(final):
        return
    if not force:
        raise OutputError(f"{final}: exists already", "--force replaces an earlier run, or choose another --output")
    if final.is_symlink() or not is_run_folder(final):
        raise OutputError(
            f"{final}: is no run folder of tcprobe, so --force leaves it alone", "choose another --output"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode; None if there is nothing. A run that another tcprobe has put there has others."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_empty(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    except OSError:
        return False


def is_run_folder(path: Path) -> bool:
    """Say whether tcprobe wrote this folder: its run.json then names tcprobe."""
    return "tcprobe" in read_object(path / RECORD, path)


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write run.json completely or not at all.

    Raises:
        OutputError: the system refused (most often a full disk).
    """
    with writing(folder / RECORD):
        _write(folder, record)


def write_last_record(folder: Path, record: Mapping[str, Any], no_room: Mapping[str, Any]) -> None:
    """Write run.json once the workload has ended; where the disk is full, `no_room` instead, in the room kept for it.

    Raises:
        OutputError: the system refused.
    """
    with writing(folder / RECORD):
        try:
            _write(folder, record)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            (folder / RESERVE).unlink(missing_ok=True)
            _write(folder, no_room)


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    temporary = folder / f".{RECORD}.tmp"
    try:
        temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / RECORD)
    finally:
        with suppress(OSError):  # what failed before is what counts
            temporary.unlink(missing_ok=True)


def seal(folder: RunFolder) -> Path:
    """Give the folder its final name, another one if that has been taken meanwhile, and return it.

    Raises:
        OutputError: it is gone, or the system refused; the message gives the temporary name under which it stays.
    """
    with suppress(OSError):
        (folder.path / RESERVE).unlink(missing_ok=True)
    set_modes(folder.path, folder.rights)
    if not os.path.lexists(folder.path):
        raise OutputError(
            f"{folder.path}: is gone: it was removed or renamed while the workload ran",
            "if it was renamed: tcprobe report with its new name",
        )
    try:
        return _renamed(folder)
    except OSError as error:
        raise OutputError(
            f"{folder.path}: cannot be renamed to {folder.final}: {error.strerror}",
            f"the run is kept: tcprobe report {folder.path}",
        ) from error


def _renamed(folder: RunFolder) -> Path:
    """Rename the folder; a name that another run takes in the same moment costs one more try."""
    while True:
        final, old = folder.final, None
        if os.path.lexists(final) and not _is_empty(final):
            if folder.replaces is not None and folder.replaces == _identity(final) and is_run_folder(final):
                old = _put_aside(final)
            else:
                final = _free(final)
        try:
            folder.path.replace(final)
        except OSError as error:
            if old is not None and not os.path.lexists(final):
                old.replace(final)
            if error.errno not in TAKEN:
                raise
        else:
            if old is not None:
                with suppress(RecursionError):  # of folders a thousand deep, which stay: the new run is what counts
                    shutil.rmtree(old, ignore_errors=True)
            return final


def _put_aside(path: Path) -> Path | None:
    """Rename an earlier run to a name of its own and return that; None if another run was the first to do so."""
    aside = Path(tempfile.mkdtemp(prefix=_short(".old-", path), dir=path.parent))
    try:
        return path.replace(aside)
    except FileNotFoundError:
        aside.rmdir()
        return None
    except OSError:
        aside.rmdir()
        raise


def discard(folder: RunFolder) -> None:
    """Remove a folder whose workload never started, and the folder of all runs if it is empty."""
    shutil.rmtree(folder.path, ignore_errors=True)
    if folder.derived:
        with suppress(OSError):  # it holds other runs, or is gone
            folder.final.parent.rmdir()
