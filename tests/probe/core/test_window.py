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
        self.grown = 0
        self.trace = 0.0

    def steps(self, lengths: Sequence[float], weight: int = 1, grown: int = 0, trace: float = 0) -> Run:
        """Take steps; `grown`: bytes by which the process grew in each, `trace`: bytes of the trace of each."""
        for length in lengths:
            row = len(self.numbers)
            done = self.window.before_step(row, self.count, self.now, self.grown)
            if "measure" in done:
                self.actions.append((self.count, "measure"))
                done = self.window.measured(row, self.count, self.now, int(self.trace))
            if "open" in done:
                self.grown, self.trace = 0, 0.0
            self.grown, self.trace = self.grown + grown, self.trace + trace * weight
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
    assert reason == "step times had settled; cut short: its steps took 70 s"


def test_growth_that_is_not_the_traces_costs_no_step() -> None:
    """60 bytes a step, almost none of them the trace's: looked into once, and 20 steps from there."""
    run = Run(window_bytes=30).steps([5, *[0.1] * 2]).steps([0.1] * 40, grown=60, trace=0.1)
    assert run.actions == [(1, "open"), (5, "measure"), (5, "open"), (25, "close")]
    assert run.end() == (5, 24, "step times had settled")


def test_what_was_recorded_until_a_look_says_why_it_is_short() -> None:
    """20 MB of memory a step: looked into before step 9, and the run ends after three more."""
    run = Run(window_bytes=50e6).steps([5]).steps([0.1] * 11, grown=20_000_000)
    assert run.actions == [(1, "open"), (9, "measure"), (9, "open")]
    reason = "step times had settled; cut short: memory grew, and the trace was read to see why"
    assert run.end() == (3, 8, reason)


def test_large_trace_is_cut_by_size() -> None:
    """20 MB of trace a step: 3 x 50 MB of memory are reached after 3 steps, whose trace takes 60 MB."""
    run = Run(window_bytes=50e6).steps([5]).steps([0.1] * 20, grown=60_000_000, trace=20e6)
    assert run.actions == [(1, "open"), (4, "measure")]
    reason = "step times had settled; cut short: the trace of steps 1 to 3 takes 60 MB"
    assert run.end() == (3, 3, reason)


def test_trace_that_was_measured_bounds_the_steps() -> None:
    """5 MB of trace a step and more memory for other things: looked into before step 3, then 10 steps fill 50 MB."""
    run = Run(window_bytes=50e6).steps([5]).steps([0.1] * 30, grown=100_000_000, trace=5e6)
    assert run.actions == [(1, "open"), (3, "measure"), (3, "open"), (13, "close")]
    assert run.end() == (3, 12, "step times had settled; cut short: the trace takes 5.0 MB a step")


def test_first_step_fills_the_trace() -> None:
    run = Run(window_bytes=50e6).steps([5]).steps([0.1] * 9, grown=190_000_000, trace=59e6)
    assert run.end() == (1, 1, "step times had not settled; cut short: the trace of steps 1 to 1 takes 59 MB")


def test_steps_that_were_asked_for_are_looked_into_later() -> None:
    """180 x 4 steps of memory; what was recorded until then is the longer part."""
    run = Run(window_bytes=50e6, iter_start=4, iter_stop=14).steps([0.1] * 30, grown=100_000_000)
    assert run.actions == [(4, "open"), (11, "measure"), (11, "open"), (15, "drop")]
    assert run.end() == (4, 10, "as asked, but only to step 10: memory grew, and the trace was read to see why")


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


def test_nothing_is_slowed_while_no_session_was_opened() -> None:
    run = Run().steps([0.1])
    for _ in range(5):
        run.steps([0.1])
        run.window.failed()  # as without TensorFlow
    assert [run.window.kind(row) for row in range(6)] == ["warm-up"] * 2 + ["measured"] * 4
    run.steps([0.1] * 30)  # it was imported late: what came before is another matter
    assert [run.window.kind(row) for row in (2, 5, 30)] == ["warm-up", "warm-up", "after"]


def test_the_scripts_own_profiler_slows_steps_too() -> None:
    run = Run()
    run.steps([0.1])
    run.window.script_began(run.now)
    run.steps([5, 0.1, 5])
    run.window.script_ended(whole=False)
    assert run.window.kind(3) == "warm-up"


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


def test_window_moves_into_a_phase_that_begins_inside_it() -> None:
    """Steps 3 to 9 are of the first phase; that 10 is of another is known before 12."""
    run = Run().steps([5, *[0.1] * 11])
    run.window.phase_began(10)
    run.steps([0.1] * 40)
    assert run.actions == [(1, "open"), (12, "close"), (12, "open"), (33, "close")]
    assert run.end() == (13, 32, "step times had settled")


def test_longer_part_counts_where_the_run_ends_in_the_new_phase() -> None:
    run = Run().steps([5, *[0.1] * 11])
    run.window.phase_began(10)
    run.steps([0.1] * 3)
    assert run.window.finish(len(run.numbers) - 1) == ("drop",)
    assert run.end() == (3, 9, "step times had settled; it ends where another phase begins")


def test_window_ends_where_a_phase_began_that_is_known_too_late() -> None:
    run = Run().steps([5, *[0.1] * 25])
    run.window.phase_began(20)
    assert run.end() == (3, 19, "step times had settled; it ends where another phase begins")
    run = Run().steps([5, *[0.1] * 23])
    run.window.phase_began(6)
    run.steps([0.1] * 30)
    assert run.actions == [(1, "open"), (23, "close"), (24, "open"), (45, "close")]


def test_window_does_not_mix_phases_that_are_told_as_the_run_ends() -> None:
    run = Run().steps([5, *[0.1] * 15])
    run.window.phase_began(10)
    run.window.phase_began(13)
    assert run.end() == (3, 9, "step times had settled; it ends where another phase begins")


def test_scripts_own_profile_serves_where_ours_cannot() -> None:
    run = Run()
    run.window.script_began(0)
    run.steps([5, *[0.1] * 30])
    assert run.actions == []
    assert run.window.script_ended(whole=True)
    assert run.end() == (3, 30, "in the script's own profile, from where step times had settled")
    assert run.window.is_theirs


def test_longest_of_the_scripts_own_profiles() -> None:
    run = Run().steps([1])
    for steps, whole, best in [(1, True, True), (4, True, True), (2, True, False), (9, False, False)]:
        run.window.script_began(run.now)
        run.steps([7 if row % 2 else 0.1 for row in range(len(run.numbers), len(run.numbers) + steps)])
        assert run.window.script_ended(whole) == best
    assert run.end() == (2, 5, "in the script's own profile")


def test_ours_counts_where_it_is_long_enough() -> None:
    run = Run()
    run.window.script_began(0)
    run.steps([0.1] * 50)
    run.window.script_ended(whole=True)
    run.steps([0.1] * 40)
    assert run.end() == (51, 70, "step times had settled")
    assert not run.window.is_theirs


def test_asked_for_within_the_scripts_own_profile() -> None:
    run = Run(iter_start=5, iter_stop=7)
    run.window.script_began(0)
    run.steps([0.1] * 30)
    run.window.script_ended(whole=True)
    assert run.end()[:2] == (5, 7)
