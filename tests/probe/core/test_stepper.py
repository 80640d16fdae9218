"""Steps from calls: numbers, steps of one call, and how often a function is called in a step."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.probe.core.stepper import Stepper
from tests.support import examples


class Rows:
    """A journal that keeps its rows in lists."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.starts: list[int] = []

    def row(self, number: int, start: int) -> None:
        self.numbers.append(number)
        self.starts.append(start)

    def truncate(self, row: int) -> None:
        del self.numbers[row:], self.starts[row:]

    def rows(self, numbers: Sequence[int], starts: Sequence[int]) -> None:
        self.numbers += numbers
        self.starts += starts


def make(*told: list[int]) -> Stepper:
    """Return a stepper that tells the rows at which phases begin to a list."""
    ignore: Any = lambda *_: None  # noqa: E731
    listener = SimpleNamespace(before_step=ignore, begun=ignore, lost=ignore, revised=ignore, retracted=ignore)
    listener.phase_began = told[0].append if told else ignore
    rows: Any = Rows()
    return Stepper(rows, iter(range(10**6)).__next__, listener)


def test_phases_are_told_as_they_show() -> None:
    told: list[int] = []
    stepper = make(told)
    for key in [0] * 40 + [1, 1, 2] * 20 + [3] * 4:  # pretraining, training, and a little of a third
        stepper.call(key, steps=5 if key == 0 else 1)
    assert told == [40]
    assert stepper.count == 200 + 20


def test_a_false_start_is_no_phase() -> None:
    told: list[int] = []
    stepper = make(told)
    for key in ([0] * 5 + [1]) * 6:
        stepper.call(key)
    assert told == []


def test_one_call_of_several_steps() -> None:
    stepper = make()
    for _ in range(8):
        stepper.call(0, steps=5)
    stepper.call(0, steps=1)  # the rest of an epoch
    assert stepper.count == 41


def test_phases_of_steps_that_the_script_marks() -> None:
    """Calls do not count; a phase is told when its third step has ended."""
    told: list[int] = []
    stepper = make(told)
    stepper.call(7)
    for number in range(30):
        stepper.step()
        for key in [0] if number < 10 else [1, 1]:
            stepper.call(key)
        assert told == ([] if number < 13 else [10])
    assert stepper._journal.numbers == list(range(30))
    assert stepper.basis == "tcprobe.step"


@pytest.mark.parametrize("epochs", [1, 2, 5, 90])
@pytest.mark.parametrize("step", [[0], [0, 1], [0, 0, 1]])
def test_a_call_that_only_finds_the_data_at_their_end_is_no_step(step: list[int], epochs: int) -> None:
    stepper = make()
    for epoch in range(epochs):
        for number, key in enumerate(step * 7):
            stepper.call(key, start=100 * epoch + number)
        stepper.call(step[0], start=100 * epoch + 99)
        stepper.retract()
    steps = [100 * epoch + number for epoch in range(epochs) for number in range(0, 7 * len(step), len(step))]
    assert list(stepper._journal.starts) == steps
    assert stepper.count == 7 * epochs


def test_a_phase_is_told_once() -> None:
    told: list[int] = []
    stepper = make(told)
    for key in [0] * 100 + [0, 1] * 40 + [1] * 5 + [0, 1] * 40:
        stepper.call(key)
    assert told == [100]


STRETCHES = st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(1, 150))


@settings(max_examples=examples(40))
@given(stretches=st.lists(STRETCHES, max_size=4), block=st.integers(1, 300))
def test_calls_counted_together_count_as_each_does(stretches: list[tuple[list[int], int]], block: int) -> None:
    keys = [key for pattern, times in stretches for key in pattern * times]
    alone, together = make(), make()
    for start, key in enumerate(keys):
        alone.call(key, 1 + key, start)
    for first in range(0, len(keys), block):
        part = keys[first : first + block]
        starts = list(range(first, first + len(part)))
        while part:
            count = together.follow(part, [1 + key for key in part], starts)
            if not count:
                together.call(part[0], 1 + part[0], starts[0])
            part, starts = part[count or 1 :], starts[count or 1 :]
    assert together._journal.numbers == alone._journal.numbers
    assert together._journal.starts == alone._journal.starts
    assert (together.count, together.basis, together.pattern) == (alone.count, alone.basis, alone.pattern)
