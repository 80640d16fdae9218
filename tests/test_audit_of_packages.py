"""The gate's look at advisories: a vulnerable package fails it, a database that is not there is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

AUDIT = ROOT / ".ci" / "audit"
CLEAN = {"name": "rich", "version": "13.8.0", "vulns": []}
SKIPPED = {"name": "torch", "skip_reason": "not there"}
BAD = {"name": "numpy", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
UNFIXED = {"name": "nvtx", "version": "2", "vulns": [{"id": "PYSEC-2", "fix_versions": []}]}
OF_VENV = {"name": "pip", "version": "9", "vulns": [{"id": "PYSEC-3", "fix_versions": ["10"]}]}


@pytest.mark.skipif(not AUDIT.exists(), reason="the gate is no part of a source distribution")
@pytest.mark.parametrize(
    ("packages", "code", "said"),
    [
        ([CLEAN, SKIPPED, OF_VENV], 0, ["looked up 1 of 2 packages"]),
        ([CLEAN, BAD], 1, ["numpy 1.0: PYSEC-1, fixed in 1.1", "looked up 2 of 2 packages"]),
        ([UNFIXED], 1, ["nvtx 2: PYSEC-2, fixed in no version yet", "looked up 1 of 1 packages"]),
        ([SKIPPED], 0, ["not checked: no database of advisories holds any package"]),
        (None, 0, ["not checked: unreachable"]),
    ],
)
def test_a_vulnerable_package_fails_the_gate(
    packages: list[dict[str, Any]] | None, code: int, said: list[str], tmp_path: Path
) -> None:
    stand_in = tmp_path / "pip-audit"
    printed = "" if packages is None else json.dumps({"dependencies": packages})
    stand_in.write_text(
        f"#!{sys.executable}\nimport sys\nprint({printed!r}, end='')\nsys.exit('Traceback\\nunreachable')"
    )
    stand_in.chmod(0o755)
    done = subprocess.run([sys.executable, AUDIT, stand_in], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()) == (code, [f".ci/audit: {line}" for line in said])
