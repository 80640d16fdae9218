"""The tables as CSV (RFC 4180, UTF-8, lines end in LF): the columns of `tcprobe.schema.tables`, in their order.

NA is an empty field, a bool is true or false, a time is whole ns; a name is whole, quoted where it must be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TextIO

from tcprobe.errors import UsageError
from tcprobe.report.base import ReportSpec
from tcprobe.schema.columns import Kind, Table, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import DERIVED, HOST_OPS, KERNEL_COUNTERS, METRICS, REPORTED, STEPS, TABLES

TABLE_OF = {"kernel": "kernels", "op": "ops", "layer": "layers", "iteration": "iterations", "device": "devices"}
ALWAYS = ("summary", "kernels", "ops", "layers", "iterations", "devices", "bad_sizes")
WRITTEN = (
    *(spec.name for spec in DERIVED),
    *(spec.name for spec in (HOST_OPS, STEPS, METRICS, KERNEL_COUNTERS, REPORTED)),
)
SPECIAL = re.compile(r'[",\r\n]')
PANDAS_DTYPES: dict[Kind, str] = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean"}


def render(profile: Profile, spec: ReportSpec, out: TextIO) -> None:
    """Write one table: the one that ``spec.by`` names, the kernels by default.

    Raises:
        UsageError: more than one table is asked for; one CSV holds one.
    """
    if len(spec.by) > 1:
        raise UsageError(
            f"one CSV holds one table, and --by asks for {len(spec.by)} ({', '.join(spec.by)})",
            "give --by once, or write all tables with -o FOLDER",
        )
    write_table(profile.require(TABLE_OF[spec.by[0] if spec.by else "kernel"]), out, spec.top)


def written(profile: Profile, by: Sequence[str] = ()) -> Iterator[Table]:
    """Yield the tables that are written to a folder: of those that the profile holds, seven always, others with rows.

    A table that is absent (the kernels of a CPU run) is not written: an empty one would say that there were none.
    With `by` these are the summary and what it names.
    """
    wanted = {"summary", *(TABLE_OF[name] for name in by)} if by else set(WRITTEN)
    for name in (name for name in WRITTEN if name in wanted):
        table = profile.table(name)
        if table is not None and (name in ALWAYS or len(table)):
            yield table


def write_table(table: Table, out: TextIO, top: int | None = None) -> None:
    """Write a table's header and rows (the first `top`, where given)."""
    out.write(",".join(c.name for c in table.spec.columns) + "\n")
    columns = [[_cell(v) for v in table.values(c.name)[:top]] for c in table.spec.columns]
    out.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))


def _cell(value: Value) -> str:
    """Return a field, quoted where it must be; the csv module would leave a bare carriage return unquoted."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if SPECIAL.search(text) else text


def pandas_dtypes(table: str) -> dict[str, str]:
    """Return the dtypes with which ``pandas.read_csv`` reads a table's CSV back as it was.

    Raises:
        KeyError: there is no such table.
    """
    return {c.name: PANDAS_DTYPES[c.kind] for c in TABLES[table].columns}
