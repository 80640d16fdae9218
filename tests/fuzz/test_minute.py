"""Inputs changed by chance, as long as ``--fuzz-minutes`` says: a finding comes with the command that repeats it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import ROOT


@pytest.mark.slow
def test_what_chance_makes_breaks_nothing(pytestconfig: pytest.Config) -> None:
    minutes = pytestconfig.getoption("--fuzz-minutes")
    if not minutes:
        pytest.skip("needs: --fuzz-minutes N")
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", str(minutes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 findings") == done.stdout.count(" inputs, "), done.stdout
