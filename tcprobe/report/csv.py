"""Renderer: one table of a document as CSV (RFC 4180, UTF-8).

NA is an empty field, a bool is true or false, a figure keeps its full precision; a name is never shortened, and
quoted if necessary.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TextIO

from tcprobe.report.base import RenderSpec
from tcprobe.report.document import DataTable, Document

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

SPECIAL: Final = re.compile(r'[",\r\n]')


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the one table that a single file can hold.

    Raises:
        UsageError: the document cannot tell which table that is.
    """
    write_table(document.table(), out)


def write_table(table: DataTable, out: TextIO) -> None:
    """Write a table's header and rows."""
    out.write(",".join(map(_field, table.columns)) + table.newline)
    out.writelines(",".join(map(_field, row)) + table.newline for row in table.rows())


def _field(value: Value) -> str:
    """Return a field, quoted if necessary; the csv module would leave a bare carriage return unquoted."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if SPECIAL.search(text) else text
