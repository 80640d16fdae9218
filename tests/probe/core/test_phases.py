"""Phases of a run, and what a step of them calls."""

from __future__ import annotations

from threading import get_ident

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.phases import Phase, StepCalls, phase_at, steps_of_a_row, usual_count
from tcprobe.probe.core.ranges import Ranges
from tcprobe.probe.core.training import TrainingCalls
from tests.probe.core.test_stepper import make


@pytest.mark.parametrize(
    ("row", "expected"), [(0, 0), (9, 0), (10, 1), (29, 1), (None, 1)], ids=["first", "last", "next", "end", "unknown"]
)
def test_phase_of_a_row(row: int | None, expected: int) -> None:
    assert phase_at([Phase(0, {}, "period"), Phase(10, {}, "period")], row) == expected


def test_a_run_without_steps_has_no_phase() -> None:
    assert phase_at([], None) is None
    assert StepCalls({}, None).per_step() == {}


def test_a_row_stands_for_as_many_steps_as_most_do() -> None:
    numbers = [0, 5, 10, 15, 16, 21]  # an epoch of 16 steps, five in a call
    assert steps_of_a_row(numbers, 0, 5, 26) == 5
    assert steps_of_a_row(numbers, 3, 3, 26) == 1
    assert steps_of_a_row(numbers, 5, 5, 26) == 5
    assert steps_of_a_row([], 0, -1, 0) == 1


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([1, 11, 21, 31], 1),  # once in every step
        ([38, 38, 39, 39, 39], 0),  # validation after the last
        ([1, 2, 11, 12, 19, 21, 22, 31, 32], 2),
        ([], 0),
    ],
)
def test_usual_calls_of_a_row(times: list[int], expected: int) -> None:
    assert usual_count(times, [0, 10, 20, 30]) == expected
    assert usual_count(times, []) == 0


def test_functions_that_train_nothing_are_part_of_a_step_that_calls_them() -> None:
    """Augmentation in each step is; validation at the end of an epoch is not."""
    stepper = make()  # its clock counts readings
    gaps = Gaps()
    calls = TrainingCalls(stepper, Ranges(gaps), lambda reading: reading, gaps, None)
    train, augment, validate = (calls.add(name, eager=False) for name in ("train", "augment", "validate"))
    train.training = True
    calls.owner = get_ident()
    for number in range(12):
        calls.count(train)
        calls.passed(augment, number)
        for _ in range(9 if number == 11 else 0):
            calls.passed(validate, number)
    found = calls.step_calls(stepper.phases(), 5)
    assert found.per_step() == {0: 1.0, 1: 1.0, 2: 0.0}
    assert found.in_phases == {0: [1.0], 1: [1.0], 2: [0.0]}
