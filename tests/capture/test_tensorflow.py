"""The capture with TensorFlow's profiler: what it writes for the probe, how it starts, what it finds afterwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tcprobe.capture import CAPTURES, probed, tensorflow
from tcprobe.capture.base import CaptureRequest, Invocation
from tcprobe.errors import OutputError


@pytest.fixture
def request_(tmp_path: Path) -> CaptureRequest:
    for name in ("raw", "probe"):
        (tmp_path / name).mkdir()
    target = Invocation("script", "train.py", ("--epochs", "3"), "train")
    return CaptureRequest(target, tmp_path, sys.executable, iter_start=5, precision="tf32", metric_patterns=("x=(.*)",))


def probe_says(folder: Path, **said: Any) -> None:
    content = {"tensorflow": "2.21.0", "steps": {"count": 40}, "notes": [], **said}
    (folder / "probe" / "probe.json").write_text(json.dumps(content))


def xspace(folder: Path, content: bytes) -> Path:
    path = folder / "raw/plugins/profile/2026_11_21/vm.xplane.pb"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def test_it_is_listed() -> None:
    assert tensorflow in CAPTURES
    assert CAPTURES[0].NAME == "tensorflow"


def test_the_probe_gets_its_orders(request_: CaptureRequest) -> None:
    launch = tensorflow.prepare(request_)
    source, config = (Path(word) for word in launch.argv[1:])
    assert launch.argv[0] == sys.executable
    assert (source / "__main__.py").is_file()
    assert not list(source.rglob("*.pyc"))
    orders = json.loads(config.read_text())
    assert orders["target"] == ["script", "train.py"]
    assert orders["argv"] == ["--epochs", "3"]
    assert (orders["iter_start"], orders["iter_stop"], orders["precision"], orders["xla"]) == (5, None, "tf32", None)
    assert (orders["profile"], orders["metric_patterns"]) == (True, ["x=(.*)"])
    assert Path(orders["out"]) == request_.folder / "probe"
    assert Path(orders["raw"]) == request_.folder / "raw"


def test_the_orders_are_those_that_the_docs_list() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "run-folder.md").read_text()
    keys = probed.orders(CaptureRequest(Invocation("script", "x"), Path("/r"), "python"), profile=True)
    assert not [key for key in keys if f'"{key}"' not in text]


def test_a_launcher_stands_first_and_the_variables_follow_it(request_: CaptureRequest, tmp_path: Path) -> None:
    through = replace(request_, launcher=("env", "-u", "X"), device="3", precision=None)
    launch = tensorflow.prepare(through)
    assert launch.argv[:5] == ("env", "-u", "X", "env", "CUDA_VISIBLE_DEVICES=3")
    assert launch.environment["CUDA_VISIBLE_DEVICES"] == "3"


def test_a_folder_that_is_full_is_named(request_: CaptureRequest) -> None:
    (request_.folder / "probe" / "src").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        tensorflow.prepare(request_)


def test_a_whole_run_needs_no_note(request_: CaptureRequest) -> None:
    path = xspace(request_.folder, b"x")
    probe_says(request_.folder, window={"first_step": 4, "last_step": 23})
    collected = tensorflow.collect(request_, 0)
    assert (collected.files, collected.notes) == ((path,), ())


@pytest.mark.parametrize(
    ("said", "exit_code", "code"),
    [
        ({"tensorflow": None}, 0, "no-tensorflow"),
        ({"steps": {"count": 0}}, 0, "no-steps"),
        ({"steps": None}, 0, "no-steps"),
        ({}, 0, "no-profile"),
        ({}, 7, None),
        ({"steps": {"count": 0}, "notes": [{"code": "no-steps"}]}, 0, None),
        ({"steps": {"count": 0}, "notes": [{"code": "no-steps"}]}, 1, "no-steps"),
        ({"notes": [{"code": "no-window"}]}, 0, None),
    ],
)
def test_what_is_missing_is_said_once(
    request_: CaptureRequest, said: dict[str, Any], exit_code: int, code: str | None
) -> None:
    probe_says(request_.folder, **said)
    assert [n.code for n in tensorflow.collect(request_, exit_code).notes] == ([code] if code else [])


@pytest.mark.parametrize(("count", "missing"), [(0, "steps, graph and kernels were"), (30, "TensorFlow: graph and")])
def test_without_tensorflow_the_steps_that_were_marked_are_not_missing(
    request_: CaptureRequest, count: int, missing: str
) -> None:
    probe_says(request_.folder, tensorflow=None, steps={"count": count})
    (note,) = tensorflow.collect(request_, 0).notes
    assert missing in note.message


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_a_probe_that_left_nothing_is_told(request_: CaptureRequest, content: str | None) -> None:
    if content is not None:
        (request_.folder / "probe" / "probe.json").write_text(content)
    assert [n.code for n in tensorflow.collect(request_, 1).notes] == ["no-probe"]


def test_an_empty_profile_is_no_profile_and_left_to_the_reader(request_: CaptureRequest) -> None:
    xspace(request_.folder, b"")
    probe_says(request_.folder, window={"first_step": 4, "last_step": 23})
    collected = tensorflow.collect(request_, 0)
    assert (collected.files, collected.notes) == ((), ())
