"""After how many calls variables are updated, by the updates that calls in a row made."""

from __future__ import annotations

import itertools

import pytest

from tcprobe.probe.tensorflow.steps_per_call import Every


@pytest.mark.parametrize(
    ("calls", "updates", "said"),
    [
        (20, 5, "4"),
        (20, 10, "2"),
        (20, 6, "3"),
        (20, 7, "3"),
        (20, 4, "5 to 6"),
        (20, 1, "11 or more"),
        (9, 2, "4 to 8"),
    ],
)
def test_number_that_makes_so_many_updates(calls: int, updates: int, said: str) -> None:
    assert str(Every.of(calls, updates)) == said


def test_the_true_number_is_always_among_those_that_are_said() -> None:
    for true, calls in itertools.product(range(2, 9), range(2, 40)):
        for begin in range(true):
            updates = sum(call % true == 0 for call in range(begin, begin + calls))
            if updates:
                least, most = Every.of(calls, updates)
                assert least <= true <= (true if most is None else most)


def test_more_calls_tell_more_exactly_unless_they_contradict() -> None:
    assert Every.of(22, 5).narrowed(Every.of(36, 9)) == Every(4, 4)
    assert Every.of(20, 1).narrowed(Every.of(60, 4)) == Every(13, 19)
    assert Every.of(22, 5).narrowed(Every.of(50, 1)) == Every.of(22, 5)
    assert Every.of(22, 5).narrowed(Every.of(36, 30)) == Every.of(22, 5)
