"""DLProf as a capture, against the fake in all its builds and moods, down to what the reader makes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.capture import CAPTURES, dlprof, environment
from tcprobe.capture.base import CaptureRequest, Collected, DlprofOptions, Invocation, Launch
from tcprobe.capture.program import parse_help
from tcprobe.errors import ToolError, UsageError
from tcprobe.readers.dlprof.reader import CSV as dlprof_csv
from tcprobe.schema.profile import Profile
from tests.support import ROOT

FAKE = ROOT / "tests/fixtures/fake_dlprof"
KEY = DlprofOptions(key_node="ASSIGNADDVARIABLEOP_1")
BUILDS = ("tf1-0.13", "pytorch-1.0", "tf2-1.2", "tf2-1.8")


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CaptureRequest:
    """A script to be profiled, the fake first on PATH, an empty working directory."""
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    script = work / "train.py"
    script.write_text("import sys\nprint('trained', sys.argv[1:])\nsys.exit(7 if '--fail' in sys.argv else 0)\n")
    folder = tmp_path / ".partial-train-1"
    (folder / "raw").mkdir(parents=True)
    return CaptureRequest(Invocation("script", str(script), ("--lr", "1")), folder, sys.executable, dlprof=KEY)


def changed(request: CaptureRequest, **fields: object) -> CaptureRequest:
    from msgspec.structs import replace

    return replace(request, **fields)  # type: ignore[arg-type]


def run(request: CaptureRequest) -> tuple[Launch, int, Collected]:
    launch = dlprof.prepare(request)
    done = subprocess.run(launch.argv, env={**os.environ, **launch.environment}, capture_output=True, text=True)
    assert "trained ['--lr', '1'" in done.stdout or done.returncode
    return launch, done.returncode, dlprof.collect(request, done.returncode)


def read(request: CaptureRequest) -> Profile:
    return dlprof_csv.read(dlprof_csv.finds(dlprof.home(request.folder)))


def codes(collected: Collected) -> list[str]:
    return [note.code for note in collected.notes]


def mood(monkeypatch: pytest.MonkeyPatch, name: str, build: str = "tf2-1.8") -> None:
    monkeypatch.setenv("FAKE_DLPROF_MOOD", name)
    monkeypatch.setenv("FAKE_DLPROF_BUILD", build)


def test_it_is_listed() -> None:
    assert "dlprof" in [capture.NAME for capture in CAPTURES]


def test_fake_may_be_executed() -> None:
    assert (FAKE / "dlprof").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("build", BUILDS)
def test_every_build_is_driven_to_its_reports(
    request_: CaptureRequest, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DLPROF_BUILD", build)
    launch, code, collected = run(request_)
    assert code == 0 and codes(collected) == ["private-files"]
    profile = read(request_)
    assert profile.require("launches").numbers("duration_ns").sum() > 0
    assert profile.metadata.profiler == f"DLProf {launch.profiler_version} (build 29839685)"
    assert launch.forward_interrupt is False


@pytest.mark.parametrize(
    ("build", "has", "lacks"),
    [
        (
            "tf1-0.13",
            ["--key_node=ASSIGNADDVARIABLEOP_1", "--reports=all"],
            ["--mode", "--formats", "--suppress_tb_files"],
        ),
        ("pytorch-1.0", ["--key_node=ASSIGNADDVARIABLEOP_1", "--suppress_tb_files=true"], ["--mode"]),
        ("tf2-1.2", ["--key_node=ASSIGNADDVARIABLEOP_1", "--mode=tensorflow2"], ["--key_op", "--suppress_tb_files"]),
        ("tf2-1.8", ["--key_op=ASSIGNADDVARIABLEOP_1", "--formats=csv,json"], ["--key_node"]),
    ],
)
def test_flags_are_those_of_the_build(
    request_: CaptureRequest, build: str, has: list[str], lacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_DLPROF_BUILD", build)
    argv = dlprof.prepare(changed(request_, iter_start=3, iter_stop=6)).argv
    assert set(has) <= set(argv)
    assert not [word for word in argv if word.split("=")[0] in lacks]
    assert {"--iter_start=3", "--iter_stop=6"} <= set(argv)
    assert argv[-3:] == (sys.executable, *map(str, probe_of(request_)))


def test_without_the_probe_the_workload_is_started_as_it_is(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_old = environment.PythonInfo("3.6.9", "1.15.5", None, has_tensorflow=True)
    monkeypatch.setattr(environment, "ask_interpreter", lambda *_: too_old)
    launch = dlprof.prepare(changed(request_, target=Invocation("module", "pkg.train", ("-x",))))
    assert launch.argv[-4:] == (sys.executable, "-m", "pkg.train", "-x")
    assert [note.code for note in launch.notes] == ["no-probe"]
    assert "is Python 3.6.9; the probe needs 3.8 or later: no layers" in launch.notes[0].message
    with pytest.raises(ToolError, match="mixed_float16 is set by the probe, which cannot run here"):
        dlprof.prepare(changed(request_, precision="mixed_float16"))


def probe_of(request: CaptureRequest) -> tuple[Path, Path]:
    """Return the probe in the run folder, and its orders."""
    return request.folder / "probe/src/tcprobe_probe", request.folder / "probe/config.json"


def test_the_probe_watches_beside_dlprof(request_: CaptureRequest) -> None:
    launch, code, collected = run(request_)
    orders = json.loads(probe_of(request_)[1].read_text())
    assert (orders["profile"], orders["nvtx"], launch.wraps) == (False, False, True)
    assert (code, collected.workload_code) == (0, 0)


def test_what_was_asked_for_is_passed_on(request_: CaptureRequest) -> None:
    asked = DlprofOptions(None, None, 5, 30.5, ("--nsys_opts=-t cuda,nvtx", "-v", "quiet", "--reports", "summary"))
    argv = dlprof.prepare(changed(request_, dlprof=asked, iter_start=1_234_567)).argv
    assert {"--delay=5", "--duration=30.5", "--iter_start=1234567"} <= set(argv)
    assert argv[-8:-3] == asked.args  # behind ours, and in place of ours where they are the same
    assert "--reports=all" not in argv


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--output_path=x",), "--output_path is tcprobe's to set: its reports must lie in the run folder"),
        (("--database", "x"), "--database is tcprobe's to set"),
        (("summary",), "'summary' is no option of DLProf and the value of none"),
        (("--reports=all", "detail"), "'detail' is no option"),
        (("-v", "quiet", "-"), "'-' is no option"),
    ],
)
def test_words_that_would_break_the_run_are_refused(
    request_: CaptureRequest, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        dlprof.prepare(changed(request_, dlprof=DlprofOptions(args=words)))


def test_a_build_without_what_was_asked_for_is_named(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DLPROF_BUILD", "tf1-0.8")
    with pytest.raises(ToolError, match="this build of DLProf has no --delay and no --duration"):
        dlprof.prepare(changed(request_, dlprof=DlprofOptions(delay_s=1, duration_s=2)))


def test_a_launcher_stands_before_everything(request_: CaptureRequest) -> None:
    launcher = ("nice", "-n", "1")
    argv = dlprof.prepare(changed(request_, launcher=launcher, precision="float32")).argv
    assert argv[:4] == (*launcher, "env")
    assert "NVIDIA_TF32_OVERRIDE=0" in argv[4 : argv.index("dlprof")]


def test_iterations_are_those_asked_for(request_: CaptureRequest) -> None:
    run(changed(request_, iter_start=3, iter_stop=5))
    profile = read(request_)
    assert set(profile.require("launches").numbers("iteration")) == {3, 4, 5}
    told = {row["metric"]: row["value"] for row in profile.require("reported").rows()}
    assert (told["Iterations / Start Iteration"], told["Iterations / Stop Iteration"]) == (3, 5)


def test_explicit_mode_is_taken_or_refused(request_: CaptureRequest) -> None:
    argv = dlprof.prepare(changed(request_, dlprof=DlprofOptions(mode="simple"))).argv
    assert "--mode=simple" in argv
    shutil.rmtree(request_.folder / "probe")
    with pytest.raises(ToolError, match=r"DLProf 1\.8\.0 has the modes simple, tensorflow2, tensorrt, not tensorflow1"):
        dlprof.prepare(changed(request_, dlprof=DlprofOptions(mode="tensorflow1")))


def test_simple_mode_is_read_as_such(request_: CaptureRequest) -> None:
    request = changed(request_, dlprof=DlprofOptions(mode="simple"))
    run(request)
    assert "simple-mode" in [n.code for n in read(request).metadata.notes]


def test_another_vendors_dlprof_is_refused(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mood(monkeypatch, "foreign-vendor")
    with pytest.raises(ToolError, match="is not NVIDIA's DLProf") as caught:
        dlprof.prepare(request_)
    assert "usage: dlprof" in str(caught.value.hint)


def test_no_dlprof_is_one_sentence(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(request_.folder))
    with pytest.raises(ToolError, match="there is no dlprof on PATH"):
        dlprof.prepare(request_)


def test_a_launcher_that_leads_nowhere(request_: CaptureRequest) -> None:
    with pytest.raises(ToolError, match="no-such-launcher dlprof --help: cannot be started"):
        dlprof.prepare(changed(request_, launcher=("no-such-launcher",)))
    with pytest.raises(ToolError, match="failed"):
        dlprof.prepare(changed(request_, launcher=("false",)))


def test_the_probe_sets_mixed_precision(request_: CaptureRequest) -> None:
    dlprof.prepare(changed(request_, precision="mixed_float16"))
    assert json.loads(probe_of(request_)[1].read_text())["precision"] == "mixed_float16"


def test_the_workloads_failure_is_kept(request_: CaptureRequest) -> None:
    request = changed(request_, target=Invocation("script", request_.target.name, ("--lr", "1", "--fail")))
    _, code, collected = run(request)
    assert code == collected.workload_code == 7 and codes(collected) == ["private-files"]
    assert read(request).table("launches") is not None


def test_zero_kernels_are_a_failed_measurement(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mood(monkeypatch, "zero-kernels")
    _, code, _ = run(request_)
    profile = read(request_)
    assert code == 0
    assert profile.metadata.notes[0].code == "no-kernels" and profile.metadata.notes[0].level == "error"
    assert profile.absent["launches"] == profile.absent["kernels"] == "DLProf captured no kernel"


def test_a_key_node_that_is_not_there(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mood(monkeypatch, "key-node-not-found")
    _, _, collected = run(request_)
    note = next(n for n in collected.notes if n.code == "key-node-not-found")
    assert "'ASSIGNADDVARIABLEOP_1'" in note.message and note.remedy and "dlprof_detailed.csv" in note.remedy
    assert "whole-run" in [n.code for n in read(request_).metadata.notes]


def test_no_key_node_makes_one_iteration(request_: CaptureRequest) -> None:
    request = changed(request_, dlprof=DlprofOptions())
    _, _, collected = run(request)
    assert "key-node-not-found" not in codes(collected)
    assert "whole-run" in [n.code for n in read(request).metadata.notes]


def test_a_key_node_of_epochs_is_noticed(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    mood(monkeypatch, "epoch-key-node")
    run(request_)
    note = next(n for n in read(request_).metadata.notes if n.code == "key-node-cadence")
    assert "12 times" in note.message


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("nonzero-exit", 5, ["dlprof-exit", "private-files"]),
        ("no-summary", 0, ["no-summary", "private-files"]),
        ("writes-nothing", 0, ["dlprof-post-processing", "private-files"]),
        ("post-processing-fails", 1, ["dlprof-post-processing", "private-files"]),
        ("refuses-mode", 1, ["no-reports"]),
    ],
)
def test_what_goes_wrong_is_said(
    request_: CaptureRequest, name: str, code: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mood(monkeypatch, name)
    _, ended, collected = run(request_)
    assert (ended, codes(collected)) == (code, expected)
    assert all(note.remedy for note in collected.notes)


def test_a_recording_without_reports_can_be_aggregated_again(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    mood(monkeypatch, "post-processing-fails")
    _, _, collected = run(request_)
    left = dlprof.home(request_.folder) / "nsys_train-1.sqlite"
    assert left.is_file()
    assert not list(Path().glob("nsys_*"))
    assert f"--database={left.name}" in str(collected.notes[0].remedy)


def test_an_interrupt_leaves_nothing_and_says_why(request_: CaptureRequest) -> None:
    Path(request_.target.name).write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    launch = dlprof.prepare(request_)
    child = subprocess.Popen(launch.argv, stdout=subprocess.PIPE, start_new_session=True, text=True)
    assert child.stdout is not None and child.stdout.readline() == "up\n"
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=30)
    assert child.returncode == 130
    assert codes(dlprof.collect(request_, child.returncode)) == ["dlprof-interrupted"]


def test_the_database_is_the_newest(tmp_path: Path) -> None:
    database = dlprof._database
    for number, name in enumerate(("dlprof_dldb.sqlite", "dlprof_dldb_1.sqlite", "dlprof_dldb_7.sqlite")):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (number, number))
    assert database(tmp_path) == tmp_path / "dlprof_dldb_7.sqlite"


def test_a_help_text_in_one_block_is_understood() -> None:
    text = (
        "  -m, --mode=  Specify mode. Possible values are\n      simple, pytorch. Default is 'pytorch'.\n"
        '  --nsys_opts=  replaces "-t cuda,nvtx -s none"\n  --formats=   csv, json\n  --key_node=  global_step\n'
    )
    build = parse_help(dlprof.DLPROF, text)
    assert build.values("--mode", *dlprof.MODES) == ("simple", "pytorch")
    assert build.values("--formats", "json", "csv") == ("json", "csv")
    assert [flag for flag in dlprof.KEY_FLAGS if flag in build.flags] == ["--key_node"]
