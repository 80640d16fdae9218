"""The contract itself."""

from __future__ import annotations

import re

import pytest

from tcprobe.schema.columns import TableSpec
from tcprobe.schema.tables import TABLES

UNITS = ("_ns", "_bytes", "_pct", "_khz", "_bytes_per_s")


@pytest.mark.parametrize("spec", TABLES.values(), ids=lambda s: s.name)
def test_columns_are_named_and_explained(spec: TableSpec) -> None:
    names = [c.name for c in spec.columns]
    assert len(set(names)) == len(names)
    for column in spec.columns:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.meaning
        assert not column.values or column.kind == "str"
        if column.name.endswith(UNITS):
            assert column.kind in ("int", "float")
