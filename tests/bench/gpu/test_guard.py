"""A program in a group of its own ends with its session."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from bench.gpu import day, guard
from bench.gpu.day import OutOfTime


def test_a_group_of_its_own_does_not_outlive_the_time(tmp_path: Path) -> None:
    told = tmp_path / "number"
    code = (
        "import os, subprocess, sys, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=False,"
        " process_group=0);"
        f"open({str(told)!r}, 'w').write(f'{{os.getsid(0)}} {{p.pid}}');"
        "time.sleep(60)"
    )
    with pytest.raises(OutOfTime):
        day.run([sys.executable, "-c", code], 1.0)
    leader, number = map(int, told.read_text(encoding="utf-8").split())
    time.sleep(0.1)
    assert number not in guard.session(leader) == []
