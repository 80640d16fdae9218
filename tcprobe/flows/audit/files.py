"""Find the files to audit: those named, and the Python files and notebooks in named folders, but for excluded ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.errors import EmptyInput, InputError, MissingInput, UnreadableInput, UsageError
from tcprobe.foreign import Entry, input_path, is_file, is_folder, is_there, real_path, walk

SKIPPED: Final = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"})
"""Folders without the user's own code; hidden ones and those with a ``pyvenv.cfg`` are skipped too."""
STDIN: Final = "-"
ENDINGS: Final = (".py", ".ipynb")
FailedFile = tuple[str, str]
"""Path of a file that could not be audited, and why."""


class Exclusion(Struct, frozen=True):
    """Patterns of files to leave out, as ruff has them."""

    root: Path  # absolute path of the folder that the patterns are relative to
    # of paths below `root`, or of single names of files and folders; ``*`` stands for slashes too. A pattern of a
    # folder leaves out all below it.
    patterns: tuple[str, ...] = ()
    force: bool = False  # leave out a file that the user named, too

    def of_named(self, path: Path) -> bool:
        """Say whether a file is left out although it was named."""
        return self.force and self._matches(path, 0)

    def of_found(self, path: Path, folder: Path) -> bool:
        """Say whether a file found in the folder that was named is left out; folders above that say nothing."""
        return self._matches(path, len(self._below(folder)))

    def _matches(self, path: Path, start: int) -> bool:
        parts = self._below(path)
        paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        return any(_matches(paths[n], parts[n], p) for n in range(start, len(parts)) for p in self.patterns)

    def _below(self, path: Path) -> tuple[str, ...]:
        """Return the names of a path from `root` on; from the top of the disk on where it lies elsewhere."""
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as the user sees them
        return whole.relative_to(self.root).parts if whole.is_relative_to(self.root) else whole.parts


NOTHING: Final = Exclusion(Path("/"))


def _matches(path: str, name: str, pattern: str) -> bool:
    plain = pattern.removeprefix("./").rstrip("/")
    return fnmatch(path, plain) or fnmatch(name, plain.removeprefix("**/"))


class AuditFile(Struct, frozen=True):
    """One file to audit."""

    path: Path  # absolute, with links resolved
    named: str  # as the user named it, for messages
    factory: str | None = None  # function that makes the model, from ``model.py:factory``; None if none was named
    # absolute path of the folder that the user named and that it was found in; None if it was named itself
    tree: str | None = None
    itself: bool = True  # whether the user named the file, not only a folder around it
    content: bytes | None = None  # what standard input held; None for a file

    @property
    def notebook(self) -> bool:
        """Return whether it is a Jupyter notebook, by its name."""
        return self.path.suffix == ".ipynb"


class AuditFiles(Struct, frozen=True):
    """The files to audit, without duplicates."""

    files: tuple[AuditFile, ...]  # in the order given; those of a folder by path
    failed: tuple[FailedFile, ...] = ()  # what was named and cannot be audited, and why
    folder: bool = False  # whether the user named a folder

    @property
    def several(self) -> bool:
        """Return whether a folder or more than one file was named."""
        return self.folder or len(self.files) + len(self.failed) > 1


def first_named(names: Sequence[str], stdin_name: str | None = None) -> Path:
    """Return the file or folder whose settings count: the first that was named, else the working directory."""
    if not names:
        return Path.cwd()
    if names[0] == STDIN:
        return Path(stdin_name or STDIN)
    return named_path(names[0])


def named_path(name: str) -> Path:
    """Return the file or folder that a name stands for: the file of ``model.py:factory``."""
    return Path(name if is_there(name) else _factory(name)[0])


def standard_input(content: bytes, name: str | None) -> AuditFiles:
    """Return what was read from standard input as the only file, under the name that it shall have."""
    return AuditFiles((AuditFile(Path(name or STDIN).absolute(), name or STDIN, content=content),))


