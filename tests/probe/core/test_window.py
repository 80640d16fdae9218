"""Which steps are profiled: worked by hand over given step times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.config import Config
from tcprobe.probe.core.window import WindowState

SECOND = 10**9


class Run:
    """Feeds steps of given lengths to a window."""

    def __init__(self, **settings: Any) -> None:
        config = Config(out="", raw="", kind="script", name="", argv=[], **settings)
        self.numbers: list[int] = []
        self.starts: list[int] = []
        self.window = WindowState(config, self.numbers, self.starts)
        self.actions: list[tuple[int, str]] = []
        self.now = 0
        self.count = 0

    def steps(self, lengths: Sequence[float], weight: int = 1, grown: int = 0) -> Run:
        for length in lengths:
            row = len(self.numbers)
            done = self.window.before_step(row, self.count, self.now, grown)
            self.actions += [(self.count, action) for action in done]
            self.numbers.append(self.count)
            self.starts.append(self.now)
            self.count += weight
            self.now += int(length * SECOND)
        return self

    def end(self) -> tuple[int | None, int | None, str]:
        self.window.finish(len(self.numbers) - 1)
        told = self.window.describe(self.count, 0, self.now)
        return (told["first_step"], told["last_step"], told["reason"]) if told else (None, None, "")


def test_default_window() -> None:
    """Compilation in step 0; steps 1 and 2 alike: settled when step 3 begins, and 20 from there."""
    run = Run().steps([5, *[0.1] * 40])
    assert run.actions == [(1, "open"), (23, "close")]
    assert run.end() == (3, 22, "step times had settled")
    kinds = [run.window.kind(row) for row in range(41)]
    assert kinds == ["warm-up"] * 3 + ["profiled"] * 20 + ["after"] * 18


def test_slow_start_moves_the_window() -> None:
    """Step times halve until step 4: 3.2, 1.6, .8, .4, then .2 twice."""
    assert Run().steps([3.2, 1.6, 0.8, 0.4, 0.2, 0.2, *[0.2] * 30]).end()[:2] == (6, 25)


def test_steps_that_never_settle() -> None:
    first, last, reason = Run().steps([0.1, 0.3] * 30).end()
    assert (first, last) == (12, 31)
    assert "had not settled" in reason


@pytest.mark.parametrize(("steps", "window"), [(1, (None, None)), (2, (1, 1)), (3, (1, 2))])
def test_short_run_is_profiled_from_its_second_step(steps: int, window: tuple[int | None, int | None]) -> None:
    run = Run().steps([1.0, 0.5, 0.1][:steps])
    assert run.end()[:2] == window
    if steps > 1:
        assert run.window.reason.endswith("profiled from its second step")


def test_asked_for() -> None:
    run = Run(iter_start=15, iter_stop=17).steps([0.1] * 30)
    assert run.actions == [(15, "open"), (18, "close")]
    assert run.end()[:2] == (15, 17)
    assert [run.window.kind(row) for row in (0, 1, 2, 14, 15, 17, 18)] == [
        *("warm-up", "warm-up", "measured", "measured", "profiled", "profiled", "after")
    ]


def test_asked_for_and_not_reached() -> None:
    assert Run(iter_start=15).steps([0.1] * 10).end() == (None, None, "")


def test_long_steps_are_cut_by_time() -> None:
    """Settled at step 2; its seventh step of 10 s ends after more than 60 s."""
    first, last, reason = Run().steps([10.0] * 30).end()
    assert (first, last) == (2, 8)
    assert "60 s" in reason


def test_large_trace_is_cut_by_size() -> None:
    run = Run(window_bytes=10).steps([0.1] * 2).steps([0.1] * 10, grown=1000)
    assert run.end()[:2] == (1, 1)
    assert "memory" in run.window.reason


def test_several_steps_a_call() -> None:
    """Calls of 5 steps: 20 steps are 4 calls; the last step of the last call is the window's last."""
    assert Run().steps([9, *[0.1] * 20], weight=5).end()[:2] == (15, 34)


def test_wrong_steps_are_profiled_again() -> None:
    run = Run().steps([5, *[0.1] * 10])
    del run.numbers[1:], run.starts[1:]
    run.count = 1
    run.window.revised(1)
    run.steps([0.5] * 30)
    assert run.actions == [(1, "open"), (1, "discard"), (1, "open"), (23, "close")]


def test_scripts_own_profiler_comes_first() -> None:
    run = Run().steps([5, *[0.1] * 6])
    assert run.window.preempted(6)
    run.steps([0.1] * 40)
    assert run.actions[1:] == [(7, "open"), (28, "close")]


def test_what_the_scripts_own_profiler_left_is_kept() -> None:
    run = Run().steps([5, *[0.1] * 6])
    run.window.preempted(6)
    run.window.failed()
    assert run.end() == (3, 6, "cut short by the script's own profiler")


def test_another_profiler_has_the_whole_run() -> None:
    run = Run(profile=False).steps([1, *[0.1] * 30])
    assert run.actions == []
    assert [run.window.kind(row) for row in (1, 2, 30)] == ["warm-up", "profiled", "profiled"]


@given(st.lists(st.floats(0.001, 50), min_size=2, max_size=80), st.integers(1, 6))
def test_any_run_of_two_steps_has_a_window(lengths: list[float], weight: int) -> None:
    run = Run().steps(lengths, weight)
    first, last, reason = run.end()
    assert first is not None
    assert last is not None
    assert weight <= first <= last < len(lengths) * weight
    assert reason
    names = [name for _, name in run.actions]
    assert names in (["open"], ["open", "close"])
