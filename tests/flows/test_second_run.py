"""The second run of --with-xspace: what it leaves, and that its failure is its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture import tensorflow
from tcprobe.capture.base import CaptureRequest, Invocation, Launch
from tcprobe.capture.process import Ended
from tcprobe.errors import ToolError
from tcprobe.flows.more_runs import SecondRun

ASKED = dict.fromkeys(("workload", "profiler", "precision", "xla", "target_gpu", "step_range", "key_node"))
WELL = Ended(0, 10**9)


def follow(
    folder: Path, ended: Ended = WELL, code: int | None = 0, came: tuple[int, ...] = ()
) -> tuple[bool, list[dict[str, Any]]]:
    record, *_ = second_of(folder).follow({"notes": []}, ended, code, list(came))
    return record["with_xspace"], record["notes"]


def second_of(folder: Path) -> SecondRun:
    request = CaptureRequest(Invocation("script", "train.py", label="train"), folder, sys.executable)
    return SecondRun(request, ASKED, lambda record: record, stdout_to_stderr=False, say=lambda _: None)


def prepared(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def prepare(request: CaptureRequest) -> Launch:
        return Launch((sys.executable, "-c", code, str(request.folder / "raw" / "host.xplane.pb")))

    monkeypatch.setattr(tensorflow, "prepare", prepare)


def test_it_leaves_a_run_folder_within_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(monkeypatch, "import sys; open(sys.argv[1], 'w').write('x')")
    assert follow(tmp_path) == (True, [])
    run = json.loads((tmp_path / "with-xspace/run.json").read_text())
    assert (run["profiler"]["name"], run["exit_code"], run["partial"]) == ("tensorflow", 0, False)


def test_one_that_fails_is_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(monkeypatch, "raise SystemExit(3)")
    left, (note,) = follow(tmp_path)
    assert not left and "the second run left no profile" in note["message"]
    assert json.loads((tmp_path / "with-xspace/run.json").read_text())["exit_code"] == 3


def test_a_signal_in_it_is_how_all_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(monkeypatch, "import os, time; os.kill(os.getppid(), 15); time.sleep(30)")
    _, ended, code = second_of(tmp_path).follow({"notes": []}, WELL, 0, [])
    assert (ended.signals, code) == (("SIGTERM",), 143)


def test_one_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(_: CaptureRequest) -> Launch:
        raise ToolError("python: no such program", "choose another")

    monkeypatch.setattr(tensorflow, "prepare", prepare)
    left, (note,) = follow(tmp_path)
    assert not left and "came to nothing: python: no such program" in note["message"]
    assert note["remedy"] == "choose another"


@pytest.mark.parametrize(
    ("ended", "code", "came", "tensorflow_version", "why"),
    [
        (WELL, 3, (), "2.21.0", "the first one ended with exit code 3"),
        (Ended(0, 1, ("SIGINT",)), 0, (), "2.21.0", "the first one was interrupted"),
        (Ended(0, 1, ("SIGTERM",)), 0, (), "2.21.0", "the first one was interrupted"),
        (WELL, 0, (15,), "2.21.0", "the first one was interrupted"),
        (WELL, None, (), "2.21.0", "nobody knows how the first one ended"),
        (WELL, 0, (), None, "the workload does not use TensorFlow"),
    ],
)
def test_none_is_made_where_it_would_show_nothing(
    tmp_path: Path, ended: Ended, code: int | None, came: tuple[int, ...], tensorflow_version: str | None, why: str
) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/probe.json").write_text(json.dumps({"tensorflow": tensorflow_version}))
    left, (note,) = follow(tmp_path, ended, code, came)
    assert not left and why in note["message"] and not (tmp_path / "with-xspace").exists()
