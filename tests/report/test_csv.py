"""CSV as it is, and CSV that no spreadsheet computes."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.report.csv import NUMBER, write_table
from tcprobe.report.document import DataTable
from tcprobe.schema.columns import Value

TRIGGERS = tuple("=+-@\t\r\n\0\uff1d\uff0b\uff0d\uff20")


def written(*row: Value, safe: bool) -> str:
    out = io.StringIO(newline="")
    write_table(DataTable("t", tuple(f"c{i}" for i in range(len(row))), lambda: [row]), out, safe)
    return out.getvalue().split("\n", 1)[1]


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("=1+1", '"\'=1+1"'),
        ("@SUM(A1)", '"\'@SUM(A1)"'),
        ("\t=1", "\"'\t'=1\""),
        ('=HYPERLINK("http://e.vil")', '"\'=HYPERLINK(""http://e.vil"")"'),
        ("a;=cmd|' /C calc'!A0", "\"a;'=cmd|' /C calc'!A0\""),
        ("-v2", '"\'-v2"'),
        ("dense/MatMul", '"dense/MatMul"'),
        ("-1.5", "-1.5"),
        ("+2e-3", "+2e-3"),
        (-1.5, "-1.5"),
        (7, "7"),
        (True, "true"),
        (None, ""),
    ],
)
def test_text_is_no_formula_and_numbers_stay(value: Value, field: str) -> None:
    assert written(value, 1, safe=True) == f"{field},1\n"


def test_names_are_as_they_are_unless_asked_for() -> None:
    assert written("=1+1", "-v2", safe=False) == "=1+1,-v2\n"


@given(st.lists(st.text(st.sampled_from("=+-@;,\"'\t\r\n 1a\0\uff1d")) | st.text(), min_size=1, max_size=4))
def test_no_cell_begins_a_formula(names: list[str]) -> None:
    made = written(*names, safe=True)
    (cells,) = csv.reader(io.StringIO(made, newline=""))
    assert len(cells) == len(names)
    for cell in ";".join(cells).split(";"):
        assert not cell.startswith(TRIGGERS) or NUMBER.fullmatch(cell)
