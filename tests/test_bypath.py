"""A package run by path: as a link or a copy, with its orders, ended with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tcprobe.bypath import PROBE, StandalonePackage, ending, last_line, run_to_end
from tcprobe.errors import ToolError


@pytest.fixture
def program(tmp_path: Path) -> StandalonePackage:
    """Return a program that prints what it was given, and the name that it runs under."""
    source = tmp_path / "installed" / "inner"
    (source / "__pycache__").mkdir(parents=True)
    (source / "__main__.py").write_text(
        "import os, sys\n"
        "print(os.path.basename(os.path.dirname(os.path.abspath(__file__))), open(sys.argv[1]).read(), flush=True)\n"
        "print('done', file=sys.stderr)\n",
        encoding="utf-8",
    )
    return StandalonePackage(source, "neutral", "the tool")


@pytest.mark.parametrize("link", [True, False])
def test_it_runs_under_its_own_name_with_its_orders(program: StandalonePackage, tmp_path: Path, link: bool) -> None:
    orders = tmp_path / "orders.json"
    command = program.command(sys.executable, tmp_path / "run", {"a": ["é", 1]}, orders, link=link)
    assert (tmp_path / "run" / "neutral").is_symlink() == link
    assert run_to_end(command, os.environ, tmp_path / "out", tmp_path / "err", 30) == 0
    name, _, said = (tmp_path / "out").read_text(encoding="utf-8").partition(" ")
    assert (name, json.loads(said)) == ("neutral", {"a": ["é", 1]})
    assert last_line(tmp_path / "err") == "done"


def test_it_is_copied_where_no_link_can_be(
    program: StandalonePackage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refused)
    program.command(sys.executable, tmp_path / "run", {}, tmp_path / "orders.json", link=True)
    assert [p.name for p in (tmp_path / "run" / "neutral").iterdir() if p.is_file()] == ["__main__.py"]


def test_a_program_that_is_missing_is_said(tmp_path: Path) -> None:
    assert (PROBE.source / "__main__.py").is_file()
    with pytest.raises(ToolError, match=r"nowhere: the tool is missing"):
        StandalonePackage(tmp_path / "nowhere", "neutral", "the tool").command(
            sys.executable, tmp_path, {}, tmp_path / "orders.json", link=True
        )


def test_both_streams_may_go_to_one_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_to_end(("sh", "-c", "echo first; echo second >&2; exit 3"), os.environ, log, log, 30) == 3
    assert log.read_text() == "first\nsecond\n"


def test_what_does_not_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="it does not start: No such file"):
        run_to_end((str(tmp_path / "python"),), os.environ, tmp_path / "out", tmp_path / "err", 30)


def test_all_that_it_started_is_ended_when_the_time_is_up(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"sleep 100 & echo $! > {pid}; wait"
    assert run_to_end(("sh", "-c", script), os.environ, tmp_path / "out", tmp_path / "err", 1.0) is None
    number = int(pid.read_text())
    for _ in range(100):
        stat = Path(f"/proc/{number}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child of the child still runs")


def test_how_it_ended() -> None:
    assert (ending(7), ending(-9)) == ("exited with status 7", "died of SIGKILL")


def test_the_last_line_is_cut_and_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_line(path) == ""
    path.write_bytes(b"first\n  " + b"x" * 400 + b"\xff\n \n")
    assert last_line(path) == "x" * 300


def test_ctrl_c_while_a_command_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **kwds: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **kwds))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)  # where a handler that raises would
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        run_to_end(
            (sys.executable, "-c", "import time; time.sleep(60)"), os.environ, tmp_path / "o", tmp_path / "o", 60
        )
    assert started[0].poll() is not None
