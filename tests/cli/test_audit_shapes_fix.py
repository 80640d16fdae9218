"""`tcprobe audit-shapes --diff` and `--fix`, and the hook for pre-commit, as a user runs them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_audit_shapes import BAD, CLEAN, HALF, source
from tests.support import ROOT


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.py"
    path.write_text(BAD, encoding="utf-8")
    return path


def test_a_diff_shows_the_change_and_makes_none(bad: Path) -> None:
    done = source("bad.py", *HALF, "--diff", cwd=bad.parent)
    assert done.returncode == 1
    assert "--- a/bad.py\n+++ b/bad.py\n" in done.stdout
    assert "\n-    layers.Conv2D(255, 3, padding='same'),\n+    layers.Conv2D(256, 3, padding='same'),\n" in done.stdout
    assert "checkpoints no longer fit" in done.stderr
    assert bad.read_text(encoding="utf-8") == BAD


def test_a_fix_changes_the_file_and_audits_what_is_left(bad: Path) -> None:
    bad.chmod(0o755)
    done = source("bad.py", *HALF, "--fix", cwd=bad.parent)
    assert done.returncode == 0
    assert bad.read_text(encoding="utf-8") == CLEAN
    assert bad.stat().st_mode & 0o777 == 0o755
    assert "tcprobe: fixed: change filters 255 to 256" in done.stderr
    assert f"tcprobe: wrote {bad.resolve()}" in done.stderr
    assert "TC101" not in done.stdout


def test_where_nothing_is_to_fix_nothing_is_written(bad: Path) -> None:
    bad.write_text(CLEAN, encoding="utf-8")
    stamp = bad.stat().st_mtime_ns
    assert source("bad.py", *HALF, "--diff", cwd=bad.parent).stdout == ""
    done = source("bad.py", *HALF, "--fix", cwd=bad.parent)
    assert (done.returncode, done.stderr) == (0, "tcprobe: nothing to fix\n")
    assert bad.stat().st_mtime_ns == stamp


def test_a_silenced_or_ignored_finding_is_not_fixed(bad: Path) -> None:
    assert source("bad.py", *HALF, "--fix", "--ignore", "TC101", cwd=bad.parent).returncode == 0
    assert bad.read_text(encoding="utf-8") == BAD


def test_a_fix_of_a_rule_needs_no_size_beside_it(tmp_path: Path) -> None:
    old = "import tensorflow as tf\n\ntf.keras.mixed_precision.experimental.set_policy('mixed_float16')\n"
    (tmp_path / "old.py").write_text(old, encoding="utf-8")
    done = source("old.py", "--diff", cwd=tmp_path)
    assert done.returncode == 1
    assert "set_global_policy" in done.stdout


def test_the_hook_for_pre_commit_runs(bad: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert (hook["id"], hook["types_or"], hook["require_serial"]) == (
        "tcprobe-audit-shapes",
        ["python", "jupyter"],
        True,
    )
    program, *words = shlex.split(hook["entry"])
    assert (program, "--mode source" in hook["entry"]) == ("tcprobe", True)
    command = [sys.executable, "-m", program, *words, "--dtype", "float16", "bad.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=bad.parent, timeout=60)
    assert done.returncode == 1
    assert "bad.py:6:" in done.stdout
    (bad.parent / "pyproject.toml").write_text('[tool.tcprobe]\nexclude = ["b*.py"]\n', encoding="utf-8")
    assert subprocess.run(command, capture_output=True, check=False, cwd=bad.parent, timeout=60).returncode == 0
    (bad.parent / "net.py").write_text("from torch import nn\nnet = nn.Linear(3, 4)\n", encoding="utf-8")
    done = subprocess.run([*command[:-1], "net.py"], capture_output=True, text=True, check=False, cwd=bad.parent)
    assert (done.returncode, "1 layer of PyTorch (Linear 1)" in done.stdout) == (0, True)
