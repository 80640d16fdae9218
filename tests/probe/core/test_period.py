"""The training step: the period of the training calls, found live."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.core.period import BEGIN, MAX_PERIOD, MOST_WITHOUT_PATTERN, PLACED, UNDECIDED, PeriodFinder
from tcprobe.probe.core.stepper import Stepper
from tests.probe.core.test_stepper import make


def boundaries(word: str) -> tuple[list[int], Stepper]:
    """Feed a word call by call; return the calls that begin a step, over the run, and the stepper."""
    stepper = make()
    for index, letter in enumerate(word):
        stepper.call(ord(letter), 1, index, letter.isupper())
    return list(stepper._journal.starts), stepper


def stretches(stepper: Stepper) -> list[tuple[int, Counter[str]]]:
    found = [(stepper._journal.starts[phase.first_row], phase.usual) for phase in stepper.phases()]
    return [(start, Counter({chr(key): count for key, count in usual.items()})) for start, usual in found]


def counted(*found: tuple[int, str]) -> list[tuple[int, Counter[str]]]:
    return [(start, Counter(word)) for start, word in found]


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
    assert len(stepper.finder.pattern) == step
    assert stepper.basis == "period"


def test_short_run_has_its_steps_at_once() -> None:
    finder = PeriodFinder()
    assert [finder.add(k) for k in (0, 1, 0, 1, 0)] == [BEGIN, "inside", PLACED, "inside", BEGIN]


def test_false_start_is_revised() -> None:
    """Critic first: each call looks like a step until the generator is called."""
    finder = PeriodFinder()
    verdicts = [finder.add(k) for k in (0, 0, 0, 1, 0, 0, 0, 1)]
    assert verdicts == [BEGIN, PLACED, BEGIN, UNDECIDED, UNDECIDED, UNDECIDED, UNDECIDED, PLACED]
    assert finder.placed == [range(0, 8, 4)]
    assert not finder.searching


def test_rest_of_an_epoch_is_a_step() -> None:
    """Accumulation over 4 with 10 batches: AAAAB AAAAB AAB, then again."""
    told, stepper = boundaries(("AAAABAAAABAAB" * 3) + "AAAAB")
    assert told == [0, 5, 10, 13, 18, 23, 26, 31, 36, 39]
    assert stretches(stepper) == counted((0, "AAAAB"))


def test_second_model_goes_on_counting() -> None:
    told, stepper = boundaries("A" * 30 + "B" * 30)
    assert told == multiples(1, 60)
    assert stretches(stepper) == counted((0, "A"), (30, "B"))


def test_rare_function_is_no_part_of_the_step() -> None:
    told, stepper = boundaries(("A" * 200 + "X") * 2 + "A" * 150)
    assert stepper.finder.pattern == (ord("A"),)
    assert told == [i for i in range(552) if i not in (200, 401)]
    assert stretches(stepper) == counted((0, "A"))


def test_no_step_begins_with_a_follower() -> None:
    """Tapes and optimizers of an eager accumulation whose epochs end early, and an optimizer before any tape."""
    told, stepper = boundaries(("TTTTo" * 3 + "TTo") * 4)
    assert told == [18 * epoch + step for epoch in range(4) for step in (0, 5, 10, 15)]
    assert stretches(stepper) == counted((0, "TTTTo"))
    told, _ = boundaries("TaTb" * 9)
    assert told == multiples(4, 36)


def test_a_single_call_before_the_loop_does_not_hide_it() -> None:
    told, stepper = boundaries("X" + "A" * 40)
    assert told == multiples(1, 41)
    assert stretches(stepper) == counted((0, "A"))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("A" * 100 + "AB" * 40, [(0, "A"), (100, "AB")]),  # the same function trains on, beside another
        ("AB" * 100 + "A" * 300, [(0, "AB"), (200, "A")]),
        ("A" * 10 + "B" * 10 + "CD" * 10 + "E" * 10, [(0, "A"), (10, "B"), (20, "CD"), (40, "E")]),  # short ones
        ("A" * 30 + "B" * 5 + "A" * 30, [(0, "A")]),  # an interlude
        ("A" * 30 + "B" * 30 + "A" * 30, [(0, "A"), (30, "B"), (60, "A")]),
    ],
)
def test_stretches_of_a_run(word: str, expected: list[tuple[int, str]]) -> None:
    _, stepper = boundaries(word)
    stepper.conclude()
    assert stretches(stepper) == counted(*expected)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(4, 9)), min_size=1, max_size=6), st.randoms())
def test_any_sequence_of_phases_is_found(phases: list[tuple[int, int]], random: random.Random) -> None:
    """Phases of any period, each with functions of its own: a step is any word that ends in a call of its own."""
    word, expected, steps = "", [], []
    for number, (length, times) in enumerate(phases):
        first, second, last = (chr(ord("A") + 3 * number + i) for i in range(3))
        pattern = "".join(random.choice((first, second)) for _ in range(length)) + last
        expected.append((len(word), pattern))
        steps += [len(word) + len(pattern) * i for i in range(times)]
        word += pattern * times
    _, stepper = boundaries(word)
    stepper.conclude()
    assert stretches(stepper) == counted(*expected)
    assert list(stepper._journal.starts) == steps


def test_no_period_falls_back_to_the_dominant_function() -> None:
    """Three functions by chance, one of them twice as often: its calls count."""
    word = "".join(random.Random(1).choices("ABC", (2, 1, 1), k=2000))
    told, stepper = boundaries(word)
    assert stepper.basis == "dominant function"
    assert told[1:] == [i for i, letter in enumerate(word) if letter == "A" and i]
    assert stretches(stepper) == counted((0, "A"))


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
    told, stepper = boundaries(epoch * 12)
    assert told == [len(epoch) * number + begin for number in range(12) for begin in (0, size, 2 * size)]
    assert stretches(stepper) == counted((0, step))


def test_runs_that_grow_are_the_common_function() -> None:
    _, stepper = boundaries("".join("A" * n + "B" for n in range(3, 60)) + "A" * 150)
    assert stepper.finder.pattern == (ord("A"),)


def test_memory_is_bounded() -> None:
    told, stepper = boundaries("ABC" * 7_000)
    assert len(stepper.finder.keys) < 5_000
    assert told == multiples(3, 21_000)


def test_undo_takes_back_a_step() -> None:
    finder = PeriodFinder()
    for key in (0, 1, 0, 1):
        finder.add(key)
    assert finder.add(0) == BEGIN
    finder.undo()
    assert finder.add(0) == BEGIN
    assert finder.add(1) == "inside"


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
    assert len(stepper.finder.pattern) <= max(MAX_PERIOD, MOST_WITHOUT_PATTERN)
