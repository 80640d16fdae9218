"""The training step: the period of the training calls, found live."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.core.stepper import MAX_PERIOD, MOST_WITHOUT_PATTERN, STUBBORN, Stepper
from tests.probe.core.test_stepper import make


def boundaries(word: str) -> tuple[list[int], Stepper]:
    """Feed a word call by call; return the calls that begin a step, over the run, and the stepper."""
    stepper = make()
    for index, letter in enumerate(word):
        stepper.call(ord(letter), 1, index, letter.isupper())
    return list(stepper._journal.starts), stepper


def multiples(step: int, length: int) -> list[int]:
    return list(range(0, length, step))


@pytest.mark.parametrize(
    ("word", "step", "calls"),
    [
        ("T" * 12, 1, 12),
        ("DG" * 10, 2, 20),
        ("GDDDDD" * 4, 6, 24),
        ("DDDDDG" * 4, 6, 24),
        ("AAAAB" * 4, 5, 20),
        ("ABAC" * 4, 4, 16),
        ("ABCABD" * 5, 6, 30),
        ("ABA" * 12, 3, 36),
        ("BABB" * 12, 4, 48),
        (("D" * 40 + "G") * 3, 41, 123),
    ],
)
def test_period_is_found(word: str, step: int, calls: int) -> None:
    told, stepper = boundaries(word)
    assert told == multiples(step, calls)
    assert len(stepper.pattern) == step
    assert stepper.basis == "period"


def test_short_run_has_its_steps_at_once() -> None:
    assert [boundaries("DGDGD"[:calls])[0] for calls in range(1, 6)] == [[0], [0], [0, 2], [0, 2], [0, 2, 4]]


def test_false_start_is_revised() -> None:
    """Critic first: each call looks like a step until the generator is called."""
    told = [boundaries("DDDGDDDG"[:calls])[0] for calls in range(1, 9)]
    assert told == [[0], [0, 1], *[[0, 1, 2]] * 5, [0, 4]]


def test_rest_of_an_epoch_is_a_step() -> None:
    """Accumulation over 4 with 10 batches: AAAAB AAAAB AAB, then again."""
    told, _ = boundaries(("AAAABAAAABAAB" * 3) + "AAAAB")
    assert told == [0, 5, 10, 13, 18, 23, 26, 31, 36, 39]


def test_second_model_goes_on_counting() -> None:
    told, _ = boundaries("A" * 30 + "B" * 30)
    assert told == multiples(1, 60)


def test_rare_function_is_no_part_of_the_step() -> None:
    told, stepper = boundaries(("A" * 200 + "X") * 2 + "A" * 150)
    assert stepper.pattern == (ord("A"),)
    assert told == [i for i in range(552) if i not in (200, 401)]


def test_steps_go_on_after_each_call_that_comes_once_in_a_while() -> None:
    """A penalty every 20 steps of two calls: the period of 41 calls is told, but not that of 81."""
    told, _ = boundaries(("DG" * 40 + "X") * 5)
    assert told == [81 * turn + begin for turn in range(5) for begin in range(0, 80, 2)]
    told, stepper = boundaries(("DG" * 20 + "X") * 5)
    assert (told, len(stepper.pattern)) == ([41 * turn for turn in range(5)], 41)


def test_no_step_begins_with_a_follower() -> None:
    """Tapes and optimizers of an eager accumulation whose epochs end early, and an optimizer before any tape."""
    told, _ = boundaries(("TTTTo" * 3 + "TTo") * 4)
    assert told == [18 * epoch + step for epoch in range(4) for step in (0, 5, 10, 15)]
    told, _ = boundaries("TaTb" * 9)
    assert told == multiples(4, 36)


def test_a_single_call_before_the_loop_does_not_hide_it() -> None:
    told, _ = boundaries("X" + "A" * 40)
    assert told == multiples(1, 41)


@pytest.mark.parametrize(
    ("word", "pattern", "begins"),
    [
        (
            "A" * 100 + "AB" * 40,
            "AB",
            [*range(100), *range(100, 180, 2)],
        ),  # the same function trains on, beside another
        ("AB" * 100 + "A" * 300, "A", [*range(0, 200, 2), *range(200, 500)]),
        ("A" * 10 + "B" * 20 + "CD" * 10, "CD", [*range(30), *range(30, 50, 2)]),
        ("A" * 30 + "B" * 5 + "A" * 60, "A", [*range(30), *range(35, 95)]),  # an interlude
        ("A" * 30 + "B" * 30 + "A" * 30, "A", list(range(90))),
    ],
)
def test_a_pattern_that_breaks_is_followed_by_another(word: str, pattern: str, begins: list[int]) -> None:
    told, stepper = boundaries(word)
    assert told == begins
    assert stepper.pattern == tuple(map(ord, pattern))


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(5, 9)), min_size=1, max_size=6), st.randoms())
def test_phases_with_functions_of_their_own_are_found(phases: list[tuple[int, int]], random: random.Random) -> None:
    """A step is any word that ends in a call of its own; a pattern is believed after 16 calls at the latest."""
    word, steps = "", []
    for number, (length, times) in enumerate(phases):
        first, second, last = (chr(ord("A") + 3 * number + i) for i in range(3))
        pattern = "".join(random.choice((first, second)) for _ in range(length)) + last
        times = max(times, -(-STUBBORN // len(pattern)) + 1)
        steps += [len(word) + len(pattern) * i for i in range(times)]
        word += pattern * times
    told, _ = boundaries(word)
    assert told == steps


def test_no_period_falls_back_to_the_dominant_function() -> None:
    """Three functions by chance, one of them twice as often: its calls count."""
    word = "".join(random.Random(1).choices("ABC", (2, 1, 1), k=2000))
    told, stepper = boundaries(word)
    assert stepper.basis == "dominant function"
    assert told[1:] == [i for i, letter in enumerate(word) if letter == "A" and i]


def test_a_pattern_that_held_stays_where_none_follows() -> None:
    tail = "".join(random.Random(2).choices("ABCDE", (2, 1, 1, 1, 1), k=400))
    told, stepper = boundaries("AB" * 100 + tail)
    assert stepper.basis == "dominant function"
    assert [b for b in told if b < 200] == multiples(2, 200)
    assert [b for b in told if b > 202] == [200 + i for i, letter in enumerate(tail) if letter == "A" and i > 2]


@pytest.mark.parametrize(
    ("step", "rest"), [("AAAAAAAB", "AAAB"), ("AAAAB", "A"), ("AAAB", "A"), ("AAAAAAAB", "AAAAAA")]
)
def test_the_rest_of_short_epochs_is_no_pattern(step: str, rest: str) -> None:
    """Accumulation over 8 with 20 batches, over 4 with 9, which leaves one out; from the first epoch on."""
    epoch, size = step + step + rest, len(step)
    told, _ = boundaries(epoch * 12)
    assert told == [len(epoch) * number + begin for number in range(12) for begin in (0, size, 2 * size)]


def test_runs_that_grow_are_the_common_function() -> None:
    _, stepper = boundaries("".join("A" * n + "B" for n in range(3, 60)) + "A" * 250)
    assert stepper.pattern == (ord("A"),)


def test_memory_is_bounded() -> None:
    told, stepper = boundaries("ABC" * 7_000)
    assert len(stepper.keys) < 5_000
    assert told == multiples(3, 21_000)


def test_a_call_that_is_taken_back_begins_no_step() -> None:
    told, stepper = boundaries("DGDGD")
    stepper.retract()
    assert stepper._journal.starts == told[:2]
    for start, letter in enumerate("DGD", start=10):
        stepper.call(ord(letter), 1, start)
    assert stepper._journal.starts == [0, 2, 10, 12]


@given(st.text("ABC", min_size=0, max_size=12), st.integers(5, 9))
def test_word_that_ends_in_a_call_of_its_own_repeats(body: str, times: int) -> None:
    """Whatever a step does before its one last call: the steps are the repetitions."""
    word = (body + "Z") * times
    told, _ = boundaries(word)
    assert told == multiples(len(body) + 1, len(word))


@given(st.lists(st.integers(0, 3), max_size=2 * MOST_WITHOUT_PATTERN))
def test_any_sequence_gives_rising_boundaries(keys: list[int]) -> None:
    told, stepper = boundaries("".join(chr(65 + k) for k in keys))
    assert told == sorted(set(told))
    assert (told[:1] == [0]) or not keys
    assert len(stepper.pattern) <= max(MAX_PERIOD, MOST_WITHOUT_PATTERN)
