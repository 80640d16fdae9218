"""The window in a recording that a tool makes: it moves, and the recording begins and ends once."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.probe.config import Config
from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.ranges import Ranges
from tcprobe.probe.sessions import RecordedRange, RecordedWindow
from tests.probe.core.test_window import Run


def recorded(certain_from: int = 0, **settings: Any) -> Run:
    run = Run(**settings)
    config = Config(out="", raw="", kind="script", name="", argv=[], tool=True, **settings)
    run.window = RecordedWindow(config, run.numbers, run.starts, lambda: run.count >= certain_from)
    return run


def test_steps_without_numbers_are_in_no_window() -> None:
    """Alike from step 2 on, but a step is marked from step 8 on."""
    run = recorded(certain_from=8).steps([1.0, *[0.1] * 40])
    assert run.actions == [(1, "open"), (28, "close")]
    assert run.end() == (8, 27, "step times had settled")


def test_steps_that_are_never_certain_end_it_all_the_same() -> None:
    run = recorded(certain_from=1000).steps([0.1] * 40)
    assert run.actions == [(1, "open"), (32, "close")] and run.end()[:2] == (12, 31)


def test_other_steps_move_the_window_and_not_the_recording() -> None:
    run = recorded().steps([0.1] * 6)
    run.window.revised(2)
    run.steps([0.1] * 30)
    assert run.actions == [(1, "open"), (26, "close")] and run.end()[:2] == (6, 25)


def test_a_later_phase_counts_where_it_is_as_long() -> None:
    run = recorded().steps([0.1] * 10)
    run.window.phase_began(8)
    run.steps([0.1] * 20)
    assert run.actions == [(1, "open")] and run.end()[:2] == (10, 29)


def test_a_short_later_phase_leaves_the_window_to_the_one_before() -> None:
    run = recorded().steps([0.1] * 12)
    run.window.phase_began(11)
    run.steps([0.1] * 2)
    assert run.end() == (2, 10, "step times had settled; it ends where another phase begins")


def test_what_is_asked_for_stays() -> None:
    run = recorded(certain_from=1000, iter_start=3, iter_stop=5).steps([0.1] * 4)
    run.window.revised(2)
    run.window.phase_began(4)
    run.steps([0.1] * 6)
    assert run.actions == [(3, "open"), (6, "close")] and run.end()[:2] == (3, 5)


def test_a_recording_begins_and_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tool there is none; with one, what was ended is not begun again."""
    ranges, gaps = Ranges(Gaps(str)), Gaps(str)
    deaf = RecordedRange(ranges, gaps)
    deaf.find_tool()
    assert not deaf.start() and not deaf.available and gaps.gaps == []
    told: list[str] = []
    monkeypatch.setattr(ranges, "begin_window", lambda: told.append("begin") or True)
    monkeypatch.setattr(ranges, "end_window", lambda: told.append("end"))
    heard = RecordedRange(ranges, gaps)
    assert heard.start() and heard.start()
    heard.stop()
    heard.discard()
    assert not heard.start() and told == ["begin", "end"]
