"""What repeats in a sequence of calls, by hand and of sequences whose truth is known."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.readers.run_folder.periods import LONGEST, find_stretches


def found(word: str) -> tuple[list[tuple[int, str]], list[int]]:
    """Return the stretches of a word, and where steps begin; none begins with a small letter."""
    followers = frozenset(ord(letter) for letter in word if letter.islower())
    stretches = find_stretches(np.array([ord(letter) for letter in word], np.int64), followers)
    begins = [call for one in stretches for part in one.begins for call in part.tolist()]
    return [(int(one.begins[0][0]), "".join(map(chr, one.pattern))) for one in stretches], begins


@pytest.mark.parametrize(
    ("word", "step"),
    [
        ("T" * 12, 1), ("DG" * 10, 2), ("GDDDDD" * 4, 6), ("DDDDDG" * 4, 6), ("AAAAB" * 4, 5), ("ABAC" * 4, 4),
        ("ABCABD" * 5, 6), (("D" * 40 + "G") * 3, 41), ("D" * 63 + "G" + ("D" * 63 + "G") * 2, 64), ("TaTb" * 9, 4),
        ("AAABAAABAAABC" * 3, 13), (("A" * 24 + "B" * 4) * 5, 28), (("A" * 20 + "B" * 20) * 4, 40),
    ],
)  # fmt: skip
def test_a_step_is_the_smallest_period_that_has_all_keys(word: str, step: int) -> None:
    assert found(word) == ([(0, word[:step])], list(range(0, len(word), step)))


@pytest.mark.parametrize(
    ("word", "stretches"),
    [
        ("A" * 30 + "B" * 30, [(0, "A"), (30, "B")]),
        ("A" * 100 + "AB" * 40, [(0, "A"), (100, "AB")]),  # the same function trains on, beside another
        ("A" * 30 + "AAB" * 20, [(0, "A"), (30, "AAB")]),
        ("AB" * 100 + "A" * 300, [(0, "AB"), (200, "A")]),
        ("A" * 10 + "B" * 10 + "CD" * 10 + "E" * 10, [(0, "A"), (10, "B"), (20, "CD"), (40, "E")]),
        ("A" * 30 + "B" * 5 + "A" * 30, [(0, "A")]),  # an interlude
        ("A" * 30 + "B" * 30 + "A" * 30, [(0, "A"), (30, "B"), (60, "A")]),
        ("X" + "A" * 40, [(1, "A")]),
        ("AABa" * 9 + "b" + "AABa" * 9, [(0, "AABa")]),
        ("oT" * 20, [(1, "To")]),  # an optimizer of variables that were trained before
    ],
)
def test_stretches_of_a_run(word: str, stretches: list[tuple[int, str]]) -> None:
    assert found(word)[0] == stretches


def test_steps_go_on_after_what_is_irregular() -> None:
    rest = found(("AAAABAAAABAAB" * 3) + "AAAAB")  # accumulation over 4 of 10 batches: the rest of an epoch is a step
    assert rest == ([(0, "AAAAB")], [0, 5, 10, 13, 18, 23, 26, 31, 36, 39])
    _, begins = found(("TTTTo" * 3 + "TTo") * 4)
    assert begins == [18 * epoch + step for epoch in range(4) for step in (0, 5, 10, 15)]
    _, begins = found(("A" * 200 + "X") * 2 + "A" * 150)
    assert begins == [call for call in range(552) if call not in (200, 401)]


@pytest.mark.parametrize("word", ["", "A", "AB", "ABA", "ABCDE", "AAB", "".join("A" * n + "B" for n in range(3, 60))])
def test_what_is_short_or_never_the_same_has_no_steps(word: str) -> None:
    assert found(word) == ([], [])


@pytest.mark.parametrize("letters", ["AB", "ABC", "AAB", "ABCDEFGH"])
def test_chance_repeats_nothing(letters: str) -> None:
    for seed in range(5):
        assert found("".join(random.Random(seed).choices(letters, k=3000))) == ([], [])


@given(st.text("ABC", max_size=12), st.integers(3, 9))
def test_a_word_that_ends_in_a_call_of_its_own_repeats(body: str, times: int) -> None:
    """Whatever a step does before its one last call: the steps are the repetitions."""
    _, begins = found((body + "Z") * times)
    assert begins == [len(body + "Z") * step for step in range(times)]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(4, 30)), min_size=1, max_size=6), st.randoms())
def test_any_sequence_of_phases_is_found(phases: list[tuple[int, int]], chance: random.Random) -> None:
    """Phases of any period, each with functions of its own: a step is any word that ends in a call of its own."""
    word, expected, steps = "", [], []
    for number, (length, times) in enumerate(phases):
        first, second, last = (chr(ord("A") + 3 * number + i) for i in range(3))
        pattern = "".join(chance.choice((first, second)) for _ in range(length)) + last
        expected.append((len(word), pattern))
        steps += [len(word) + len(pattern) * step for step in range(times)]
        word += pattern * times
    assert found(word) == (expected, steps)


@given(st.text("AB", max_size=9), st.lists(st.tuples(st.integers(4, 20), st.integers(0, 10)), min_size=1, max_size=6))
def test_epochs_that_end_early_are_one_stretch(body: str, epochs: list[tuple[int, int]]) -> None:
    """Each epoch has some whole steps, and then the beginning of one."""
    pattern, word, steps = body + "Z", "", []
    for times, cut in epochs:
        steps += [len(word) + len(pattern) * step for step in range(times)]
        word += pattern * times + pattern[: min(cut, len(pattern) - 1)]
    stretches, begins = found(word)
    assert not stretches or stretches == [(0, pattern)]
    assert not stretches or set(steps) <= set(begins)


@given(st.lists(st.integers(0, 3), max_size=6 * LONGEST))
def test_any_sequence_gives_rising_begins_or_none(keys: list[int]) -> None:
    stretches, begins = found("".join(chr(65 + key) for key in keys))
    assert begins == sorted(set(begins))
    assert all(0 < len(pattern) <= LONGEST for _, pattern in stretches)
