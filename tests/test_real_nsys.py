"""The nsys on PATH records NVTX on this machine, of a program without package nvtx: what other tests of it rest on."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import ROOT

PROGRAM = """
import os, sys
sys.modules["nvtx"] = None
from tcprobe.probe.core.nvtx import find_domain
domain = find_domain("made", os.environ["NVTX_INJECTION64_PATH"])
for number in range(3):
    domain.push(domain.event(f"step {number}"))
    domain.pop()
sys.exit(7)
"""
NAMES = """
SELECT coalesce(StringIds.value, text) FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId
WHERE eventType = 59 ORDER BY start
"""


@pytest.mark.nsys
def test_ranges_of_a_program_are_recorded(tmp_path: Path) -> None:
    options = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "--export=sqlite", "-o", str(tmp_path / "made")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["nsys", "profile", *options, sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stdout + done.stderr
    with closing(sqlite3.connect(tmp_path / "made.sqlite")) as database:
        assert database.execute(NAMES).fetchall() == [("step 0",), ("step 1",), ("step 2",)]
