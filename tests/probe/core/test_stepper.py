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


def make() -> Stepper:
    ignore: Any = lambda *_: None  # noqa: E731
    listener = SimpleNamespace(before_step=ignore, begun=ignore, lost=ignore, revised=ignore, retracted=ignore)
    rows: Any = Rows()
    return Stepper(rows, iter(range(10**6)).__next__, listener)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([0] * 6, {0: 1.0}),
        ([0, 1] * 6, {0: 1.0, 1: 1.0}),  # alternating D and G
        ([0, 0, 0, 0, 0, 1] * 6, {0: 5.0, 1: 1.0}),  # five critic updates and one generator update
        ([0, 0, 0, 0, 1] * 6, {0: 4.0, 1: 1.0}),  # gradient accumulation
        ([], {}),
        ([0], {}),  # one call: where its step ends is not known
    ],
)
def test_calls_in_a_step(calls: list[int], expected: dict[int, float]) -> None:
    stepper = make()
    for key in calls:
        stepper.call(key)
    assert stepper.calls_per_step() == expected


def test_one_call_of_several_steps() -> None:
    stepper = make()
    for _ in range(8):
        stepper.call(0, steps=5)
    assert stepper.calls_per_step() == {0: 0.2}
    assert stepper.count == 40


def test_calls_in_steps_that_the_script_marks() -> None:
    stepper = make()
    for number in range(4):
        stepper.step("tcprobe.step")
        for key in [0, 0, 1] if number < 3 else [0]:  # the last step is cut off
            stepper.call(key)
    assert stepper.calls_per_step() == {0: 2.0, 1: 1.0}


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
    assert together.calls_per_step() == alone.calls_per_step()
    assert (together.count, together.basis, together.finder.pattern) == (alone.count, alone.basis, alone.finder.pattern)
