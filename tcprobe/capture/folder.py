"""Make run folders: under a temporary name, renamed when complete, never over anything else."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tcprobe.errors import OutputError
from tcprobe.jsonfile import read_object

HOME: Final = "tcprobe-runs"
RECORD: Final = "run.json"
LEAST_FREE_BYTES: Final = 64 * 2**20
"""Free space needed at the start: a small profile and its tables."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run folder in the making.

    Attributes:
        path: where it is now, under its temporary name; ``raw/`` and ``probe/`` exist.
        final: its path when complete.
        derived: whether tcprobe made up the final name, so that a number may be added if it is taken.
        force: whether it replaces an earlier run folder of that name.
    """

    path: Path
    final: Path
    derived: bool
    force: bool = False


def make_folder(output: Path | None, label: str, force: bool = False) -> RunFolder:
    """Make the folder of a new run.

    Args:
        output: path of the complete folder; None derives ``tcprobe-runs/LABEL-UTC``.
        label: short name of the workload.
        force: whether to replace an earlier run folder at `output`; anything else there is never touched.

    Raises:
        OutputError: `output` exists, or the folder cannot be made or lacks free space.
    """
    final = output if output is not None else _free(Path(HOME) / _stamp(label))
    _refuse(final, force)
    with _named(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=_short(".partial-", final), dir=final.parent)).resolve()
        path.chmod(0o777 & ~_umask())
        for name in ("raw", "probe"):
            (path / name).mkdir()
        free = shutil.disk_usage(path).free
    if free < LEAST_FREE_BYTES:
        shutil.rmtree(path)
        raise OutputError(
            f"{final.parent}: only {free // 2**20} MB are free, and a run needs {LEAST_FREE_BYTES // 2**20} MB",
            "make room, or choose another place with --output",
        )
    return RunFolder(path, final, output is None, force)


def _short(start: str, final: Path) -> str:
    """Return the beginning of a temporary name; a file system takes 255 bytes, and characters take up to four."""
    return f"{start}{final.name[:50]}-"


def _stamp(label: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', label).strip('.') or 'workload'}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _free(wanted: Path) -> Path:
    """Return `wanted`, with a number added if it is taken."""
    candidate, number = wanted, 2
    while os.path.lexists(candidate):
        candidate, number = wanted.with_name(f"{wanted.name}-{number}"), number + 1
    return candidate


def _refuse(final: Path, force: bool) -> None:
    if not os.path.lexists(final) or _is_empty(final):
        return
    if not force:
        raise OutputError(f"{final}: exists already", "--force replaces an earlier run, or choose another --output")
    if final.is_symlink() or not is_run_folder(final):
        raise OutputError(
            f"{final}: is no run folder of tcprobe, so --force leaves it alone", "choose another --output"
        )


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
    with _named(folder / RECORD):
        temporary = folder / f".{RECORD}.tmp"
        try:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            temporary.replace(folder / RECORD)
        finally:
            temporary.unlink(missing_ok=True)


def seal(folder: RunFolder) -> Path:
    """Give the folder its final name, another one if that has been taken meanwhile, and return it.

    Raises:
        OutputError: the system refused; the message gives the temporary name under which the folder stays.
    """
    final, old = folder.final, None
    if os.path.lexists(final) and not _is_empty(final):
        if folder.force and is_run_folder(final):
            old = Path(tempfile.mkdtemp(prefix=_short(".old-", final), dir=final.parent))
        else:
            final = _free(final)
    try:
        if old is not None:
            final.replace(old)
        folder.path.replace(final)
    except OSError as error:
        if old is not None and not final.exists():
            old.replace(final)
        raise OutputError(
            f"{folder.path}: cannot be renamed to {final}: {error.strerror}",
            f"the run is kept: tcprobe report {folder.path}",
        ) from error
    if old is not None:
        with suppress(RecursionError):  # of folders a thousand deep, which stay: the new run is what counts
            shutil.rmtree(old, ignore_errors=True)
    return final


def discard(folder: RunFolder) -> None:
    """Remove a folder whose workload never started, and the folder of all runs if it is empty."""
    shutil.rmtree(folder.path, ignore_errors=True)
    if folder.derived and _is_empty(folder.final.parent):
        folder.final.parent.rmdir()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror}", "check the folder's permissions and the room on its disk"
        ) from error
