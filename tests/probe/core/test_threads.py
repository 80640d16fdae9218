"""Which thread has the steps, and what becomes of the calls of others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.core.journal import CallLog
from tcprobe.probe.core.threads import MOST_KEPT, SILENT, TAKES_OVER, Aside, Threads
from tests.probe.core.test_calls import rows

MAIN, OTHER = threading.get_ident(), 2


class Rig:
    """Threads whose main one calls every 10 ns."""

    def __init__(self, folder: Path) -> None:
        self.log = CallLog(str(folder / "calls.bin"))
        self.threads = Threads(self.log)
        self.callee = SimpleNamespace(key=7, made=0)
        for start in range(0, 50, 10):
            self.threads.called(start)

    def aside(self, *starts: int, thread: int = OTHER) -> list[int]:
        """Call in another thread; return the starts of what becomes the steps with the last of these calls."""
        found: list[Aside] = []
        for start in starts:
            found = self.threads.aside(thread, MAIN, Aside(self.callee, start, 1))
        return [call.start for call in found]

    def kept(self, folder: Path) -> list[tuple[int, int, int, int]]:
        self.log.flush()
        return rows(folder / "calls.bin")


def test_calls_of_another_thread_are_kept_as_its_own(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.aside(41, 42, 43) == []
    rig.threads.called(50)
    assert rig.aside(51) == []
    rig.threads.flush()
    assert sorted(rig.kept(tmp_path)) == [(start, 7, 1, 1) for start in (41, 42, 43, 51)]
    assert rig.callee.made == 4


@pytest.mark.parametrize(
    ("starts", "caller", "takes"),
    [
        (range(100, 100 + TAKES_OVER - 1), None, False),  # too few
        (range(41, 41 + TAKES_OVER), None, False),  # the main thread may only validate
        ([*range(41, 40 + TAKES_OVER), 41 + SILENT * 10], None, True),  # silent for 16 times its usual 10 ns
        ([*range(41, 40 + TAKES_OVER), 41 + SILENT * 10], MAIN, False),  # it is in a call, which takes long
    ],
    ids=["few", "soon", "silent", "busy"],
)
def test_a_thread_takes_over_from_a_silent_one_of_few_calls(
    starts: list[int], caller: int | None, takes: bool, tmp_path: Path
) -> None:
    rig = Rig(tmp_path)
    rig.threads.callers.update([] if caller is None else [caller])
    assert rig.aside(*starts) == (list(starts) if takes else [])


def test_a_thread_of_many_calls_has_to_wait_for_others(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for start in range(50, 50 + 10 * TAKES_OVER, 10):
        rig.threads.called(start)
    starts, found = range(1000, 1000 + TAKES_OVER), list[list[int]]()
    assert rig.aside(*starts) == []  # this thread runs: it may validate
    other = threading.Thread(target=lambda: found.append(rig.aside(1100)))
    other.start()
    other.join()
    assert found == [[*starts, 1100]]


def test_a_thread_that_is_gone_gives_way_at_once_but_to_no_earlier_call(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.threads.aside(OTHER, 3, Aside(rig.callee, 39, 1)) == []
    call = Aside(rig.callee, 41, 1)
    assert rig.threads.aside(OTHER, 3, call) == [call]
    assert [row[0] for row in rig.kept(tmp_path)] == [39]


def test_a_thread_that_called_once_hands_over_to_the_first_that_trains_on(tmp_path: Path) -> None:
    threads = Threads(CallLog(str(tmp_path / "calls.bin")))
    threads.called(0)
    made = [threads.aside(OTHER, MAIN, Aside(SimpleNamespace(key=7, made=0), n, 1)) for n in range(1, TAKES_OVER + 1)]
    assert [len(calls) for calls in made] == [0] * (TAKES_OVER - 1) + [TAKES_OVER]


def test_few_calls_wait_for_an_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.threads.callers.add(MAIN)
    assert rig.aside(*range(1000, 1000 + MOST_KEPT + 5)) == []
    assert len(rig.kept(tmp_path)) == 5


def inside_elsewhere(threads: Threads, make: Callable[..., Any] = threading.Thread) -> bool:
    """Return whether a new thread counts as inside."""
    found: list[bool] = []
    other = make(target=lambda: found.append(threads.is_inside()))
    other.start()
    other.join()
    return found[0]


def test_a_thread_of_the_scripts_is_in_no_call_of_another(tmp_path: Path) -> None:
    class Replica(threading.Thread):
        pass

    threads = Threads(CallLog(str(tmp_path / "calls.bin")))
    threads.helps = lambda thread: isinstance(thread, Replica)
    assert not inside_elsewhere(threads, Replica)
    threads.enter("call")
    assert (threads.is_inside(), threads.here.current) == (True, "call")
    assert not inside_elsewhere(threads)
    assert inside_elsewhere(threads, Replica)
    threads.leave()
    assert (threads.is_inside(), threads.here.current) == (False, None)
