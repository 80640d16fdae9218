"""The leanest hook: on a class that stands for TensorFlow's function."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tcprobe.probe.tensorflow.quick import Quick


class Function:
    """Calls what it holds."""

    def __init__(self, body: Any) -> None:
        self.body = body

    def __call__(self, *args: Any) -> Any:
        return self.body(*args)

    def bound(self) -> Function:
        return type(self)(self.body)


def quick() -> tuple[Quick, list[Any], list[BaseException]]:
    notes: list[Any] = []
    failures: list[BaseException] = []
    return Quick(Function, Function.__call__, notes.append, failures.append), notes, failures


def test_call_is_noted_and_made() -> None:
    mode, notes, _ = quick()
    function = Function(lambda a: a + 1)
    mode.enter(function)
    mode.enter(function)
    assert [function(1), function(2)] == [2, 3]
    assert [note[0] for note in notes] == [function, function]
    assert notes[0][1] < notes[1][1]
    assert isinstance(function, Function)
    assert type(function).__name__ == "Function"


def test_left_functions_are_as_before() -> None:
    mode, notes, _ = quick()
    function = Function(len)
    mode.enter(function)
    mode.leave()
    assert function("ab") == 2
    assert type(function) is Function
    assert notes == []


def test_failure_comes_through() -> None:
    mode, _, failures = quick()
    function = Function(lambda: 1 // 0)
    mode.enter(function)
    with pytest.raises(ZeroDivisionError):
        function()
    assert [type(f) for f in failures] == [ZeroDivisionError]


def test_functions_made_from_a_quick_one_are_not_quick() -> None:
    mode, _, _ = quick()
    function = Function(len)
    mode.enter(function)
    assert type(function.bound()) is Function
    assert copy.copy(function).body is len


def test_subclass_is_left_alone() -> None:
    class Own(Function):
        pass

    mode, _, _ = quick()
    function = Own(len)
    mode.enter(function)
    assert type(function) is Own
