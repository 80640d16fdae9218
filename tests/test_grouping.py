"""Sums, unions and distinct keys by group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe import grouping
from tcprobe.grouping import (
    count_by,
    distinct,
    distinct_numbers,
    distinct_rows,
    known_total,
    positions_in,
    ratio_pct,
    sum_by,
    union_by,
)

INTERVALS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-20, 60), st.integers(-2, 20)), max_size=30)


@contextmanager
def by_sorting(sort: bool) -> Iterator[None]:
    """Sort, also where a table of all possible values would be small."""
    with pytest.MonkeyPatch.context() as patch:
        if sort:
            patch.setattr(grouping, "DENSE_LIMIT", 0)
            patch.setattr(grouping, "LEAST_DENSE", 0)
        yield


def array(values: list[int]) -> Any:
    return np.array(values, dtype=np.int64)


def columns(rows: list[tuple[int, ...]], count: int) -> list[Any]:
    return [array(list(c)) for c in zip(*rows, strict=True)] if rows else [array([])] * count


def ticks(rows: list[tuple[int, ...]], low: int, high: int) -> list[int]:
    """The time within the bounds that intervals of each group cover, counted tick by tick."""
    covered: list[set[int]] = [set() for _ in range(5)]  # the last is that of no group
    for group, start, length in rows:
        covered[group] |= set(range(start, start + length)) & set(range(low, high))
    return [len(c) for c in covered[:4]]


def test_union_counts_an_overlap_once() -> None:
    # group 0: [0, 10) and [5, 20) and, inside, [6, 8): 20; then [30, 31): 1. group 1: [0, 5). group 2: nothing.
    groups, starts, lengths = array([0, 0, 1, 0, 0]), array([0, 5, 0, 6, 30]), array([10, 15, 5, 2, 1])
    assert union_by(groups, starts, lengths, 3).tolist() == [21, 5, 0]


def test_merged_intervals_touch_no_other() -> None:
    start, end = grouping.merged(np.array([7, 0, 2, 4, 20]), np.array([9, 3, 3, 7, 21]))
    assert (start.tolist(), end.tolist()) == ([0, 4, 20], [3, 9, 21])


def test_what_has_passed_of_intervals_at_a_time() -> None:
    at, start, end = (np.array(values) for values in ((-1, 0, 2, 3, 8, 30), (0, 7), (3, 9)))
    assert grouping.covered_until(at, start, end).tolist() == [0, 0, 2, 3, 4, 5]


def test_union_of_times_near_the_end_of_int64() -> None:
    late = 2**62
    found = union_by(array([0, 7]), array([late, late]), array([5, 9]), 8).tolist()
    assert found == [5, 0, 0, 0, 0, 0, 0, 9]


def test_union_of_groups_whose_times_do_not_fit_on_one_line() -> None:
    far = 2**61
    groups, starts = array([0, 1, 2, 3, -1, 1, 3]), array([0, far, 3, far, 0, far + 2, -far])
    lengths = array([4, 5, far, 1, far, 6, 2])
    assert union_by(groups, starts, lengths, 4).tolist() == [4, 8, far, 3]
    assert union_by(groups, starts, lengths, 1).tolist() == [4]


@given(INTERVALS)
def test_union_equals_the_set_of_ticks(rows: list[tuple[int, int, int]]) -> None:
    groups, starts, lengths = columns(rows, 3)
    found = union_by(groups, starts, lengths, 4)
    assert found.tolist() == ticks(rows, -99, 99)
    assert (found <= sum_by(groups, np.maximum(lengths, 0), 4)).all()


@given(INTERVALS, st.integers(-30, 50), st.integers(0, 60))
def test_union_within_a_window_equals_the_set_of_ticks(rows: list[tuple[int, int, int]], low: int, length: int) -> None:
    groups, starts, lengths = columns(rows, 3)
    assert union_by(groups, starts, lengths, 4, (low, low + length)).tolist() == ticks(rows, low, low + length)


@given(INTERVALS)
def test_union_is_the_same_in_blocks_and_in_halves(rows: list[tuple[int, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "BLOCK", 3)
        patch.setattr(grouping, "WIDEST", 150)
        assert union_by(*columns(rows, 3), 4).tolist() == ticks(rows, -99, 99)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-(2**58), 2**58)), max_size=20))
def test_sums_are_exact(rows: list[tuple[int, int]]) -> None:
    groups, values = columns(rows, 2)
    assert sum_by(groups, values, 4).tolist() == [sum(v for g, v in rows if g == n) for n in range(4)]
    assert count_by(groups, 4).tolist() == [sum(g == n for g, _ in rows) for n in range(4)]


@given(st.lists(st.integers(0, 50), min_size=1), st.booleans())
def test_distinct_is_the_same_by_table_and_by_sorting(keys: list[int], sort: bool) -> None:
    with by_sorting(sort):
        found, inverse = distinct(array(keys), 51)
    assert found.tolist() == sorted(set(keys))
    assert found[inverse].tolist() == keys


@given(
    st.lists(st.tuples(st.integers(-1, 2), st.sampled_from([-(2**62), 0, 7, 2**40]), st.integers(0, 1)), max_size=20),
    st.booleans(),
)
def test_distinct_rows_are_those_of_a_set(rows: list[tuple[int, int, int]], sort: bool) -> None:
    with by_sorting(sort):
        found, places = distinct_rows(*columns(rows, 3))
    held = list(zip(*(part.tolist() for part in found), strict=True))
    assert held == sorted(set(rows))
    assert [held[i] for i in places.tolist()] == rows


@given(st.lists(st.sampled_from([-(2**63), -7, -1, 0, 3, 40, 2**63 - 1])), st.sets(st.integers(-8, 50)), st.booleans())
def test_the_place_of_a_number_is_where_it_stands(values: list[int], numbers: set[int], sort: bool) -> None:
    known = sorted(numbers)
    with by_sorting(sort):
        places = positions_in(array(values), array(known)).tolist()
        assert distinct_numbers(array(values)).tolist() == sorted(set(values))
    assert places == [known.index(v) if v in numbers else -1 for v in values]


def test_ratio_of_nothing_is_unknown() -> None:
    assert np.isnan(ratio_pct(np.array([1.0]), np.array([0.0]))).all()
    assert ratio_pct(array([1, 3]), array([2, 3])).tolist() == [50.0, 100.0]
    assert known_total(np.array([np.nan])) is None
    assert known_total(np.array([np.nan, 2.0])) == 2.0


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([], None),
        ([1.0], None),
        ([np.nan, 1.0], None),
        ([np.nan], 0),
        ([1.0, np.nan, 1.0, np.nan, np.nan], 3),
        ([np.nan, np.inf, np.inf], 1),
        ([np.inf, -np.inf], 1),
    ],
)
def test_since_when_a_series_is_no_finite_number(values: list[float], row: int | None) -> None:
    assert grouping.lasting_since(np.array(values)) == row
