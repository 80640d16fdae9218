"""`profile` as a function: which profiler, which arguments, which exit code, and real TensorFlow runs to the report."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture import dlprof, tensorflow
from tcprobe.capture.base import CaptureRequest, DlprofOptions
from tcprobe.errors import MeasurementFailed, OutputError, ToolError
from tcprobe.flows import profile as flow
from tcprobe.flows.profile import ProfileOptions, ProfileOutcome, choose_capture, profile
from tcprobe.flows.report import make_report
from tcprobe.flows.workloads import Workload, find_workload, packaged_workloads
from tests import warm
from tests.support import ROOT, needs_tensorflow


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(code: str, name: str = "work.py") -> str:
    Path(name).write_text(textwrap.dedent(code))
    return name


def run(code: str, *args: str, **options: Any) -> ProfileOutcome:
    return profile(ProfileOptions((write(code), *args), **options))


def run_warm(code: str, *args: str, **options: Any) -> ProfileOutcome:
    """Run it where TensorFlow is imported already."""
    return run(code, *args, python=warm.python(), **options)


def record(outcome: ProfileOutcome) -> dict[str, Any]:
    return dict(json.loads((outcome.folder / "run.json").read_text()))


def note_codes(outcome: ProfileOutcome) -> set[str]:
    assert outcome.report is not None
    return {n.code for n in outcome.report.metadata.notes}


def request(tmp_path: Path, *words: str, **options: Any) -> CaptureRequest:
    chosen = flow._checked(ProfileOptions(words, **options))
    target, workload = find_workload(words)
    return flow._request(chosen, target, workload, tmp_path, 0o22)


# --- what is asked ------------------------------------------------------------------------------------


def test_a_packaged_workload_takes_precision_and_xla_as_its_own(tmp_path: Path) -> None:
    made = request(tmp_path, "train_gan", "--steps", "3", precision="mixed_bfloat16", xla=True)
    assert made.target.args == ("--xla", "--precision", "mixed_bfloat16", "--steps", "3")
    assert (made.precision, made.xla, made.target.label) == (None, None, "train_gan")


@pytest.mark.parametrize("own", [("--precision", "tf32"), ("--precision=tf32",)])
def test_what_the_user_gave_the_workload_stands(tmp_path: Path, own: tuple[str, ...]) -> None:
    made = request(tmp_path, "train_gan", *own, precision="float32")
    assert made.target.args == own
    assert made.precision is None


def test_a_script_gets_precision_and_xla_from_the_probe(tmp_path: Path) -> None:
    made = request(tmp_path, write("pass"), "--x", precision="tf32", xla=False)
    assert (made.target.args, made.precision, made.xla) == (("--x",), "tf32", False)


def test_packaged_workloads_say_what_they_are() -> None:
    found = {w.name: w for w in packaged_workloads()}
    assert "GAN" in found["train_gan"].description
    assert found["train_gan"].takes("--precision")
    assert not found["train_gan"].takes("--no-such-option")


def test_a_file_beats_no_packaged_name_but_is_found_without_an_ending() -> None:
    write("pass", "train")
    assert find_workload(["train"])[0].name == "train"
    assert isinstance(find_workload(["train_gan"])[1], Workload)


@pytest.mark.parametrize("profiler", ["auto", "tensorflow"])
def test_tensorflows_profiler_is_the_default(profiler: str) -> None:
    assert choose_capture(ProfileOptions(("work.py",), profiler=profiler))[0] is tensorflow


@pytest.mark.parametrize(
    "options",
    [{"dlprof": DlprofOptions(key_node="X")}, {"dlprof": DlprofOptions(mode="simple")}, {"profiler": "dlprof"}],
)
def test_dlprofs_options_ask_for_dlprof(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_capture(ProfileOptions(("work.py",), **options))[0] is dlprof
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolError, match="there is no dlprof on PATH") as caught:
        run("pass", **options)
    assert "--profiler tensorflow" in str(caught.value.hint)


# --- how it ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "failure", "expected"),
    [(0, None, 0), (7, None, 7), (0, MeasurementFailed("x"), 2), (137, MeasurementFailed("x"), 137)],
)
def test_the_workloads_own_code_stands_before_ours(
    workload: int, failure: MeasurementFailed | None, expected: int
) -> None:
    assert ProfileOutcome(Path("x"), workload, False, failure=failure).exit_code == expected


def test_a_gpu_that_left_no_kernel_is_a_failed_measurement_and_the_folder_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {"tensorflow": "2.21.0", "gpu_used": True, "gpus": [{"name": "T4"}], "steps": {"count": 0}}
    monkeypatch.setattr(flow, "read_probe", lambda folder: seen)
    outcome = run("pass")
    assert isinstance(outcome.failure, MeasurementFailed)
    assert (outcome.exit_code, outcome.report) == (2, None)
    assert (record(outcome)["gpu_used"], record(outcome)["exit_code"]) == (True, 0)


def test_a_disk_that_fills_up_costs_the_record_of_the_end_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OutputError("run.json: cannot be written: No space left on device")

    monkeypatch.setattr(flow.folder, "write_last_record", full)
    outcome = run("pass")
    assert isinstance(outcome.failure, OutputError)
    assert (outcome.exit_code, outcome.folder.name.startswith("work-")) == (2, True)
    assert outcome.report is not None
    assert "partial-run" in note_codes(outcome)


@pytest.fixture
def fake_dlprof(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("PATH", f"{ROOT / 'tests/fixtures/fake_dlprof'}{os.pathsep}{os.environ['PATH']}")
    return monkeypatch


def test_a_run_under_dlprof_ends_in_the_same_report(fake_dlprof: pytest.MonkeyPatch) -> None:
    outcome = run("print('trained')", dlprof=DlprofOptions(key_node="ASSIGNADDVARIABLEOP_1"), iter_start=3, iter_stop=6)
    assert outcome.exit_code == 0
    for report in (outcome.report, make_report(outcome.folder)):
        assert report is not None
        window = report.metadata.window
        assert (window.first, window.last, window.basis) == (3, 6, "given")
        assert report.absent["steps"] == "no training step was seen"


def test_iterations_that_dlprof_did_not_find_are_said_not_to_be_there(fake_dlprof: pytest.MonkeyPatch) -> None:
    outcome = run("pass", dlprof=DlprofOptions(key_node="ASSIGNADDVARIABLEOP_1"), iter_stop=5000)
    assert outcome.exit_code == 0
    assert "iterations-not-there" in note_codes(outcome)


@pytest.mark.parametrize(("code", "expected"), [("pass", 2), ("raise SystemExit(7)", 7)])
def test_a_profiler_that_left_nothing_is_a_failed_measurement(
    fake_dlprof: pytest.MonkeyPatch, code: str, expected: int
) -> None:
    fake_dlprof.setenv("FAKE_DLPROF_MOOD", "writes-nothing")
    outcome = run(code, profiler="dlprof")
    assert isinstance(outcome.failure, MeasurementFailed)
    assert (outcome.exit_code, outcome.report is None) == (expected, False)


def test_a_launcher_without_our_interpreter_gets_its_python3(tmp_path: Path) -> None:
    launcher = tmp_path / "container"
    launcher.write_text('#!/bin/sh\ncase "$1" in /*) exit 127;; esac\nexec "$@"\n')
    launcher.chmod(0o755)
    chosen = flow._checked(ProfileOptions(("x",), launcher=(str(launcher),)))
    assert chosen.python == "python3"
    assert flow._checked(ProfileOptions(("x",), launcher=("env",))).python == sys.executable
    assert flow._checked(ProfileOptions(("x",), launcher=(str(launcher),), python="/p")).python == "/p"


def test_a_launcher_that_fails_later_leaves_no_folder(tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.write_text('#!/bin/sh\nrm -- "$0"\nexec "$@"\n')
    once.chmod(0o755)
    with pytest.raises(ToolError, match="once"):
        run("pass", launcher=(str(once),))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["work.py"]


def test_output_of_the_workload_can_move(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    outcome = profile(ProfileOptions((write("print('hello')"),)), stdout_to_stderr=True, say=said.append)
    assert capfd.readouterr() == ("", "hello\n")
    assert said == ["running work under TensorFlow's profiler (auto)"]
    assert outcome.exit_code == 0


# --- TensorFlow ---------------------------------------------------------------------------------------

LOOP = """
    import sys
    import tensorflow as tf
    w, b = tf.Variable(tf.ones((60, 63))), tf.Variable(tf.zeros((63,)))
    @tf.function
    def train_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.relu(x @ w + b) ** 2)
        for v, g in zip((w, b), tape.gradient(loss, (w, b))):
            v.assign_sub(0.001 * g)
        return loss
    for i in range(int(sys.argv[1])):
        loss = train_step(tf.ones((32, 60)))
        print("step %d, loss: %.4f, quality=%d" % (i, loss, 7))
        if len(sys.argv) > 2 and i == int(sys.argv[2]):
            raise RuntimeError("out of luck")
