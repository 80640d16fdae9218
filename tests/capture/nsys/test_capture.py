"""Nsight Systems as a capture, against a fake of it in its builds and moods."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.capture import CAPTURES, environment, nsys
from tcprobe.capture.base import CaptureRequest, Collected, Invocation, NsysOptions
from tcprobe.errors import ToolError, UsageError
from tests.support import ROOT

FAKE = ROOT / "tests/fixtures/fake_nsys"
WINDOW = ["--capture-range=nvtx", "--nvtx-capture=tcprobe window@tcprobe", "--capture-range-end=stop"]


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CaptureRequest:
    """A script to be profiled, with the fake first on PATH."""
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("NVTX_DISABLE", raising=False)
    script = tmp_path / "train.py"
    script.write_text("import os, signal, sys\neval(sys.argv[1])\n")
    folder = tmp_path / ".partial-50%-1"
    for name in ("raw", "probe"):
        (folder / name).mkdir(parents=True)
    return CaptureRequest(Invocation("script", str(script), ("sys.exit(7)",)), folder, sys.executable)


def asking(request: CaptureRequest, *args: str) -> CaptureRequest:
    return replace(request, nsys=NsysOptions(args))


def run(request: CaptureRequest, monkeypatch: pytest.MonkeyPatch, mood: str = "") -> tuple[int, Collected]:
    monkeypatch.setenv("FAKE_NSYS_MOOD", mood)
    launch = nsys.prepare(request)
    done = subprocess.run(launch.argv, env={**os.environ, **launch.environment}, capture_output=True, text=True)
    return done.returncode, nsys.collect(request, done.returncode)


def codes(collected: Collected) -> list[str]:
    return [note.code for note in collected.notes]


def orders(request: CaptureRequest) -> dict[str, object]:
    return dict(json.loads((request.folder / "probe/config.json").read_text()))


def test_it_is_listed() -> None:
    assert "nsys" in [capture.NAME for capture in CAPTURES]
    assert (FAKE / "nsys").stat().st_mode & stat.S_IXUSR


def test_what_nsys_has_is_asked_for(request_: CaptureRequest) -> None:
    launch = nsys.prepare(request_)
    report = str(request_.folder / "raw/nsys/report").replace("%", "%%")
    flags = ["--trace=cuda,nvtx,cudnn,cublas", "--sample=none", "--cpuctxsw=none", "--cuda-graph-trace=node", *WINDOW]
    assert list(launch.argv[: len(flags) + 3]) == ["nsys", "profile", *flags, f"--output={report}"]
    assert launch.profiler_version == "2022.4.2.1" and launch.wraps
    assert {key: orders(request_)[key] for key in ("profile", "nvtx", "tool", "window_steps")} == {
        "profile": True, "nvtx": True, "tool": True, "window_steps": 20,
    }  # fmt: skip


def test_a_build_whose_ranges_end_the_workload_records_the_whole_run(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NSYS_BUILD", "2020.3")
    argv = nsys.prepare(request_).argv
    assert not [word for word in argv if word.startswith(("--capture-range", "--cuda-graph-trace"))]
    assert orders(request_)["window_steps"] == nsys.ENDLESS


@pytest.mark.parametrize("words", ["-c none", "--duration=5", "-t cuda"])
def test_who_chooses_what_is_recorded_is_not_overruled(request_: CaptureRequest, words: str) -> None:
    argv = nsys.prepare(asking(request_, *words.split())).argv
    assert not set(WINDOW) & set(argv)
    assert orders(request_)["window_steps"] == nsys.ENDLESS


def test_a_deaf_probe_does_not_keep_nsys_waiting(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVTX_DISABLE", "1")
    assert not set(WINDOW) & set(nsys.prepare(request_).argv)


def test_words_of_the_users_replace_ours(request_: CaptureRequest) -> None:
    argv = nsys.prepare(asking(request_, "-t", "cuda,nvtx,mpi", "--sample=process-tree")).argv
    assert not {"--trace=cuda,nvtx,cudnn,cublas", "--sample=none"} & set(argv)
    place = argv.index("-t")
    assert argv[place : place + 3] == ("-t", "cuda,nvtx,mpi", "--sample=process-tree") and set(WINDOW) <= set(argv)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-o mine", "--output is tcprobe's to set: its report must lie in the run folder"),
        ("--export=json", "--export is tcprobe's to set"),
        ("train.py", "'train.py' is no option of `nsys profile`"),
        ("-d 5 train.py", "'train.py' is no option of `nsys profile`"),
    ],
)
def test_what_stays_ours_is_refused(request_: CaptureRequest, words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        nsys.prepare(asking(request_, *words.split()))


def test_the_workloads_code_and_the_recording_are_kept(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, collected = run(request_, monkeypatch)
    assert (code, collected.workload_code, codes(collected)) == (7, 7, ["private-files"])
    assert [path.name for path in collected.files] == ["report.nsys-rep", "report.sqlite"]


def test_a_signal_that_ends_the_workload_is_told(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    killing = replace(request_.target, args=("os.kill(os.getpid(), signal.SIGKILL)",))
    assert run(replace(request_, target=killing), monkeypatch)[1].workload_code == 137


@pytest.mark.parametrize(
    ("probe", "exit_code", "died_of", "own"),
    [
        ({"finished": False, "exit_code": None}, 0, None, None),  # nsys was killed or interrupted: its 0 says nothing
        ({"finished": False, "exit_code": None}, 0, 15, 143),
        ({"finished": False, "exit_code": None}, 137, 10, 137),
        ({"finished": True, "exit_code": 0}, 0, None, 0),
        ({"finished": True, "exit_code": 0}, 143, 15, 143),
        ({"finished": True, "exit_code": 8}, 143, None, 8),
        (None, 143, 15, 143),
        (None, 143, None, None),
    ],
)
def test_the_code_of_a_killed_workload(
    request_: CaptureRequest, probe: dict[str, object] | None, exit_code: int, died_of: int | None, own: int | None
) -> None:
    if probe is not None:
        (request_.folder / "probe/probe.json").write_text(json.dumps(probe))
    assert nsys.collect(request_, exit_code, died_of).workload_code == own


@pytest.mark.parametrize(
    ("mood", "code", "said"),
    [
        ("never-begun", "no-report", "the probe could not tell nsys to begin"),
        ("no-importer", "nsys-importer", "lacks the importer"),
        ("crashes", "no-report", "nsys was killed before it had written its report"),
        ("refuses", "no-report", "nsys wrote no report and ended with exit code 1, and the probe left no record"),
        ("export-refuses", "nsys-export", "Exportation error: Version number is invalid: 2026@1@2@63-262136"),
        ("export-lies", "nsys-export", "`nsys export` ended with exit code 0"),
        ("empty", "nothing-recorded", "holds no kernel, no copy and no range"),
    ],
)
def test_what_is_missing_is_said_whatever_the_exit_code(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch, mood: str, code: str, said: str
) -> None:
    quiet = replace(request_, target=replace(request_.target, args=("None",)))
    _, collected = run(quiet, monkeypatch, mood)
    assert code in codes(collected) and said in next(n.message for n in collected.notes if n.code == code)
    assert collected.workload_code == (None if mood == "refuses" else 137 if mood == "crashes" else 0)
    assert mood == "empty" or not [path for path in collected.files if path.suffix == ".sqlite"]


def test_a_first_step_beyond_the_end_is_said(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = replace(request_, target=replace(request_.target, args=("None",)), iter_start=5)
    _, collected = run(quiet, monkeypatch, "never-begun")
    assert "the run ended after 0 steps, and step 5 was to be the first" in collected.notes[0].message


def test_behind_a_launcher_each_process_has_a_report(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    code, collected = run(replace(request_, launcher=("env", "-u", "HOME")), monkeypatch)
    assert code == 7 and [path.name for path in collected.files] == ["report-node-7.nsys-rep", "report-node-7.sqlite"]


def test_without_the_probe_the_whole_run_is_recorded(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    too_old = environment.PythonInfo("3.6.9", None, None, has_tensorflow=False)
    monkeypatch.setattr(environment, "ask_interpreter", lambda *_: too_old)
    launch = nsys.prepare(request_)
    assert [note.code for note in launch.notes] == ["no-probe"] and not set(WINDOW) & set(launch.argv)
    assert launch.argv[-3:] == (sys.executable, request_.target.name, "sys.exit(7)")
    assert nsys.collect(request_, 3).workload_code is None


def test_another_program_of_that_name_is_refused(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NSYS_MOOD", "foreign")
    with pytest.raises(ToolError, match="is not Nsight Systems"):
        nsys.prepare(request_)


def test_a_missing_nsys_is_named(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="there is no nsys on PATH"):
        nsys.prepare(request_)
