"""Steps from calls: numbers, steps of one call, and how often a function is called in a step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.probe.core.phases import steps_of_a_row
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


def calls_per_step(stepper: Stepper) -> list[dict[int, float] | None]:
    """Return the calls in a step of each phase, by key."""
    phases, rows = stepper.phases(), stepper._journal.numbers
    ends = [*(phase.first_row for phase in phases[1:]), len(rows)][: len(phases)]
    steps = [steps_of_a_row(rows, p.first_row, end - 1, stepper.count) for p, end in zip(phases, ends, strict=True)]
    return [p.calls and {key: n / count for key, n in p.calls.items()} for p, count in zip(phases, steps, strict=True)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([0] * 6, {0: 1.0}),
        ([0, 1] * 6, {0: 1.0, 1: 1.0}),  # alternating D and G
        ([0, 0, 0, 0, 0, 1] * 6, {0: 5.0, 1: 1.0}),  # five critic updates and one generator update
        ([0, 0, 0, 0, 1] * 6, {0: 4.0, 1: 1.0}),  # gradient accumulation
        ([0], None),  # one call: where its step ends is not known
    ],
)
def test_calls_in_a_step(calls: list[int], expected: dict[int, float] | None) -> None:
    stepper = make()
    for key in calls:
        stepper.call(key)
    assert calls_per_step(stepper) == [expected]


def test_a_run_without_calls_has_no_phase() -> None:
    assert make().phases() == []


def test_phases_have_calls_of_their_own() -> None:
    told: list[int] = []
    stepper = make(told)
    for key in [0] * 40 + [1, 1, 2] * 20 + [3] * 4:  # pretraining, training, and a little of a third
        stepper.call(key, steps=5 if key == 0 else 1)
    assert told == [40]
    stepper.conclude()
    assert told == [40, 60]
    assert [phase.first_row for phase in stepper.phases()] == [0, 40, 60]
    assert calls_per_step(stepper) == [{0: 0.2}, {1: 2.0, 2: 1.0}, {3: 1.0}]
    assert stepper.count == 200 + 20 + 4


def test_a_false_start_is_no_phase() -> None:
    stepper = make()
    for key in ([0] * 5 + [1]) * 6:
        stepper.call(key)
    assert [(phase.first_row, phase.calls) for phase in stepper.phases()] == [(0, {0: 5, 1: 1})]


def test_calls_without_a_period_are_a_mean() -> None:
    stepper = make()
    for key in random.Random(1).choices((0, 1, 2), (2, 1, 1), k=2000):
        stepper.call(key)
    (phase,) = stepper.phases()
    assert phase.basis == "dominant function"
    assert phase.calls is not None
    assert phase.calls[0] == 1.0
    assert 0.4 < phase.calls[1] < 0.6


def test_steps_are_counted_that_only_the_end_of_the_run_tells() -> None:
    stepper = make()
    for key in [0] * 30 + [1] * 5:
        stepper.call(key)
    assert stepper.count == 30
    stepper.conclude()
    assert stepper.count == 35


def test_one_call_of_several_steps() -> None:
    stepper = make()
    for _ in range(8):
        stepper.call(0, steps=5)
    stepper.call(0, steps=1)  # the rest of an epoch
    assert calls_per_step(stepper) == [{0: 0.2}]
    assert stepper.count == 41


def test_calls_in_steps_that_the_script_marks() -> None:
    stepper = make()
    for number in range(4):
        stepper.step("tcprobe.step")
        for key in [0, 0, 1] if number < 3 else [0]:  # the last step is cut off
            stepper.call(key)
    assert calls_per_step(stepper) == [{0: 2.0, 1: 1.0}]


def test_phases_of_steps_that_the_script_marks() -> None:
    told: list[int] = []
    stepper = make(told)
    for number in range(30):
        stepper.step("tcprobe.step")
        for key in [0] if number < 10 else [1, 1]:
            stepper.call(key)
    assert told == [10]
    assert calls_per_step(stepper) == [{0: 1.0}, {1: 2.0}]


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
    assert calls_per_step(together) == calls_per_step(alone)
    assert (together.count, together.basis, together.finder.pattern) == (alone.count, alone.basis, alone.finder.pattern)
