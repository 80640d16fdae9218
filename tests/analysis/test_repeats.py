"""What repeats in a sequence of numbers: units of every size, irregular ones, and what is none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tcprobe.analysis.repeats import Repeats, find_repeats

Codes = NDArray[np.int64]
RANDOM = np.random.default_rng(7)
BODY = RANDOM.integers(0, 30, 100)
LAYER = RANDOM.integers(30, 50, 30)
STEP = np.concatenate([np.tile(LAYER, 24), BODY[:50]])
"""24 layers that are alike, and what follows."""


def found(values: Codes, least: int = 5) -> list[tuple[int, int, int, int]]:
    """Return period, number of units, first index, index after the last of each."""
    return [(one.period, len(one.starts), int(one.starts[0]), one.end) for one in find_repeats(values, least)]


@pytest.mark.parametrize("times", [5, 6, 50])
def test_a_sequence_that_repeats_exactly_is_found_from_its_beginning(times: int) -> None:
    assert found(np.tile(BODY, times)) == [(100, times, 0, 100 * times)]


def test_the_least_number_of_repeats_decides() -> None:
    assert not found(np.tile(BODY, 4))
    assert found(np.tile(BODY, 4), 3) == [(100, 4, 0, 400)]
    assert found(np.tile([1, 2], 5)) == [(2, 5, 0, 10)] and not found(np.tile([1, 2], 4))


def test_a_step_comes_before_its_layers_and_one_step_alone_has_only_layers() -> None:
    assert found(np.tile(STEP, 10)) == [(770, 10, 0, 7700)]
    assert found(STEP) == [(30, 24, 0, 720)]


def test_what_comes_before_and_after_is_no_unit() -> None:
    noise = RANDOM.integers(100, 400, 300)
    ((period, units, first, end),) = found(np.concatenate([noise, np.tile(BODY, 12), noise[:100]]))
    assert (period, units) == (100, 12) and (first, end) == (300, 1500)


def test_units_with_another_value_more_or_less_interrupt_nothing_and_do_not_count() -> None:
    odd = np.insert(BODY, 60, 999)
    values = np.concatenate([odd if at in (7, 20) else BODY for at in range(40)])
    ((period, units, first, end),) = found(values)
    assert (period, first, end) == (100, 0, len(values)) and units == 38


def test_values_that_differ_from_unit_to_unit_are_tolerated_where_they_are_few() -> None:
    values = np.tile(BODY, 30).reshape(30, 100)
    values[:, [3, 40, 41, 80]] = 1000 + np.arange(120).reshape(30, 4)
    assert found(values.ravel()) == [(100, 30, 0, 3000)]
    values[:, ::2] = 2000 + np.arange(1500).reshape(30, 50)
    assert not found(values.ravel())


def test_two_phases_are_two_units_and_the_one_that_covers_more_comes_first() -> None:
    assert found(np.concatenate([np.tile(STEP, 10), np.tile(BODY, 80)])) == [(100, 80, 7700, 15700), (770, 10, 0, 7700)]


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(5000, np.int64),
        np.random.default_rng(1).integers(0, 40, 20000), np.random.default_rng(2).integers(0, 2, 20000),
        np.random.default_rng(3).random(20000) < 0.02, np.random.default_rng(4).zipf(1.5, 20000) % 100,
        np.repeat(np.arange(10), 500), np.arange(3000), np.random.default_rng(5).permutation(np.tile(STEP, 10)),
    ],
    ids=["none", "one", "the same", "random", "coin", "rare", "skew", "blocks", "all differ", "shuffled"],
)  # fmt: skip
def test_nothing_is_found_where_nothing_repeats(values: Codes) -> None:
    assert not find_repeats(values.astype(np.int64))


def test_a_short_stretch_is_no_unit_of_the_sequence() -> None:
    assert not found(np.concatenate([np.arange(1000, 4000), np.tile(BODY, 6)]))


def test_the_numbers_themselves_do_not_matter() -> None:
    values = np.concatenate([RANDOM.integers(0, 9, 77), np.tile(STEP, 7)])
    renamed = np.random.default_rng(8).permutation(2000)[values] - 1000
    assert found(renamed) == found(values) and found(values)


def test_a_long_unit_among_many_is_found() -> None:
    unit = np.random.default_rng(9).integers(0, 300, 5000)
    one: Repeats
    (one,) = find_repeats(np.tile(unit, 40))
    assert one.period == 5000 and np.array_equal(one.starts, 5000 * np.arange(40))
