"""Renderer: one table of a document as CSV (RFC 4180, UTF-8).

NA is an empty field, a bool is true or false, a figure keeps its full precision; a name is never shortened, and
quoted if necessary. Names are as they were found, except on a terminal, and where spreadsheets must not compute them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TextIO

from tcprobe.report import RenderSpec
from tcprobe.report.document import DataTable, Document
from tcprobe.visible import visible

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

SPECIAL: Final = re.compile(r'[",\r\n]')
FORMULA: Final = re.compile("(?:^|(?<=[;\t\r\n]))(?=[=+@\t\r\n\0\uff1d\uff0b\uff0d\uff20-])")
"""Where a spreadsheet may begin to compute a text: where it begins, or where it is split at ``;`` or a tab.

Source: OWASP, "CSV Injection"; OWASP ASVS 5.0, 1.2.10.
"""
NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[Ee][+-]?\d+)?")


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:
    """Write the one table that a single file can hold.

    Raises:
        UsageError: the document cannot tell which table that is.
    """
    write_table(document.table(), out, spec.safe_csv)


def write_table(table: DataTable, out: TextIO, safe: bool = False) -> None:
    """Write a table's header and rows; `safe` for a spreadsheet, which computes what looks like a formula."""
    field, shown = _harmless if safe else _field, visible if out.isatty() else str
    out.write(",".join(map(_field, table.columns)) + table.newline)
    out.writelines(shown(",".join(map(field, row))) + table.newline for row in table.rows())


def _harmless(value: Value) -> str:
    """Return a field that no spreadsheet computes: text in quotes, with an apostrophe before what begins a formula."""
    if not isinstance(value, str) or NUMBER.fullmatch(value):
        return _field(value)
    return _quoted(FORMULA.sub("'", value))


def _field(value: Value) -> str:
    """Return a field, quoted if necessary; the csv module would leave a bare carriage return unquoted."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return _quoted(text) if SPECIAL.search(text) else text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
