"""`destination`: decide where a document goes and in which format, before any work is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write.files import refuse_existing
from tcprobe.foreign import output_path
from tcprobe.report import DocumentKind, renderers
from tcprobe.report.base import Renderer

FOLDERS: Final[tuple[DocumentKind, ...]] = ("run", "compare")
"""Kinds of documents that a folder takes as one CSV per table; other kinds are one file."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a document goes, and in which format.

    Attributes:
        renderer: the format.
        path: file or folder; None is standard output.
        folder: whether `path` is a folder, which gets one CSV per table.
        force: whether existing files may be replaced.
    """

    renderer: Renderer
    path: Path | None = None
    folder: bool = False
    force: bool = False


def destination(kind: DocumentKind, name: str | None, output: str | None, force: bool = False) -> Destination:
    """Decide format and place.

    Args:
        kind: kind of the document.
        name: name of a renderer; None decides by the ending of `output`, or takes text if there is no ending.
        output: a file; ``-`` or None for standard output; for some kinds a folder (it ends in ``/``, exists as one, or
            has no ending).
        force: replace what exists.

    Raises:
        UsageError: there is no such format, the ending tells no format, or a folder is given for a single file.
        OutputError: the file exists and `force` is false, or its folder is missing.
    """
    if output is None or output == "-":
        return Destination(_named(kind, name or "text"))
    path = output_path(output)
    folder = kind in FOLDERS and _is_folder(path, name, output)
    if folder and name not in (None, "csv"):
        ending = _named(kind, str(name)).suffixes[0]
        raise UsageError(f"-o {output} is a folder, and {name} is one file", f"-o {path / 'report'}{ending}")
    renderer = _named(kind, name or "csv") if name or folder else _by_ending(kind, path)
    _check(path, folder, force)
    return Destination(renderer, path, folder, force)


def _is_folder(path: Path, name: str | None, output: str) -> bool:
    return path.is_dir() or output.endswith("/") or (not path.suffix and name in (None, "csv"))


def _named(kind: DocumentKind, name: str) -> Renderer:
    for renderer in renderers(kind):
        if name == renderer.name:
            return renderer
    raise UsageError(f"no format {name}", f"there are {', '.join(r.name for r in renderers(kind))}")


def _by_ending(kind: DocumentKind, path: Path) -> Renderer:
    for renderer in renderers(kind):
        if path.suffix.lower() in renderer.suffixes:
            return renderer
    endings = ", ".join(s for r in renderers(kind) for s in r.suffixes)
    which = f"the ending {path.suffix}" if kind in FOLDERS else "its ending"
    raise UsageError(f"-o {path}: {which} tells no format", f"end it in {endings}, or give --format")


def _check(path: Path, folder: bool, force: bool) -> None:
    if folder:
        if path.exists() and not path.is_dir():
            raise OutputError(f"{path}: exists and is no folder", "choose another name for -o")
        return
    if path.is_dir():
        raise OutputError(f"{path}: is a folder", "choose another name for -o")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    refuse_existing([path], force)
