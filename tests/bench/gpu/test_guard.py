"""A program in a group or a session of its own ends with the one that started it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench.gpu import day, guard
from bench.gpu.day import OutOfTime


@pytest.mark.parametrize("own", ["process_group=0", "start_new_session=True"])
def test_what_has_a_place_of_its_own_does_not_outlive_the_time(tmp_path: Path, own: str) -> None:
    told = tmp_path / "number"
    wait = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    code = (
        "import os, subprocess, sys, time;"
        f"p = subprocess.Popen([sys.executable, '-c', {wait!r}], {own});"
        f"open({str(told)!r}, 'w').write(f'{{os.getsid(0)}} {{p.pid}}');"
        "time.sleep(60)"
    )
    with pytest.raises(OutOfTime):
        day.run([sys.executable, "-c", code], 1.0)
    leader, number = map(int, told.read_text(encoding="utf-8").split())
    time.sleep(0.1)
    assert number not in guard.session(leader) == []
    assert number not in guard.session(number)