def find_targets(names: Sequence[str], exclusion: Exclusion = NOTHING) -> AuditFiles:
    """Return the files that `names` stand for, in the order given; files of a folder are sorted by path.

    Of several names, those that cannot be used are in `failed`.

    Raises:
        UsageError: no name was given.
        MissingInput: there is no such file or folder, and nothing else was named.
        EmptyInput: a folder has no Python file, and nothing else was named.
        UnreadableInput: the system refused to list a folder, likewise.
    """
    if not names:
        raise UsageError("no file to audit", "tcprobe audit-shapes model.py")
    found: dict[tuple[Path, str | None], AuditFile] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            for target in _targets(name, exclusion, failed):
                known = found.setdefault((target.path, target.factory), target)
                if target.itself and not known.itself:
                    found[target.path, target.factory] = replace(known, itself=True)
        except InputError as error:
            if len(names) == 1:
                raise
            failed[str(Path(name).absolute())] = error.found
    return AuditFiles(tuple(found.values()), tuple(failed.items()), any(map(is_folder, names)))


def _targets(name: str, exclusion: Exclusion, failed: dict[str, str]) -> Iterator[AuditFile]:
    path = input_path(name)
    if path.is_dir():
        yield from _in_folder(name, exclusion, failed)
    elif path.exists():
        if not exclusion.of_named(path):
            yield AuditFile(real_path(name), name)
    else:
        file, factory = _factory(name)
        if factory is None:
            from tcprobe.flows.workloads import packaged  # whose records of captures load numpy

            workload = packaged(name)
            hint = f"the workload's script is {workload.path}" if workload else None
            raise MissingInput(name, "no such file or folder", hint)
        yield AuditFile(real_path(file), file, factory)


def _factory(name: str) -> tuple[str, str | None]:
    """Split ``model.py:factory``; the whole name and None where it is no such thing."""
    file, _, factory = name.rpartition(":")
    return (file, factory) if file and factory.isidentifier() and is_file(file) else (name, None)


def _in_folder(name: str, exclusion: Exclusion, failed: dict[str, str]) -> Iterator[AuditFile]:
    refused: dict[str, str] = {}
    listed = list(_python_files(name, exclusion, refused))
    if not listed and name in refused:
        raise UnreadableInput(name, refused[name])
    if not listed and not refused:
        raise EmptyInput(name, "no Python file in this folder")
    failed |= {str(Path(folder).absolute()): why for folder, why in refused.items()}
    kept = sorted(file for file in listed if file is not None)
    tree = str(real_path(name))
    yield from (AuditFile(real_path(file), file, tree=tree, itself=False) for file in kept)


def _python_files(folder: str, exclusion: Exclusion, refused: dict[str, str]) -> Iterator[str | None]:
    """Yield the Python files and notebooks below a folder, None for each file or folder that is excluded.

    What cannot be listed, or is too much to be searched, is noted in `refused`.
    """
    for _, folders, others in walk(folder, refused):
        own = [entry for entry in folders if not _skipped(entry)]
        folders[:] = [entry for entry in own if not exclusion.of_found(Path(entry.path), Path(folder))]
        yield from [None] * (len(own) - len(folders))
        for entry in others:
            if entry.name.endswith(ENDINGS) and entry.name[0] != "." and not _leads_to_folder(entry):
                yield None if exclusion.of_found(Path(entry.path), Path(folder)) else entry.path


def _leads_to_folder(entry: Entry) -> bool:
    return entry.is_symlink() and is_folder(entry.path)


def _skipped(entry: Entry) -> bool:
    return entry.name.startswith(".") or entry.name in SKIPPED or is_there(f"{entry.path}/pyvenv.cfg")


def repository(path: Path) -> Path | None:
    """Return the nearest folder at or above a file with a ``.git``; None if there is none."""
    return next((folder for folder in path.parents if is_there(folder / ".git")), None)
