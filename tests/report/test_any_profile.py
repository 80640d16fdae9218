"""Whatever a source leaves out, every format of text renders; a trace needs times (test_perfetto.py)."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tcprobe.report import FORMATS
from tcprobe.report.document import ReportSpec
from tcprobe.report.run.document import RunDocument
from tcprobe.schema.columns import Column, Table, TableSpec, Value
from tcprobe.schema.profile import Metadata, Note, Profile, Window
from tcprobe.schema.tables import DERIVED, HOST_OPS, METRICS, REPORTED, STEPS
from tests.report.builders import rendered
from tests.report.test_door import leaks
from tests.support import examples

NUMBERS = {
    "int": st.integers(0, 2**53),
    "float": st.floats(0, 1e15, allow_nan=False),
    "bool": st.booleans(),
}


def cell(column: Column) -> st.SearchStrategy[Value]:
    if column.kind == "str":
        known: st.SearchStrategy[Value] = st.sampled_from(column.values) if column.values else st.text(max_size=30)
    else:
        known = NUMBERS[column.kind]
    return st.none() | known if column.nullable else known


def table_of(spec: TableSpec) -> st.SearchStrategy[Table]:
    row = st.fixed_dictionaries({c.name: cell(c) for c in spec.columns})
    return st.lists(row, max_size=3).map(lambda rows: Table.from_rows(spec, rows))


SHOWN = (*DERIVED, HOST_OPS, STEPS, METRICS, REPORTED)
METADATA = st.builds(
    Metadata,
    format=st.text(max_size=8),
    paths=st.lists(st.text(max_size=20), max_size=2).map(tuple),
    framework=st.none() | st.text(max_size=8),
    precision=st.none() | st.text(max_size=8),
    xla=st.none() | st.booleans(),
    target_gpu=st.none() | st.text(max_size=8),
    gpu_used=st.none() | st.booleans(),
    partial=st.booleans(),
    window=st.builds(Window, st.none() | st.integers(0, 9), st.none() | st.integers(0, 9)),
    notes=st.lists(st.builds(Note, st.text(), st.text(), st.none() | st.text()), max_size=2).map(tuple),
)
TABLES = st.tuples(*(st.none() | table_of(spec) for spec in SHOWN))


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(METADATA, TABLES, st.sampled_from([None, 40, 80, 130]), st.sampled_from([0, None, 1, 10]))
def test_every_format_renders(
    metadata: Metadata, tables: tuple[Table | None, ...], width: int | None, top: int | None
) -> None:
    profile = Profile(metadata).with_tables(*(t for t in tables if t is not None))
    for format_ in (name for name in FORMATS["run"] if name != "perfetto"):
        text = rendered(format_, RunDocument(profile, ReportSpec(top, web=format_ == "html")), width)
        assert text.endswith("\n")
        if format_ == "json":
            assert json.loads(text)["schema"] == 1
        if format_ in ("text", "markdown"):
            assert not leaks(text)
