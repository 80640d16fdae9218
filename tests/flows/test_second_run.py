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
from tcprobe.flows.second_run import SecondRun

ASKED = dict.fromkeys(("workload", "profiler", "precision", "xla", "target_gpu", "step_range", "key_node"))
WELL = Ended(0, 10**9, interrupted=False)


def follow(folder: Path, ended: Ended = WELL, code: int = 0) -> tuple[bool, list[dict[str, Any]]]:
    request = CaptureRequest(Invocation("script", "train.py", label="train"), folder, sys.executable)
    second = SecondRun(request, ASKED, lambda record: record, stdout_to_stderr=False, say=lambda _: None)
    record = second.follow({"notes": []}, ended, code)
    return record["with_xspace"], record["notes"]


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


def test_one_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(_: CaptureRequest) -> Launch:
        raise ToolError("python: no such program", "choose another")

    monkeypatch.setattr(tensorflow, "prepare", prepare)
    left, (note,) = follow(tmp_path)
    assert not left and "came to nothing: python: no such program" in note["message"]
    assert note["remedy"] == "choose another"


@pytest.mark.parametrize(
    ("ended", "code", "tensorflow_version", "why"),
    [
        (WELL, 3, "2.21.0", "the first one ended with exit code 3"),
        (Ended(0, 1, interrupted=True), 0, "2.21.0", "the first one was interrupted"),
        (WELL, 0, None, "the workload does not use TensorFlow"),
    ],
)
def test_none_is_made_where_it_would_show_nothing(
    tmp_path: Path, ended: Ended, code: int, tensorflow_version: str | None, why: str
) -> None:
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe/probe.json").write_text(json.dumps({"tensorflow": tensorflow_version}))
    left, (note,) = follow(tmp_path, ended, code)
    assert not left and why in note["message"] and not (tmp_path / "with-xspace").exists()
