"""The command: what it refuses, and that a rehearsal and measurements do not mix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.machine import Framework, Machine
from bench.gpu.parts import PARTS
from bench.gpu.record import IDLE_SHARE, NEEDS, share
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


@pytest.mark.parametrize(
    ("held", "words", "error"),
    [
        ({"dry_run": False}, ["--dry-run"], "{out} holds measurements"),
        (
            {"dry_run": True, "nvidia_smi": {"name": "NVIDIA T4"}},
            ["--dry-run"],
            "{out} holds measurements of a NVIDIA T4",
        ),
        ({"dry_run": True}, ["--dry-run", "--minutes", "-1"], "--minutes -1 is no time"),
    ],
)
def test_a_folder_holds_measurements_of_one_kind(
    tmp_path: Path, held: dict[str, Any], words: list[str], error: str
) -> None:
    before = {"calls": [], "date": "x", "nvidia_smi": {}, **held}
    out = tmp_path / "out"
    out.mkdir()
    (out / "provenance.json").write_text(json.dumps(before), encoding="utf-8")
    done = record("--out", str(out), *words, "--python", framework(tmp_path))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == f"error: {error.format(out=out)}"
    assert [p.name for p in out.iterdir()] == ["provenance.json"]


def test_time_is_kept_only_for_what_can_be_recorded() -> None:
    def shares(*names: str) -> list[float]:
        found = tuple(Framework(name, "1", "python", "3.12", {}) for name in names)
        return [share(part, Machine(None, {}, 1, found, None, None)) for part in PARTS]

    assert set(NEEDS) <= {part.NAME for part in PARTS}
    assert shares("jax", "tensorflow") == [part.SHARE for part in PARTS]
    assert shares("jax", "torch") == [IDLE_SHARE if part.NAME in NEEDS else part.SHARE for part in PARTS]


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = record("--out", str(tmp_path / "file" / "out"), "--dry-run", "--python", framework(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 2)
    assert done.stderr.startswith(f"error: {tmp_path}/file/out: cannot be written: Not a directory\nhint: ")
