"""A folder is packed without what is no result, and checked for the names of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.gpu.summary import pack
from tests.bench.gpu import made


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all results."""
    place = tmp_path / "results"
    place.mkdir()
    monkeypatch.setattr(pack, "RESULTS", place)
    monkeypatch.setattr(pack, "own_names", lambda: {"tower-of-mine"})
    return place


def packed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["pack", str(folder)])
    return pack.main()


def test_logs_and_what_was_cut_off_stay(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made.results(tmp_path / "out").rename(tmp_path / "mine")
    made.made_unit(folder, "runs", "plain", status="failed", reason="no GPU")
    (folder / "runs" / "plain" / "program.log").write_text("/home/someone\n", encoding="utf-8")
    made.made_unit(folder, "killed", "costs-pairs-torch-1")
    assert packed(folder, monkeypatch) == 0
    assert capsys.readouterr().out == f"{results / made.NAME}: ready to be sent\n"
    assert not list(results.rglob("program.log")) + list(results.rglob("killed"))
    assert (results / made.NAME / "runs" / "plain" / "unit.json").exists()
    assert packed(folder, monkeypatch) == 2


def test_the_name_of_this_machine_is_told(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made.results(tmp_path / "out")
    made.made_unit(folder, "runs", "plain", reason="tower-of-mine did not answer")
    assert packed(folder, monkeypatch) == 1
    assert "private: runs/plain/unit.json: 'tower-of-mine'" in capsys.readouterr().out


def test_contradictions_are_to_be_sent(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made.results(tmp_path / "out", launches=[made.launch("g16", made.NVJET, None)])
    assert packed(folder, monkeypatch) == 0
    contradiction, ready = capsys.readouterr().out.splitlines()
    assert contradiction.startswith("contradiction: classification/ncu-torch g16: nvjet")
    assert ready.endswith("ready to be sent; contradictions that tcprobe has to learn from: 1")


def test_a_rehearsal_names_no_gpu(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed(tmp_path, monkeypatch) == 2
