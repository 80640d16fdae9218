"""Whether the loop around a training call is still to come to another training function."""

from __future__ import annotations

import sys
from typing import Any

from tcprobe.probe.audit.loops import loops, running_loops, share, waits


class Step:
    """Stands for a tf.function."""

    def __init__(self, called: bool = False) -> None:
        self.called = called


class Model:
    train_function: Any = None

    def train_on_batch(self) -> None: ...


def unseen(value: Any) -> bool:
    return isinstance(value, Step) and not value.called


def here() -> bool:
    return waits(running_loops(sys._getframe(1)), unseen)


other = Step()


def through_a_function() -> Step:
    return other


def test_another_step_in_the_same_loop_is_waited_for() -> None:
    critic, generator = Step(called=True), Step()
    answers = []
    for _ in range(1):
        answers.append(here())
        assert critic is not generator
    assert answers == [True]


def test_a_step_that_was_called_or_stands_behind_the_loop_is_not() -> None:
    critic, generator = Step(called=True), Step()
    for _ in range(1):
        answer = here()
        assert critic
    assert not answer
    assert generator


def test_the_callers_loop_and_the_functions_that_it_calls_count() -> None:
    for _ in range(1):
        answer = here()
        step = through_a_function
    assert answer
    assert step() is other


def test_a_step_of_an_object() -> None:
    class Trainer:
        step = Step()

    trainer = Trainer()
    for _ in range(1):
        answer = here()
        assert trainer.step
    assert answer


def test_a_model_that_was_not_trained_yet() -> None:
    first, second = Model(), Model()
    first.train_function = object()
    for _ in range(1):
        answer = here()
        first.train_on_batch()
    assert not answer
    for _ in range(1):
        answer = here()
        second.train_on_batch()
    assert answer


def test_loops_of_a_line() -> None:
    assert loops("/nowhere/at/all.py", 3) == []
    for _ in range(1):
        found = loops(__file__, sys._getframe().f_lineno)
    assert len(found) == 1


def test_calls_share_a_loop_while_it_runs_and_no_longer() -> None:
    def around() -> list[Any]:
        return running_loops(sys._getframe(1))

    def twice() -> tuple[list[Any], list[Any]]:
        for _ in range(1):
            return around(), around()
        raise AssertionError

    first, second = twice()
    assert share(first, second)
    assert not share(first, twice()[0])
    for _ in range(2):
        inside = [around() for _ in range(2)]
    for _ in range(1):
        behind = around()
    assert share(*inside)
    assert not share(inside[0], behind)
    assert not share([], [])
