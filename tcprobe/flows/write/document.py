"""`write_document`: a document to a terminal, a file or a folder of CSVs; a file appears complete or not at all."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from tcprobe.errors import OutputError
from tcprobe.flows.write.destination import Destination
from tcprobe.flows.write.files import UNENCODABLE, named_failure, write_files
from tcprobe.report.base import RenderSpec
from tcprobe.report.document import Document


def write_document(document: Document, spec: RenderSpec, to: Destination, stdout: TextIO | None = None) -> list[Path]:
    """Write a document and return the files written, none for standard output, for which alone `spec` counts.

    Raises:
        OutputError: a file exists and may not be replaced, or the system refused to write.
        UsageError: the format cannot hold what was asked for.
    """
    if to.path is None:
        out = stdout or sys.stdout
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors=UNENCODABLE)
        to.renderer.render(document, spec, out)
        out.flush()
        return []
    if to.folder:
        return write_tables(document, to.path, to.force)
    return write_files([(to.path, partial(to.renderer.render, document, RenderSpec()))], to.force)


def write_tables(document: Document, folder: Path, force: bool = False) -> list[Path]:
    """Write one CSV per table of a document into `folder`, made if missing; return the files.

    Raises:
        OutputError: a file exists and `force` is false, or the system refused; then none is written.
    """
    from tcprobe.report.csv import write_table

    jobs = [(folder / f"{t.name}.csv", partial(write_table, t)) for t in document.tables()]
    made = not folder.exists()
    with named_failure(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        return write_files(jobs, force)
    except OutputError:
        if made:
            with suppress(OSError):  # one that another process fills meanwhile stays
                folder.rmdir()
        raise
