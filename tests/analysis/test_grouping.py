"""Sums, unions and distinct keys by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import grouping
from tcprobe.analysis.grouping import distinct, ratio_pct, sum_by, total, union_by


def array(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


def test_union_counts_an_overlap_once() -> None:
    # group 0: [0, 10) and [5, 20) and, inside, [6, 8): 20; then [30, 31): 1. group 1: [0, 5). group 2: nothing.
    groups, starts, ends = array([0, 0, 1, 0, 0]), array([0, 5, 0, 6, 30]), array([10, 20, 5, 8, 31])
    assert union_by(groups, starts, ends, 3).tolist() == [21, 5, 0]


def test_union_of_times_near_the_end_of_int64() -> None:
    late = 2**62
    assert union_by(array([0, 7]), array([late, late]), array([late + 5, late + 9]), 8).tolist() == [
        5,
        0,
        0,
        0,
        0,
        0,
        0,
        9,
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 20)), max_size=30))
def test_union_equals_the_set_of_ticks(rows: list[tuple[int, int, int]]) -> None:
    ticks: list[set[int]] = [set() for _ in range(4)]
    for group, start, length in rows:
        ticks[group] |= set(range(start, start + length))
    columns = [array(list(c)) for c in zip(*rows, strict=True)] if rows else [array([])] * 3
    found = union_by(columns[0], columns[1], columns[1] + columns[2], 4)
    assert found.tolist() == [len(t) for t in ticks]
    assert (found <= sum_by(columns[0], columns[2], 4)).all()


@given(st.lists(st.integers(0, 50), min_size=1), st.booleans())
def test_distinct_is_the_same_by_table_and_by_sorting(keys: list[int], sort: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if sort:
            patch.setattr(grouping, "DENSE_LIMIT", 0)
        found, inverse = distinct(array(keys), 51)
    assert found.tolist() == sorted(set(keys))
    assert found[inverse].tolist() == keys


def test_ratio_of_nothing_is_unknown() -> None:
    assert np.isnan(ratio_pct(np.array([1.0]), np.array([0.0]))).all()
    assert ratio_pct(array([1, 3]), array([2, 3])).tolist() == [50.0, 100.0]
    assert total(np.array([np.nan])) is None
    assert total(np.array([np.nan, 2.0])) == 2.0
