"""Whether two series differ by more than they vary: the bootstrap, what widens it, and how often it errs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.compare.noise import RESAMPLES, _degrees, likeness, medians, ratio_interval, student
from tcprobe.schema.columns import FloatArray

LENGTHS = st.lists(st.floats(1.0, 1e9), min_size=8, max_size=40).map(np.array)


def alike(count: int, correlation: float, rng: np.random.Generator, scale: float = 0.05) -> FloatArray:
    """Lengths around 100 whose logarithms follow an autoregressive process of order 1."""
    noise = rng.standard_normal(count + 100) * np.sqrt(1.0 - correlation**2)
    values = np.zeros(count + 100)
    for place in range(1, count + 100):
        values[place] = correlation * values[place - 1] + noise[place]
    return 100.0 * np.exp(scale * values[100:])


@pytest.mark.parametrize("count", [8, 9, 30])
def test_medians_are_those_of_resamples(count: int) -> None:
    values = np.random.default_rng(3).lognormal(0.0, 0.3, count)
    drawn = medians(values, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    plain = np.median(values[rng.integers(0, count, (RESAMPLES, count))], axis=1)
    spread = float(plain.std())
    assert len(drawn) == RESAMPLES
    for tail in (0.05, 0.25, 0.5, 0.75, 0.95):
        gaps = np.diff(np.sort(values)).max()  # the quantiles of either lie on values, or halfway between two
        assert abs(np.quantile(drawn, tail) - np.quantile(plain, tail)) <= max(gaps / 2.0, 0.1 * spread) + 1e-12
    assert float(drawn.mean()) == pytest.approx(float(plain.mean()), abs=0.05 * spread)


CLOSE = st.lists(st.floats(1.0, 1.5), min_size=8, max_size=40).map(np.array)


@given(CLOSE, CLOSE)
def test_swapping_the_runs_turns_the_change_around(one: FloatArray, other: FloatArray) -> None:
    forth, back = ratio_interval(one, other), ratio_interval(other, one)
    assert forth is not None
    assert back is not None
    assert forth.samples == back.samples[::-1]
    if max(forth.high_pct, back.high_pct) > 1e4 or one.tobytes() == other.tobytes():
        return  # of one run there is nothing to swap; of the other end, next to -100 %, no digits are left
    for mine, theirs in ((forth.low_pct, back.high_pct), (forth.likely_pct, back.likely_pct)):
        assert (1.0 + mine / 100.0) * (1.0 + theirs / 100.0) == pytest.approx(1.0, rel=1e-6, abs=1e-6)


@given(LENGTHS)
def test_a_run_does_not_differ_from_itself(lengths: FloatArray) -> None:
    found = ratio_interval(lengths, lengths)
    assert found is not None
    assert found.likely_pct == 0.0
    assert found.low_pct <= 0.0 <= found.high_pct


@given(LENGTHS, LENGTHS, st.floats(1e-3, 1e3))
def test_the_unit_of_the_lengths_does_not_matter(one: FloatArray, other: FloatArray, unit: float) -> None:
    plain, scaled = ratio_interval(one, other), ratio_interval(unit * one, unit * other)
    assert plain is not None
    assert scaled is not None
    assert scaled.likely_pct == pytest.approx(plain.likely_pct, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("odd", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_length_has_no_ratio(odd: float) -> None:
    assert ratio_interval(np.append(np.ones(8), odd), np.ones(9)) is None
    assert ratio_interval(np.ones(9), np.append(np.ones(8), odd)) is None


def test_figures_logged_with_three_digits_are_known_to_half_of_the_last() -> None:
    # 193 and 194: the medians may be 193.49 and 193.51, or 192.5 and 194.5
    one, other = np.full(8, 1.93e5), np.full(8, 1.94e5)
    exact, rounded = ratio_interval(one, other), ratio_interval(one, other, rounded=True)
    assert exact is not None
    assert rounded is not None
    assert exact.low_pct == pytest.approx(100.0 / 193.0)
    assert rounded.low_pct <= 0.0 < 1.0 < rounded.high_pct < 1.05
    far = ratio_interval(one, np.full(8, 1.95e5), rounded=True)
    assert far is not None
    assert 0.51 < far.low_pct < 0.52  # 194.5 / 193.5 - 1 = 0.517 %
    digits = ratio_interval(one + 0.123456, other + 0.123456, rounded=True)
    assert digits is not None
    assert digits.low_pct == pytest.approx(100.0 / 193.0, rel=1e-4)  # all digits of it: nothing to add


def test_eight_steps_against_a_thousand_are_as_sure_as_eight() -> None:
    """The degrees of freedom are those of the short run: 11 % of equal runs differed with those of both."""
    assert _degrees([1.0, 0.0], [8.0, 1000.0]) == pytest.approx(7.0)
    assert _degrees([1.0, 1.0], [8.0, 8.0]) == pytest.approx(14.0)
    assert _degrees([0.0, 0.0], [8.0, 8.0]) == pytest.approx(14.0)
    assert _degrees([1.0, 1.0], [1.0, 1.0]) == pytest.approx(2.0)
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(200):
        found = ratio_interval(alike(8, 0.0, rng), alike(1000, 0.0, rng))
        assert found is not None
        wrong += not found.low_pct <= 0.0 <= found.high_pct
    assert wrong / 200 <= 0.09


def test_steps_of_two_lengths_are_not_told_apart_by_chance() -> None:
    """Steps that take 100 or 110, as where every other one writes a log: the median is either."""
    rng, wrong = np.random.default_rng(6), 0
    for _ in range(100):
        one, two = (np.where(rng.random(count) < 0.5, 100.0, 110.0) for count in (20, 21))
        found = ratio_interval(one, two)
        assert found is not None
        wrong += not found.low_pct <= 0.0 <= found.high_pct
    assert wrong <= 5


def test_a_million_steps_are_compared_in_seconds() -> None:
    lengths = np.random.default_rng(1).lognormal(0.0, 0.05, 1_000_000)
    began = time.monotonic()
    found = ratio_interval(lengths[::-1].copy(), 1.001 * lengths)
    assert time.monotonic() - began < 20.0
    assert found is not None
    assert 0.05 < found.low_pct < 0.1 < found.high_pct < 0.15


def test_equal_lengths_in_each_run_differ_by_their_ratio_alone() -> None:
    found = ratio_interval(np.full(8, 100.0), np.full(12, 110.0))
    assert found is not None
    assert (found.low_pct, found.likely_pct, found.high_pct) == pytest.approx((10.0, 10.0, 10.0))
    assert found.samples == (8, 12)


def test_a_fifth_more_is_real_where_steps_vary_by_a_twentieth() -> None:
    rng = np.random.default_rng(5)
    found = ratio_interval(alike(20, 0.0, rng), 1.2 * alike(20, 0.0, rng))
    assert found is not None
    assert 5.0 < found.low_pct < 20.0 < found.high_pct + 5.0 < 40.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0] * 9, 0.0),  # no ranks
        ([1.0, 2.0] * 10, 0.0),  # each the opposite of the one before
        ([float(n) for n in range(40)], 0.95),  # drift alone: the most that counts
        # ranks less their mean: -2 -1 0 1 2 over n = 5: (2 + 0 + 0 + 2) / 10 = 0.4; (0.4 + 1/5) / (1 - 3/5) = 1.5
        ([1.0, 2.0, 3.0, 4.0, 5.0], 0.95),
        # 0 2 -2 1 -1: (0 - 4 - 2 - 1) / 10 < 0
        ([3.0, 5.0, 1.0, 4.0, 2.0], 0.0),
        # n = 10, ranks 1 2 3 4 5 -> two runs of five: -4.5 -3.5 -2.5 ... in order 1..5, 10..6:
        # products: 15.75 + 8.75 + 3.75 + 0.75 - 2.25 + 15.75 + 8.75 + 3.75 + 0.75 = 55.75 over 82.5 = 0.67576;
        # (0.67576 + 0.1) / 0.7 = 1.108
        ([1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 9.0, 8.0, 7.0, 6.0], 0.95),
    ],
)
def test_likeness_of_successive_values(values: list[float], expected: float) -> None:
    assert likeness(np.array(values)) == expected


def test_likeness_worked_out() -> None:
    # 1 3 2 5 4 6 8 7 less 4.5: -3.5 -1.5 -2.5 0.5 -0.5 1.5 3.5 2.5
    # products 5.25 + 3.75 - 1.25 - 0.25 - 0.75 + 5.25 + 8.75 = 20.75 over 42 = 0.49405; (r + 1/8) / (5/8) = 0.99048
    assert likeness(np.array([1.0, 3, 2, 5, 4, 6, 8, 7])) == 0.95
    # 2 1 4 3 6 5 8 7 1.. of 8: -2.5 -3.5 -0.5 -1.5 1.5 0.5 3.5 2.5
    # 8.75 + 1.75 + 0.75 - 2.25 + 0.75 + 1.75 + 8.75 = 20.25 over 42 = 0.48214 -> 0.97143
    # with its mirror (1 8 2 7 3 6 4 5: -3.5 3.5 -2.5 2.5 -1.5 1.5 -0.5 0.5), whose products are
    # -12.25 - 8.75 - 6.25 - 3.75 - 2.25 - 0.75 - 0.25 = -34.25: (20.25 - 34.25) / 84 = -1/6: 0
    assert likeness(np.array([2.0, 1, 4, 3, 6, 5, 8, 7]), np.array([1.0, 8, 2, 7, 3, 6, 4, 5])) == 0.0
    # 4 6 2 8 1 7 5 3: -0.5 1.5 -2.5 3.5 -3.5 2.5 0.5 -1.5: -0.75 - 3.75 - 8.75 - 12.25 - 8.75 + 1.25 - 0.75 < 0
    # 1 2 8 7 3 4 6 5: -3.5 -2.5 3.5 2.5 -1.5 -0.5 1.5 0.5: 8.75 - 8.75 + 8.75 - 3.75 + 0.75 - 0.75 + 0.75 = 5.75
    # over 42 = 0.136905; (0.136905 + 0.125) / 0.625 = 0.419048
    assert likeness(np.array([1.0, 2, 8, 7, 3, 4, 6, 5])) == pytest.approx(0.419048, abs=1e-6)


def test_steps_that_follow_one_another_count_for_fewer() -> None:
    rng = np.random.default_rng(4)
    values = np.sort(alike(60, 0.0, rng))
    mixed = rng.permutation(values)
    drifting, steady = ratio_interval(values, values[::-1].copy()), ratio_interval(mixed, mixed[::-1].copy())
    assert drifting is not None
    assert steady is not None
    assert drifting.likeness > 0.9 > steady.likeness
    assert drifting.high_pct - drifting.low_pct > 3.0 * (steady.high_pct - steady.low_pct)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)]
)
def test_quantiles_of_the_t_distribution(degrees: int, quantile: float) -> None:
    assert student(float(degrees)) == pytest.approx(quantile, rel=0.01)


@pytest.mark.parametrize(
    ("count", "correlation", "most"), [(8, 0.0, 0.05), (20, 0.3, 0.06), (50, 0.6, 0.06), (200, 0.8, 0.06)]
)
def test_equal_runs_are_rarely_said_to_differ(count: int, correlation: float, most: float) -> None:
    """Of 1,000 pairs of equal runs the docs report 1 to 5 %; here of 200 pairs."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(200):
        found = ratio_interval(alike(count, correlation, rng), alike(count, correlation, rng))
        assert found is not None
        wrong += not found.low_pct <= 0.0 <= found.high_pct
    assert wrong / 200 <= most + 0.02


def test_slow_drift_under_fast_jitter_widens_long_runs() -> None:
    rng = np.random.default_rng(2)
    jitter = rng.standard_normal((2, 400))
    drift = np.repeat(rng.standard_normal((2, 4)), 100, axis=1)
    plain, drifting = (ratio_interval(*np.exp(0.05 * x)) for x in (jitter, jitter + 0.7 * drift))
    assert plain is not None
    assert drifting is not None
    assert drifting.high_pct - drifting.low_pct > 2.0 * (plain.high_pct - plain.low_pct)
