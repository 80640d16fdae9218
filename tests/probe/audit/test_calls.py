"""`AuditCalls`: a function that is called in several sizes, each of which is traced and counted."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.audit.calls import MOST_CALLS, MOST_SIZES, AuditCalls, Training
from tcprobe.probe.audit.onward import Onward, Stopped
from tcprobe.probe.core.gaps import Gaps


class Sizes(tuple[int | None, ...]):
    """A shape as TensorFlow has it."""

    @property
    def rank(self) -> int:
        return len(self)


def flat(values: Any) -> list[Any]:
    return [one for value in values for one in flat(value)] if isinstance(values, list | tuple) else [values]


SHORT, LONG = (8, 32), (8, 64)


def train(calls: list[tuple[int, int]], signature: tuple[int | None, ...] | None, also: int = 0) -> AuditCalls:
    """Call a training function in a loop until that is stopped; `also` calls another one as often each time."""
    recorder = SimpleNamespace(current=None, fits=SimpleNamespace(current=lambda: None))
    watch = AuditCalls(recorder, SimpleNamespace(ops=[]), Gaps(), None, Onward())  # type: ignore[arg-type]
    watch.tf = SimpleNamespace(nest=SimpleNamespace(flatten=flat), function=lambda made, jit_compile: made())
    watch._function_class = Onward  # nothing that the loop names is one
    given = None if signature is None else (SimpleNamespace(shape=Sizes(signature)),)
    both = [SimpleNamespace(input_signature=given, python_function=SimpleNamespace) for _ in range(1 + also)]
    watch.names = {id(f): f"__main__.train{i or ''}" for i, f in enumerate(both)}
    watch._functions = {id(f): (f, f) for f in both}
    watch._first = lambda key, anew, *_: watch._functions.setdefault(key, (anew, anew))  # type: ignore[assignment,func-returns-value,method-assign]
    with suppress(Stopped):
        for sizes in calls:
            for function in both:
                watch._train(lambda *_: None, function, (SimpleNamespace(shape=Sizes(sizes)), 7), {})
    return watch


def taken(watch: AuditCalls) -> Training:
    watch.hooks.forget_tape = lambda: None  # type: ignore[method-assign]
    return watch.take()


@pytest.mark.parametrize(
    ("signature", "calls", "counted", "note"),
    [
        (None, [LONG, LONG, SHORT], [1], None),  # left at its second turn
        (None, [LONG, SHORT, LONG, SHORT, LONG], [3, 2], None),
        ((None, 64), [LONG, LONG], [1], None),  # the batch alone
        ((None, None), [LONG, LONG, SHORT], [2, 1], None),
        ((None, None), [LONG] * 99, [MOST_CALLS], f"in those of its first {MOST_CALLS} calls, (8, 64)"),
        ((None, None), [(8, n) for n in range(99)], [1] * MOST_SIZES, None),
    ],
)  # fmt: skip
def test_calls_are_counted_by_their_sizes(
    signature: tuple[int | None, ...] | None, calls: list[tuple[int, int]], counted: list[int], note: str | None
) -> None:
    watch = train(calls, signature)
    training = taken(watch)
    assert list(training.in_sizes.values()) == counted
    assert training.more_sizes == (len(counted) == MOST_SIZES)  # a ninth was seen
    assert [one.endswith(str(note)) for one in watch.notes] == [True] * (note is not None)


def test_sizes_that_change_where_a_step_calls_several_functions_are_said() -> None:
    watch = train([LONG, SHORT], None, also=1)
    assert taken(watch).calls_per_step() == dict.fromkeys(watch.names, 1.0)
    first, other = watch.notes[0].split(": ")
    assert first == "the sizes of train change from step to step, (8, 64) and then (8, 32)"
    assert other == "it is judged in those of its first call"
