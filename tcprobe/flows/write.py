"""Write a document to a terminal, a file or a folder; a file appears complete or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from tcprobe.errors import OutputError, UsageError, writing
from tcprobe.foreign import output_path
from tcprobe.progress import begin, shown
from tcprobe.report import DocumentKind, Renderer, RenderSpec, renderers
from tcprobe.visible import UNENCODABLE, encodable

if TYPE_CHECKING:
    from tcprobe.report.document import Document

Say = Callable[[str], None]
"""How a flow tells its user what it is doing: takes one line of progress."""
REPLACE: Final = "--force replaces it, or choose another name for -o"
FOLDERS: Final[tuple[DocumentKind, ...]] = ("run", "compare", "sweep")
"""Kinds of documents that a folder takes as one CSV per table; other kinds are one file."""


class Destination(NamedTuple):
    """Where a document goes, and in which format."""

    renderer: Renderer  # the format
    path: Path | None = None  # file or folder; None is standard output
    folder: bool = False  # whether `path` is a folder, which gets one CSV per table
    force: bool = False  # whether existing files may be replaced


def destination(kind: DocumentKind, name: str | None, output: str | None, force: bool = False) -> Destination:
    """Decide format and place, before any work is done.

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
    folder = kind in FOLDERS and (path.is_dir() or output.endswith("/") or (not path.suffix and name in (None, "csv")))
    if folder and name not in (None, "csv"):
        ending = _named(kind, str(name)).suffixes[0]
        raise UsageError(f"-o {output} is a folder, and {name} is one file", f"-o {path / 'report'}{ending}")
    renderer = _named(kind, name or "csv") if name or folder else _by_ending(kind, path)
    if folder and path.exists() and not path.is_dir():
        raise OutputError(f"{path}: exists and is no folder", "choose another name for -o")
    if not folder:
        if path.is_dir():
            raise OutputError(f"{path}: is a folder", "choose another name for -o")
        if not path.parent.is_dir():
            raise OutputError(f"{path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
        refuse_existing([path], force)
    return Destination(renderer, path, folder, force)


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


def write_document(document: Document, spec: RenderSpec, to: Destination, stdout: TextIO | None = None) -> list[Path]:
    """Write a document and return the files written, none for standard output, for which alone width and colours count.

    Raises:
        OutputError: a file exists and may not be replaced, or the system refused to write.
        UsageError: the format cannot hold what was asked for.
    """
    if to.path is None:
        out = encodable(stdout or sys.stdout)
        to.renderer.render(document, spec, out)
        out.flush()
        return []
    if to.folder:
        return write_tables(document, to.path, to.force, spec.safe_csv)
    return write_files([(to.path, partial(to.renderer.render, document, RenderSpec(safe_csv=spec.safe_csv)))], to.force)


def write_tables(document: Document, folder: Path, force: bool = False, safe: bool = False) -> list[Path]:
    """Write one CSV per table of a document into `folder`, made if missing; return the files.

    Args:
        document: what to write.
        folder: where to.
        force: replace files that exist.
        safe: write for a spreadsheet (`RenderSpec.safe_csv`).

    Raises:
        OutputError: a file exists and `force` is false, or the system refused; then none is written.
    """
    from tcprobe.report.csv import write_table

    jobs = [(folder / f"{t.name}.csv", partial(write_table, t, safe=safe)) for t in document.tables()]
    made = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        return write_files(jobs, force)
    except OutputError:
        if made:
            with suppress(OSError):  # one that another process fills meanwhile stays
                folder.rmdir()
        raise


def refuse_existing(paths: list[Path], force: bool, hint: str = REPLACE) -> None:
    """Raise OutputError if one of the files exists and `force` is false, or if one is no file but a device or pipe."""
    for path in paths:
        if path.exists() and not path.is_file():
            what = "is a folder" if path.is_dir() else "exists and is no file"
            raise OutputError(f"{path}: {what}", "choose another name; -o - is standard output")
    existing = [p for p in paths if p.exists() or p.is_symlink()]
    if existing and not force:
        more = f" (and {len(existing) - 1} more)" if len(existing) > 1 else ""
        raise OutputError(f"{existing[0]}: exists already{more}", hint)


def write_files(jobs: Sequence[tuple[Path, Callable[[TextIO], None]]], force: bool) -> list[Path]:
    """Write all files under temporary names beside their own, then rename them; a failure leaves no file behind.

    Raises:
        OutputError: a file exists and `force` is false, or the system refused.
    """
    refuse_existing([path for path, _ in jobs], force)
    written: list[tuple[Path, Path]] = []
    try:
        for path, write in jobs:
            begin(f"writing {path.name}")
            with writing(path), shown():
                # A short name that nobody else has: the longest names leave no room for more, and links may be waiting.
                written.append((path.with_name(f".tcprobe-{os.urandom(6).hex()}.tmp"), path))
                with written[-1][0].open("x", encoding="utf-8", errors=UNENCODABLE, newline="") as out:
                    write(out)
        for temporary, path in written:
            with writing(path):
                temporary.replace(path)
    finally:
        for temporary, _ in written:
            with suppress(OSError):  # what failed before is what counts
                temporary.unlink(missing_ok=True)
    return [path for _, path in written]
