"""What the probe writes, and when."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.journal import Journal, write_atomically
from tests.support import ROOT


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path), Gaps())


def steps(folder: Path) -> list[str]:
    return (folder / "steps.csv").read_text().splitlines()


def test_rows_are_appended(journal: Journal, tmp_path: Path) -> None:
    journal.kind = lambda row: ("warm-up", "measured")[row > 0]
    journal.row(0, 5)
    journal.flush()
    journal.row(1, 9)
    journal.flush()
    assert steps(tmp_path) == ["step,start_ns,kind", "0,5,warm-up", "1,9,measured"]


def test_truncated_rows_leave_the_file(journal: Journal, tmp_path: Path) -> None:
    for number in range(4):
        journal.row(number, 10 * number)
    journal.flush()
    journal.truncate(1)
    journal.row(5, 50)
    journal.flush()
    assert steps(tmp_path)[1:] == ["0,0,measured", "5,50,measured"]


def test_kinds_are_settled_at_the_end(journal: Journal, tmp_path: Path) -> None:
    journal.kind = lambda row: "warm-up"
    journal.row(0, 0)
    journal.flush()
    journal.kind = lambda row: "profiled"
    journal.finish()
    assert steps(tmp_path)[1:] == ["0,0,profiled"]


def test_step_at_a_time(journal: Journal) -> None:
    for number, start in ((0, 100), (5, 200), (10, 300)):
        journal.row(number, start)
    assert [journal.step_at(t) for t in (0, 100, 199, 200, 1000)] == [0, 0, 0, 5, 10]


def test_metrics_and_summary(journal: Journal, tmp_path: Path) -> None:
    journal.summary = lambda: {"steps": 3}
    journal.metric(2, "g_loss", 0.5, "")
    journal.flush()
    assert (tmp_path / "metrics.csv").read_text() == "step,name,value,unit\n2,g_loss,0.5,\n"
    assert json.loads((tmp_path / "probe.json").read_text()) == {"steps": 3}
    assert [p.name for p in tmp_path.glob("*.partial")] == []


def test_failure_is_a_gap(tmp_path: Path) -> None:
    gaps = Gaps()
    (tmp_path / "file").touch()
    Journal(str(tmp_path / "file/folder"), gaps).flush()
    assert {gap["hook"] for gap in gaps.gaps} == {"steps.csv", "calls.bin", "metrics.csv", "probe.json"}


def test_what_could_not_be_written_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcprobe.probe.core.journal.RETRY_SECONDS", 0.0)
    gaps = Gaps()
    journal = Journal(str(tmp_path / "probe"), gaps)
    journal.row(0, 5)
    journal.metric(0, "loss", 1.0, "")
    journal.flush()
    full = OSError(28, "No space left on device")

    def refuse(*_: object) -> int:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        journal.row(1, 9)
        journal.metric(1, "loss", 0.5, "")
        journal.flush()
        assert {gap["hook"] for gap in gaps.gaps} == {"steps.csv", "metrics.csv"}
    journal.flush()
    assert steps(tmp_path / "probe")[1:] == ["0,5,measured", "1,9,measured"]
    assert (tmp_path / "probe/metrics.csv").read_text().splitlines()[1:] == ["0,loss,1.0,", "1,loss,0.5,"]
    assert gaps.gaps == []


@pytest.mark.parametrize(("cut", "written_anew"), [(True, False), (False, True)])
def test_steps_that_are_in_the_file_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool, written_anew: bool
) -> None:
    """A disk that is full takes a part of a row, which is cut off again; where it cannot be, all is written anew."""
    monkeypatch.setattr("tcprobe.probe.core.journal.RETRY_SECONDS", 0.0)
    journal = Journal(str(tmp_path), Gaps())
    journal.kind = lambda row: ("warm-up", "measured")[row > 1]
    journal.rows([0, 1, 2], [0, 10, 20])
    journal.flush()
    inode, write = (tmp_path / "steps.csv").stat().st_ino, os.write

    def some(file: int, data: bytes) -> int:
        if len(data) < 14:
            raise OSError(28, "No space left on device")
        return write(file, data[:3])

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", some)
        if not cut:
            patch.setattr(os, "ftruncate", refuse)
        for number in (3, 4):
            journal.row(number, 10 * number)
            journal.flush()
    journal.row(5, 50)
    journal.flush()
    kinds = ["warm-up"] * 2 + ["measured"] * 4
    assert steps(tmp_path)[1:] == [f"{row},{10 * row},{kind}" for row, kind in enumerate(kinds)]
    assert ((tmp_path / "steps.csv").stat().st_ino != inode) is written_anew


def test_a_folder_that_was_removed_is_written_anew_at_the_end(tmp_path: Path) -> None:
    gaps = Gaps()
    journal = Journal(str(tmp_path / "probe"), gaps)
    journal.row(0, 5)
    journal.metric(0, "loss", 1.0, "")
    journal.flush()
    shutil.rmtree(tmp_path / "probe")
    journal.finish()
    assert steps(tmp_path / "probe")[1:] == ["0,5,measured"]
    assert sorted(path.name for path in (tmp_path / "probe").iterdir()) == ["metrics.csv", "probe.json", "steps.csv"]
    assert ([note["code"] for note in gaps.notes], gaps.gaps) == (["metrics-lost"], [])
    shutil.rmtree(tmp_path / "probe")
    write_atomically(str(tmp_path / "probe/graph.json"), "{}")  # before the rest
    assert (tmp_path / "probe/graph.json").read_text() == "{}"


@pytest.mark.parametrize(("slept", "busy", "stood_still"), [(60, 0.1, True), (60, 50, False), (1, 0, False)])
def test_a_process_that_did_nothing_for_long_stood_still(
    journal: Journal, slept: float, busy: float, stood_still: bool
) -> None:
    """A thread that is kept from running by one that computes did not stand still."""
    journal._look_for_pause(10**9, int((1 + slept) * 1e9), int(busy * 1e9))
    assert bool(journal.pauses) is stood_still


def test_killed_process_keeps_all_but_the_last_second(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tcprobe.probe.core.journal import Journal; from tcprobe.probe.core.gaps import Gaps\n"
        f"journal = Journal({str(tmp_path)!r}, Gaps()); journal.start()\n"
        "journal.row(0, 0); journal.metric(0, 'loss', 1.0, ''); print('ready', flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(1.0)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert steps(tmp_path)[1:] == ["0,0,measured"]
    assert "loss" in (tmp_path / "metrics.csv").read_text()
