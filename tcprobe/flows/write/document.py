"""`write_document`: a document to a terminal, a file or a folder of CSVs; a file appears complete or not at all."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from tcprobe.errors import OutputError, writing
from tcprobe.flows.write.destination import Destination
from tcprobe.flows.write.files import write_files
from tcprobe.report.base import RenderSpec
from tcprobe.report.document import Document
from tcprobe.visible import encodable


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
