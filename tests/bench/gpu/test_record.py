"""The command: what it refuses, and that a rehearsal and measurements do not mix."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import record as record_module
from bench.gpu.record import alone
from tcprobe.errors import TcprobeError
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


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = record("--out", str(tmp_path / "file" / "out"), "--dry-run", "--python", framework(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 2)
    assert done.stderr.startswith(f"error: {tmp_path}/file/out: cannot be written: Not a directory\nhint: ")


@pytest.mark.parametrize("held", ["", "{}", '["x"]'])
def test_a_folder_that_does_not_say_what_it_holds_is_left_alone(tmp_path: Path, held: str) -> None:
    (tmp_path / "provenance.json").write_text(held, encoding="utf-8")
    with pytest.raises(TcprobeError, match=r"provenance\.json: damaged"):
        record_module._before(tmp_path)


def test_of_two_calls_at_once_the_second_is_refused(tmp_path: Path) -> None:
    with alone(tmp_path):
        (tmp_path / ".machine.json").write_text("the first call's", encoding="utf-8")
        done = record("--out", str(tmp_path), "--dry-run", "--python", framework(tmp_path))
        assert (done.returncode, done.stderr.splitlines()[0]) == (2, f"error: {tmp_path}: another call records there")
        assert (tmp_path / ".machine.json").exists()
    with alone(tmp_path):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_by_a_signal_it_leaves_no_path_of_the_machine(tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\nkill -{int(number)} $PPID\nsleep 5\n", encoding="utf-8")
    slow.chmod(0o755)
    done = record("--out", str(out), "--dry-run", "--python", str(slow))
    assert done.returncode == 128 + number and "Traceback" not in done.stderr and not out.exists()
