"""How a run ended, as run.json says it."""

from __future__ import annotations

import pytest

from tcprobe.capture.base import Collected
from tcprobe.capture.process import Ended
from tcprobe.capture.run_record import finish


@pytest.mark.parametrize(
    ("profiler", "own", "finished", "signals", "partial"),
    [
        (0, 0, True, (), False),
        (0, 0, False, (), False),
        (0, 7, True, (), True),
        (0, None, False, (), True),
        (143, None, True, (), True),
        (0, 0, True, ("SIGTERM",), True),
        (0, 0, True, ("SIGUSR1",), False),
    ],
)
def test_a_run_is_partial_unless_it_ended_well_and_by_itself(
    profiler: int, own: int | None, finished: bool, signals: tuple[str, ...], partial: bool
) -> None:
    record = finish({}, Ended(profiler, 1, signals), Collected(workload_code=own), {"finished": finished}, wraps=True)
    assert record["signals"] == list(signals)
    assert (record["partial"], record["exit_code"], record["profiler_exit_code"]) == (partial, own, profiler)