"""


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_training_loop_is_profiled_and_reported(capfd: pytest.CaptureFixture[str]) -> None:
    outcome = run(LOOP, "40", metric_patterns=(r"quality=(?P<quality>\d+)",), target_gpu="NVIDIA A100-SXM4-40GB")
    assert outcome.exit_code == 0
    assert capfd.readouterr().out.count("\n") == 40
    kept, report = record(outcome), outcome.report
    assert report is not None
    assert (kept["gpu_used"], kept["partial"], kept["exit_code"]) == (False, False, 0)
    assert kept["window"]["last_step"] - kept["window"]["first_step"] == 19
    assert kept["target_gpu"] == "a100-sxm-40"
    assert len(report.require("steps")) == 40
    assert set(report.require("metrics").values("name")) >= {"loss", "quality"}
    assert len(report.require("host_ops")) > 0
    assert (outcome.folder / "tables" / "iterations.csv").is_file()
    assert list((outcome.folder / "raw").rglob("*.xplane.pb"))
    again = make_report(outcome.folder)
    assert sorted(again.tables) == sorted(report.tables)


@pytest.mark.tensorflow
@needs_tensorflow
def test_steps_can_be_chosen() -> None:
    window = record(run_warm(LOOP, "20", iter_start=5, iter_stop=9))["window"]
    assert (window["first_step"], window["last_step"]) == (5, 9)


@pytest.mark.tensorflow
@needs_tensorflow
def test_one_step_is_reported_and_said_to_be_few() -> None:
    outcome = run_warm(LOOP, "1")
    assert outcome.exit_code == 0
    assert outcome.report is not None
    assert len(outcome.report.require("steps")) == 1
    assert "no-window" in note_codes(outcome)


@pytest.mark.tensorflow
@needs_tensorflow
def test_tensorflow_without_a_step_is_told_so() -> None:
    outcome = run_warm("import tensorflow as tf; print(tf.reduce_sum(tf.ones(3)).numpy())")
    assert outcome.exit_code == 0
    assert "no-steps" in note_codes(outcome)


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_crash_in_the_window_keeps_what_was_recorded() -> None:
    outcome = run_warm(LOOP, "40", "15")
    assert outcome.exit_code == 1
    assert record(outcome)["partial"] is True
    assert outcome.report is not None
    assert len(outcome.report.require("steps")) >= 15
    assert "partial-run" in note_codes(outcome)


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_kill_in_the_window_loses_at_most_the_last_second() -> None:
    killed = LOOP + "\n        if i == 30: import time, os; time.sleep(1.2); os.kill(os.getpid(), 9)\n"
    outcome = run(killed, "40")
    assert outcome.exit_code == 137
    assert outcome.report is not None
    assert len(outcome.report.require("steps")) >= 30


@pytest.mark.tensorflow
@needs_tensorflow
def test_the_default_interpreter_is_tcprobes_own() -> None:
    outcome = run("import sys; print(sys.executable)")
    assert record(outcome)["python"] == ".".join(str(n) for n in sys.version_info[:3])
