"""The whole command rehearsed with a real framework: counters are made up, all else is as on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT

pytestmark = pytest.mark.tensorflow


def test_a_rehearsal_records_counters(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    command = [
        sys.executable, "-m", "bench.gpu.record", "--out", str(tmp_path / "out"), "--dry-run", "--minutes", "2",
        "--only", "classification", "--python", warm.python(),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    units = sorted(p.name for p in (tmp_path / "out" / "classification").iterdir())
    assert units == ["ncu-tensorflow-1", "ncu-tensorflow-2"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary
    assert "FAKE" in (tmp_path / "out" / "summary.md").read_text(encoding="utf-8")
    assert not (tmp_path / "out" / ".machine.json").exists()
