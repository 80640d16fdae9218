"""The command: what it refuses, and that a rehearsal and measurements do not mix."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bench.gpu import record as command
from bench.gpu.machine import Framework, Machine
from bench.gpu.parts import PARTS
from bench.gpu.record import IDLE_SHARE, NEEDS, alone, share
from tcprobe.errors import TcprobeError
from tests.support import ROOT


class Done(NamedTuple):
    """How a call ended."""

    status: int
    said: list[str]


Call = Callable[..., Done]


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Provide the command, with programs of the system alone; its handlers of signals are not set."""
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def call(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["record", *words])
        status = command.main()
        out, err = capsys.readouterr()
        assert out == ""
        return Done(status, err.splitlines())

    return call


def framework(folder: Path) -> str:
    """Return an interpreter that has JAX by its own word."""
    path = folder / "python"
    path.write_text('#!/bin/sh\necho \'{"python": "3.12.3", "found": {"jax": "0.11.2"}}\'\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_without_gpu_or_framework_it_says_what_to_do(record: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = record("--out", str(out), "--python", framework(tmp_path))
    assert done == (2, ["error: nvidia-smi sees no NVIDIA GPU", "hint: --dry-run rehearses without one"])
    done = record("--out", str(out), "--dry-run", "--python", "/nowhere")
    assert done == (2, ["error: no interpreter has JAX, PyTorch or TensorFlow", "hint: --python names one that has"])
    assert not out.exists()


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
    record: Call, tmp_path: Path, held: dict[str, Any], words: list[str], error: str
) -> None:
    before = {"calls": [], "date": "x", "nvidia_smi": {}, **held}
    out = tmp_path / "out"
    out.mkdir()
    (out / "provenance.json").write_text(json.dumps(before), encoding="utf-8")
    done = record("--out", str(out), *words, "--python", framework(tmp_path))
    assert (done.status, done.said[0]) == (2, f"error: {error.format(out=out)}")
    assert [p.name for p in out.iterdir()] == ["provenance.json"]


def test_time_is_kept_only_for_what_can_be_recorded() -> None:
    def shares(*names: str) -> list[float]:
        found = tuple(Framework(name, "1", "python", "3.12", {}) for name in names)
        return [share(part, Machine(None, {}, 1, found, None, None)) for part in PARTS]

    assert set(NEEDS) <= {part.NAME for part in PARTS}
    assert shares("jax", "tensorflow") == [part.SHARE for part in PARTS]
    assert shares("jax", "torch") == [IDLE_SHARE if part.NAME in NEEDS else part.SHARE for part in PARTS]


def test_a_place_that_cannot_be_written_is_an_error(record: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = record("--out", str(tmp_path / "file" / "out"), "--dry-run", "--python", framework(tmp_path))
    error, hint = done.said
    assert (done.status, error) == (2, f"error: {tmp_path}/file/out: cannot be written: Not a directory")
    assert hint.startswith("hint: ")


@pytest.mark.parametrize("held", ["", "{}", '["x"]'])
def test_a_folder_that_does_not_say_what_it_holds_is_left_alone(tmp_path: Path, held: str) -> None:
    (tmp_path / "provenance.json").write_text(held, encoding="utf-8")
    with pytest.raises(TcprobeError, match=r"provenance\.json: damaged"):
        command._before(tmp_path)


def test_of_two_calls_at_once_the_second_is_refused(record: Call, tmp_path: Path) -> None:
    with alone(tmp_path):
        (tmp_path / ".machine.json").write_text("the first call's", encoding="utf-8")
        done = record("--out", str(tmp_path), "--dry-run", "--python", framework(tmp_path))
        assert (done.status, done.said[0]) == (2, f"error: {tmp_path}: another call records there")
        assert (tmp_path / ".machine.json").exists()
    with alone(tmp_path):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ended_by_a_signal_it_prints_no_traceback(tmp_path: Path, number: int) -> None:
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\nkill -{int(number)} $PPID\nsleep 5\n", encoding="utf-8")
    slow.chmod(0o755)
    words = ["--out", str(tmp_path / "out"), "--dry-run", "--python", str(slow)]
    line = [sys.executable, "-m", "bench.gpu.record", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 128 + number and "Traceback" not in done.stderr
