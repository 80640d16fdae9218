"""Why steps are far longer: which hold an epoch's end, which trace again, and which are a kind of their own."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.slow import LONG, long_steps, slow_steps
from tcprobe.schema.profile import Note
from tests.analysis import builders as b

MS = 1_000_000
EVEN = st.lists(st.integers(100, 290), min_size=1, max_size=80)


def both(lengths: list[float]) -> tuple[list[int], list[int]]:
    """Return the steps with an epoch's end, and those of a longer kind."""
    found = long_steps(np.arange(len(lengths)), np.array(lengths, dtype=np.float64))
    return np.flatnonzero(found[0]).tolist(), np.flatnonzero(found[1]).tolist()


def ends(lengths: list[float]) -> list[int]:
    return both(lengths)[0]


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([20] * 9 + [3600] + [20] * 9, [9]),  # one end: 180 times a step
        ([20] * 9 + [70] + [20] * 9, []),  # a stall of 3.5 steps, where it likes
        (([20] * 10 + [70]) * 4, [10, 21, 32, 43]),  # as long, and every eleventh
        (([20] * 10 + [55]) * 4, []),  # every eleventh, and not three times as long
        (([20] * 9 + [3600, 70]) * 3, [9, 20, 31]),  # what comes right after an end is slow too, and trains
        (([20] * 8 + [3600, 220]) * 2 + [20] * 20, [8, 9, 18, 19]),  # or holds the rest of it
        (([20] * 8 + [90, 80]) * 3, []),  # twice as long as the others two by two
        ([20, 20, 70, 20, 20, 20, 70, 20, 70, 20, 20], []),  # no distance in common
        (([20] * 10 + [70]) * 3 + [20] * 11, []),  # the fourth is short, so the place does not make them long
        ([20, 20, 3600], []),  # too few to call any typical
        ([20] * 6 + [float("nan")], []),
        ([float("nan")] * 6, []),
        ([0] * 8 + [50], []),
    ],
)
def test_what_is_an_end(lengths: list[float], found: list[int]) -> None:
    assert ends(lengths) == found


@pytest.mark.parametrize(
    ("lengths", "longer"),
    [
        (([20] * 2 + [70]) * 8, list(range(2, 24, 3))),  # every third step trains more: no epoch ends there
        (([20] * 2 + [3600]) * 8, list(range(2, 24, 3))),  # however much
        (([20] * 4 + [70]) * 4, [4, 9, 14, 19]),
        (([20] * 9 + [70]) * 4, [9, 19, 29, 39]),  # a tenth is not rare
        (([20] * 2 + [55]) * 8, []),  # within what steps vary
        ([20, 70] * 10, []),  # nor is any longer than three medians where every second one is
    ],
)
def test_what_is_common_is_a_kind_of_steps(lengths: list[float], longer: list[int]) -> None:
    assert both(lengths) == ([], longer)


def test_a_step_that_traced_again_is_called_that() -> None:
    rows = [(i, 1000 * i, 900 if i in (7, 20) else 20, "measured") for i in range(40)]
    seen = [{"name": "train.step", "at_ns": 7950}, {"name": "train.other", "at_ns": 12_010}, {"name": 3}, None]
    found = slow_steps(b.profile(b.steps(*rows), run={"retraces": seen}))
    # 12 traced too and is no longer for it; of 20 nobody knows more than its length
    assert [np.flatnonzero(one).tolist() for one in found] == [[20], [7], []]
    assert np.flatnonzero(found.left_out).tolist() == [7, 20]


def test_a_run_that_traces_again_all_the_time_is_slow() -> None:
    rows = [(i, 1000 * i, 900 if i % 4 == 3 else 20, "measured") for i in range(40)]
    seen = [{"name": "train.step", "at_ns": 1000 * i + 10} for i in range(3, 40, 4)]
    found = slow_steps(b.profile(b.steps(*rows), run={"retraces": seen}))
    assert [int(one.sum()) for one in found] == [0, 0, 10]


def test_a_run_that_is_slow_every_so_often_is_slow() -> None:
    # 20 of 100 steps take 15 times a step, at no equal distance: that is how it trains.
    slow = Random(0).sample(range(100), 20)
    assert ends([300.0 if i in slow else 20.0 for i in range(100)]) == []


@given(EVEN)
def test_an_even_run_has_none(lengths: list[int]) -> None:
    assert ends([float(x) for x in lengths]) == []


@given(st.lists(st.one_of(st.just(None), st.integers(0, 10_000)), max_size=60))
def test_ends_are_long_and_fewer_than_the_others(lengths: list[int | None]) -> None:
    values = [float("nan") if x is None else float(x) for x in lengths]
    known = [x for x in values if x == x]
    found = ends(values)
    assert 2 * len(found) < max(1, len(known)) + 1
    if found:
        usual = float(np.median(known))
        assert all(values[i] > LONG * usual for i in found)
        rest = [x for i, x in enumerate(values) if x == x and i not in found]
        assert float(np.median(rest)) <= usual, "what is typical without them is no longer than with them"


@given(st.integers(11, 30), st.integers(3, 6), st.integers(9, 300))
def test_ends_of_an_even_run_are_found_and_nothing_else(per_epoch: int, epochs: int, times: int) -> None:
    lengths = [100.0 + 40.0 * ((7919 * i) % 11) / 11 for i in range(per_epoch * epochs)]
    planted = list(range(per_epoch - 1, per_epoch * epochs, per_epoch))
    for i in planted:
        lengths[i] *= times
    assert ends(lengths) == planted


def test_each_kind_is_compared_with_itself() -> None:
    # Under the profiler a step takes 100, outside it 20: the profiled ones are no ends, and the end at 12 is one.
    rows = []
    for i in range(30):
        kind = "profiled" if 5 <= i < 15 else "warm-up" if i < 2 else "after"
        rows.append((i, 0, (1200 if i == 12 else 100) if kind == "profiled" else 20, kind))
    profile = b.profile(b.steps(*rows))
    assert np.flatnonzero(slow_steps(profile).ends).tolist() == [12]


def test_few_steps_of_a_kind_are_compared_with_all() -> None:
    rows = [(i, 0, 3600 if i == 3 else 20, "profiled" if i in (2, 3) else "after") for i in range(20)]
    assert np.flatnonzero(slow_steps(b.profile(b.steps(*rows))).ends).tolist() == [3]


def test_warm_up_is_no_end() -> None:
    rows = [(i, 0, 3600 if i < 2 else 20, "warm-up" if i < 2 else "measured") for i in range(20)]
    assert not np.any(slow_steps(b.profile(b.steps(*rows))))


def test_where_threads_train_at_once_no_step_is_told_to_hold_an_end() -> None:
    profile = b.profile(b.steps(*((i, 0, 3600 if i == 9 else 20, "measured") for i in range(20))))
    note = Note("threads", "threads train at once", None, "note")
    assert np.flatnonzero(slow_steps(profile).ends).tolist() == [9]
    assert not np.any(slow_steps(profile.with_notes(note)))
