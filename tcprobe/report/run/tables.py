"""The tables of a run's report for programs, with the columns of `tcprobe.schema.tables` in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from tcprobe.errors import UsageError
from tcprobe.report.document import DataTable
from tcprobe.report.run.spec import ReportSpec
from tcprobe.report.run.window import FEWEST_PHASES
from tcprobe.schema.columns import ColumnKind, Table, Value
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import DERIVED, HOST_OPS, KERNEL_COUNTERS, METRICS, REPORTED, STEPS, TABLES

TABLE_OF: Final = {
    "kernel": "kernels",
    "op": "ops",
    "range": "range_kernels",
    "layer": "layers",
    "iteration": "iterations",
    "device": "devices",
    "phase": "phases",
    "gap": "gaps",
    "cause": "causes",
    "advice": "advice",
}
ALWAYS: Final = ("summary", "kernels", "ops", "layers", "iterations", "devices", "bad_sizes")
FEWEST_ROWS: Final = {"phases": FEWEST_PHASES}
WRITTEN: Final = tuple(t.name for t in (*DERIVED, HOST_OPS, STEPS, METRICS, KERNEL_COUNTERS, REPORTED))
PANDAS_DTYPES: Final[dict[ColumnKind, str]] = {"str": "string", "int": "Int64", "float": "Float64", "bool": "boolean"}


def single(profile: Profile, spec: ReportSpec) -> DataTable:
    """Return one table: the one in ``spec.by``, by default the kernels.

    Raises:
        UsageError: several tables were asked for; a CSV holds one.
    """
    if len(spec.by) > 1:
        raise UsageError(
            f"one CSV holds one table, and --by asks for {len(spec.by)} ({', '.join(spec.by)})",
            "give --by once, or write all tables with -o FOLDER",
        )
    table = profile.require(TABLE_OF[spec.by[0] if spec.by else "kernel"])
    return data_table(table, spec.rows_for_programs)


def every_table(profile: Profile, spec: ReportSpec) -> Iterator[DataTable]:
    """Yield the tables for a folder; the summary always has all its rows."""
    for table in written(profile, spec.by):
        yield data_table(table, None if table.spec.name == "summary" else spec.rows_for_programs)


def data_table(table: Table, top: int | None = None) -> DataTable:
    """Return a table of the contract, or its first `top` rows."""
    return DataTable(table.spec.name, tuple(c.name for c in table.spec.columns), partial(_rows, table, top))


def _rows(table: Table, top: int | None) -> Iterable[tuple[Value, ...]]:
    return zip(*(table.values(c.name)[:top] for c in table.spec.columns), strict=True)


def written(profile: Profile, by: Sequence[str] = ()) -> Iterator[Table]:
    """Yield the tables to write to a folder: seven whenever they exist, the others only if they have rows.

    Phases are written only of a run that has several: a single one is the whole run.

    An absent table (the kernels of a CPU run) is not written: an empty one would mean that there were none.
    With `by`, only the summary and the tables named there.
    """
    wanted = {"summary", *(TABLE_OF[name] for name in by)} if by else set(WRITTEN)
    for name in (name for name in WRITTEN if name in wanted):
        table = profile.table(name)
        if table is not None and (name in ALWAYS or len(table) >= FEWEST_ROWS.get(name, 1)):
            yield table


def pandas_dtypes(table: str) -> dict[str, str]:
    """Return the dtypes with which ``pandas.read_csv`` restores a table from its CSV.

    Raises:
        KeyError: there is no such table.
    """
    return {c.name: PANDAS_DTYPES[c.kind] for c in TABLES[table].columns}
