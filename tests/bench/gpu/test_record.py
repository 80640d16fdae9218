"""The command: what it refuses, and that a rehearsal and measurements do not mix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT


def record(*words: str, path: str = "/bin") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.gpu.record", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={"PATH": path, "HOME": "/"}
    )


def framework(folder: Path) -> str:
    """Return an interpreter that has JAX by its own word."""
    path = folder / "python"
    path.write_text('#!/bin/sh\necho \'{"python": "3.12.3", "found": {"jax": "0.11.2"}}\'\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_without_gpu_or_framework_it_says_what_to_do(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = record("--out", str(out), "--python", framework(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: nvidia-smi sees no NVIDIA GPU\nhint: --dry-run rehearses without one\n"
    done = record("--out", str(out), "--dry-run", "--python", "/nowhere")
    assert done.stderr == "error: no interpreter has JAX, PyTorch or TensorFlow\nhint: --python names one that has\n"
    assert done.returncode == 2 and not out.exists()


def test_a_rehearsal_is_not_mixed_with_measurements(tmp_path: Path) -> None:
    (tmp_path / "provenance.json").write_text(
        json.dumps({"dry_run": False, "calls": [], "date": "x"}), encoding="utf-8"
    )
    done = record("--out", str(tmp_path), "--dry-run", "--python", framework(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path} holds measurements\nhint: name another --out\n"
    assert [p.name for p in tmp_path.iterdir() if p.name != "python"] == ["provenance.json"]
