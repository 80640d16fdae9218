"""Something is killed while a workload runs: what was flushed is kept, and the report says what happened."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.kept import check_kept, left
from tests.faults.running import STEPS, Tcprobe
from tests.faults.table import Fault, cases


def flushed(run: Tcprobe) -> int:
    """Return how many steps had ended a second ago, by what the workload printed then, a second later."""
    count = run.printed.count("loss: ")
    time.sleep(1.0)
    return count


@pytest.mark.parametrize("fault", cases("test_killed.test_a_killed_workload"))
def test_a_killed_workload(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, STEPS.format(steps=10_000, seconds=0.01))
    run.until("loss: 0.100")
    steps = flushed(run)
    (workload,) = set(run.processes()) - {run.pid}
    os.kill(workload, signal.SIGKILL)
    assert run.wait() == 137
    assert "the workload was ended by SIGKILL" in run.printed
    check_kept(left(run.folder()), fault.kept, steps)
