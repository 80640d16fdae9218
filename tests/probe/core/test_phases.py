"""Phases of a run, and what a step of them calls."""

from __future__ import annotations

from tcprobe.probe.core.phases import steps_of_a_row


def test_a_row_stands_for_as_many_steps_as_most_do() -> None:
    numbers = [0, 5, 10, 15, 16, 21]  # an epoch of 16 steps, five in a call
    assert steps_of_a_row(numbers, 0, 5, 26) == 5
    assert steps_of_a_row(numbers, 3, 3, 26) == 1
    assert steps_of_a_row(numbers, 5, 5, 26) == 5
    assert steps_of_a_row([], 0, -1, 0) == 1
