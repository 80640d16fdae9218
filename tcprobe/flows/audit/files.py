"""Find the files to audit: those named, and the Python files in named folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcprobe.errors import EmptyInput, MissingInput, UsageError

SKIPPED: Final = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
"""Folders without the user's own code; hidden ones and those with a ``pyvenv.cfg`` are skipped too."""


@dataclass(frozen=True, slots=True)
class AuditFile:
    """One file to audit.

    Attributes:
        path: absolute, with links resolved.
        named: as the user named it, for messages.
        factory: function that makes the model, from ``model.py:factory``; None if none was named.
        tree: absolute path of the folder that the user named and that it was found in; None if it was named itself.
    """

    path: Path
    named: str
    factory: str | None = None
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class AuditFiles:
    """The files to audit, without duplicates, and whether the user named a folder."""

    files: tuple[AuditFile, ...]
    folder: bool = False


def find_targets(names: Sequence[str]) -> AuditFiles:
    """Return the files that `names` stand for, in the order given; files of a folder are sorted by path.

    Raises:
        MissingInput: there is no such file or folder.
        EmptyInput: a folder has no Python file.
        UsageError: no name was given.
    """
    if not names:
        raise UsageError("no file to audit", "tcprobe audit-shapes model.py")
    found: dict[tuple[Path, str | None], AuditFile] = {}
    for name in names:
        for target in _targets(name):
            found.setdefault((target.path, target.factory), target)
    return AuditFiles(tuple(found.values()), any(Path(name).is_dir() for name in names))


def _targets(name: str) -> Iterator[AuditFile]:
    path = Path(name)
    if path.is_dir():
        files = sorted(_python_files(name))
        if not files:
            raise EmptyInput(name, "no Python file in this folder")
        tree = str(path.resolve())
        yield from (AuditFile(Path(file).resolve(), file, tree=tree) for file in files)
    elif path.exists():
        yield AuditFile(path.resolve(), name)
    else:
        file, _, factory = name.rpartition(":")
        if not (file and factory.isidentifier() and Path(file).is_file()):
            raise MissingInput(name, "no such file or folder")
        yield AuditFile(Path(file).resolve(), file, factory)


def _python_files(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not _skipped(here, f)]
        yield from (os.path.join(here, file) for file in files if file.endswith(".py") and file[0] != ".")  # noqa: PTH118


def _skipped(here: str, name: str) -> bool:
    return name.startswith(".") or name in SKIPPED or Path(here, name, "pyvenv.cfg").exists()


def repository(path: Path) -> Path | None:
    """Return the nearest folder at or above a file with a ``.git``; None if there is none."""
    return next((folder for folder in path.parents if (folder / ".git").exists()), None)
