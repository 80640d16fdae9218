"""Tables: storage, NA, contract violations, and the way to pandas and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.schema.columns import Column, Names, Table, TableSpec, concatenate

SPEC = TableSpec(
    "things",
    "one thing",
    (
        Column("name", "str", "a name"),
        Column("size_bytes", "int", "a size"),
        Column("start_ns", "int", "a start", nullable=False),
        Column("share_pct", "float", "a share"),
        Column("used", "bool", "whether"),
    ),
)
ROWS = [
    {"name": "a", "size_bytes": 3, "start_ns": 5, "share_pct": 1.5, "used": True},
    {"name": None, "size_bytes": None, "start_ns": 6, "share_pct": None, "used": None},
    {"name": "a", "size_bytes": 0, "start_ns": 2**53, "share_pct": 0.0, "used": False},
]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.none() | st.text(max_size=5),
            "size_bytes": st.none() | st.integers(0, 2**53),
            "start_ns": st.integers(-(2**53), 2**53),
            "share_pct": st.none() | st.floats(allow_nan=False),
            "used": st.none() | st.booleans(),
        }
    ),
    max_size=8,
)


@given(rows)
def test_rows_survive(given_rows: list[dict[str, object]]) -> None:
    assert list(Table.from_rows(SPEC, given_rows).rows()) == given_rows


def test_missing_is_na_and_zero_is_zero() -> None:
    table = Table.from_rows(SPEC, ROWS)
    assert table.values("size_bytes") == [3, None, 0]
    assert table.values("used") == [True, None, False]
    assert table.names("name").names == ["a"]
    assert table.numbers("start_ns").dtype == np.int64


def test_row_of_nothing_has_no_name() -> None:
    assert Names.of(["a"])[-1] is None
    assert Names.of([])[-1] is None


def test_pandas_has_nullable_dtypes() -> None:
    frame = Table.from_rows(SPEC, ROWS).to_pandas()
    assert [str(d) for d in frame.dtypes] == ["string", "Int64", "Int64", "Float64", "boolean"]
    assert frame["size_bytes"].isna().tolist() == [False, True, False]


def test_take_selects_by_mask_and_by_position() -> None:
    table = Table.from_rows(SPEC, ROWS)
    assert table.take(np.array([False, True, True])).values("start_ns") == [6, 2**53]
    assert table.take(np.array([2, 0])).values("name") == ["a", "a"]


def test_concatenate_merges_names() -> None:
    first, second = Table.from_rows(SPEC, ROWS[:1]), Table.from_rows(SPEC, [{**ROWS[2], "name": "b"}])
    both = concatenate(SPEC, [first, second, first])
    assert both.values("name") == ["a", "b", "a"]
    assert both.names("name").names == ["a", "b"]
    assert len(concatenate(SPEC, [first.take(np.zeros(0, int))])) == 0


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"start_ns": [1], "colour": ["red"]}, KeyError),
        ({"name": ["a"]}, KeyError),
        ({"start_ns": [1, 2], "name": ["a"]}, ValueError),
        ({"start_ns": [None]}, ValueError),
        ({"start_ns": [1], "size_bytes": Names.of(["x"])}, TypeError),
    ],
)
def test_what_breaks_the_contract_is_refused(columns: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Table(SPEC, columns)


def test_a_column_has_one_kind() -> None:
    table = Table.from_rows(SPEC, ROWS)
    with pytest.raises(TypeError):
        table.numbers("name")
    with pytest.raises(TypeError):
        table.names("start_ns")
    with pytest.raises(KeyError):
        Table.from_rows(SPEC, [{"colour": "red"}])


def test_nan_is_a_value_only_where_the_contract_says_so() -> None:
    def column(**more: bool) -> TableSpec:
        return TableSpec("figures", "one figure", (Column("value", "float", "a figure", nullable=False, **more),))

    table = Table(column(nan=True), {"value": [np.nan, 1.0]})
    assert table.values("value")[0] != table.values("value")[0]
    for refused in ([np.nan, 1.0], np.array([np.nan])):
        with pytest.raises(ValueError, match="holds NA"):
            Table(column(), {"value": refused})


def test_each_distinct_string_is_asked_once() -> None:
    names, asked = Names.of(["a", None, "b", "a"]), list[str]()
    assert names.map(lambda name: asked.append(name) or (name.upper() if name == "a" else None)).tolist() == [
        *("A", None, None, "A"),
    ]
    assert asked == ["a", "b"]
    assert names.each(len, -1).tolist() == [1, -1, 1, 1]
    assert Names.missing(2).tolist() == [None, None]
