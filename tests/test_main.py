"""The way in: errors become one line and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tcprobe.cli.app
import tcprobe.flows.workloads
from tcprobe import __main__ as entry
from tcprobe.errors import InputError, MeasurementFailed, TcprobeError, UsageError


def failing(error: BaseException) -> object:
    def app(_words: list[str]) -> None:
        raise error

    return app


@pytest.mark.parametrize(
    "error",
    [
        TcprobeError("cannot", "try"),
        UsageError("bad option"),
        InputError("a.pb", "is text"),
        MeasurementFailed("no kernels"),
    ],
)
def test_a_failure_is_one_line_and_a_hint(
    error: TcprobeError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tcprobe.cli.app, "application", lambda _: failing(error))
    assert entry.main() == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"tcprobe: error: {error.message}"
    assert err.splitlines()[1:] == ([f"hint: {error.hint}"] if error.hint else [])


def test_an_input_error_names_its_file() -> None:
    assert InputError("a.pb", "is text, not an XSpace").message == "a.pb: is text, not an XSpace"


def test_a_bug_leaves_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(tcprobe.cli.app, "application", lambda _: failing(ZeroDivisionError("division by zero")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert entry.main() == 3
    err = capsys.readouterr().err
    assert err.startswith("tcprobe: internal error: ZeroDivisionError: division by zero\n")
    assert "Traceback" not in err
    assert "Traceback" in (tmp_path / "tcprobe" / "last-error.log").read_text(encoding="utf-8")


def test_a_bug_without_a_place_for_its_log_still_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "tcprobe").write_text("a file is in the way", encoding="utf-8")
    monkeypatch.setattr(tcprobe.cli.app, "application", lambda _: failing(ZeroDivisionError()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert entry.main() == 3
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tcprobe.cli.app, "application", lambda _: failing(KeyboardInterrupt()))
    assert entry.main() == 130
    assert "interrupted" in capsys.readouterr().err


def test_ctrl_c_within_a_verb_is_130_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tcprobe.flows.workloads, "packaged_workloads", interrupted)
    monkeypatch.setattr(sys, "argv", ["tcprobe", "workloads"])
    assert entry.main() == 130
    assert capsys.readouterr().err == "tcprobe: interrupted\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [(["reprot"], "report"), (["--verson"], "--version")],
)
def test_a_typing_error_gets_a_suggestion(args: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tcprobe", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
