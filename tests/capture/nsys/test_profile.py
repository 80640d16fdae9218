"""`tcprobe profile --profiler nsys` as a user types it: against the fake, and against the real one where it is."""

from __future__ import annotations

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.capture.base import DlprofOptions, NsysOptions
from tcprobe.errors import UsageError
from tcprobe.flows.profile import ProfileOptions, choose_capture, profile
from tcprobe.readers.open import open_profile
from tests.support import ROOT, needs_tensorflow

FAKE = ROOT / "tests/fixtures/fake_nsys"
STEPS = """
import sys, time
import tcprobe
for number in range(60):
    if number == 3:
        print("stepping", flush=True)
    with tcprobe.step():
        time.sleep(0.02)
sys.exit(7)
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tcprobe", "profile", "--output", "run", *words]


def tcprobe(work: Path, *words: str, script: str = STEPS, fake: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command line in `work`."""
    (work / "train.py").write_text(script)
    path = f"{FAKE}{os.pathsep}{os.environ['PATH']}" if fake else os.environ["PATH"]
    return subprocess.run(
        command(*words),
        cwd=work,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def record(work: Path) -> dict[str, object]:
    return dict(json.loads((work / "run/run.json").read_text()))


def notes(work: Path) -> list[str]:
    return [note["code"] for note in json.loads((work / "run/run.json").read_text())["notes"]]


def recorded_steps(work: Path) -> dict[int, int]:
    """Return the starts of the steps that nsys recorded, by number."""
    with closing(sqlite3.connect(work / "run/raw/nsys/report.sqlite")) as opened:
        rows = opened.execute("SELECT value, start FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE eventType = 59")
        return {int(name[5:]): start for name, start in rows if name.startswith("step ")}


def seen_steps(work: Path) -> dict[int, int]:
    """Return the starts of the steps in steps.csv, by number."""
    with (work / "run/probe/steps.csv").open() as file:
        return {int(row["step"]): int(row["start_ns"]) for row in csv.DictReader(file)}


def deviation(work: Path) -> float:
    """Return the least share by which the two differ in the length of a step.

    Both read a clock as a step begins. On a busy machine another process may run between the two readings, now in this
    step and now in that one; what is wrong differs in all of them.
    """
    recorded, seen = recorded_steps(work), seen_steps(work)
    lengths = [
        (recorded[n + 1] - recorded[n], seen[n + 1] - seen[n]) for n in recorded if n + 1 in recorded and n + 1 in seen
    ]
    assert sum(theirs for theirs, _ in lengths) == pytest.approx(sum(ours for _, ours in lengths), rel=0.2)
    return min(abs(theirs - ours) / ours for theirs, ours in lengths)


def test_a_failed_workload_keeps_its_code_and_its_recording(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "--profiler", "nsys", "--with-xspace", "train.py", fake=True, script="raise SystemExit(7)")
    assert done.returncode == 7, done.stderr
    run = record(tmp_path)
    assert run["profiler"] == {"name": "nsys", "version": "2022.4.2.1"}
    assert (run["exit_code"], run["profiler_exit_code"], run["with_xspace"], run["partial"]) == (7, 7, False, True)
    assert {"no-tensorflow", "private-files", "with-xspace"} <= set(notes(tmp_path))
    assert not (tmp_path / "run/with-xspace").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ProfileOptions((), "tensorflow", nsys=NsysOptions(with_xspace=True)), "--with-xspace are for Nsight Systems"),
        (ProfileOptions((), "nsys", dlprof=DlprofOptions(key_node="x")), "--dlprof-args are for DLProf"),
    ],
)
def test_options_of_another_profiler_are_refused(options: ProfileOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_capture(options)


def test_the_options_of_a_profiler_choose_it() -> None:
    assert choose_capture(ProfileOptions((), nsys=NsysOptions(("-w", "true"))))[0].NAME == "nsys"


def test_step_range_must_be_a_pattern() -> None:
    with pytest.raises(UsageError, match="no regular expression"):
        profile(ProfileOptions(("train.py",), step_range="("))


@pytest.mark.nsys
def test_steps_are_recorded_as_the_probe_saw_them(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "--profiler", "nsys", "train.py")
    assert done.returncode == 7, done.stderr
    steps = recorded_steps(tmp_path)
    assert sorted(steps) == list(range(len(steps))) and 22 <= len(steps) < len(seen_steps(tmp_path)) == 60
    assert deviation(tmp_path) < 0.01
    assert "recorded by  Nsight Systems" in done.stdout
    assert ": 20 of" in done.stdout
    ranges = open_profile(tmp_path / "run").require("ranges")
    assert set(ranges.values("name")) == {"tcprobe_step"}  # and not the range that holds the recording open


@pytest.mark.nsys
def test_only_the_steps_that_were_asked_for_are_recorded(tmp_path: Path) -> None:
    tcprobe(tmp_path, "--profiler", "nsys", "--iter-start", "5", "--iter-stop", "9", "train.py")
    assert sorted(recorded_steps(tmp_path)) == [5, 6, 7, 8, 9]


@pytest.mark.nsys
def test_a_recording_that_never_began_is_a_failed_measurement(tmp_path: Path) -> None:
    words = ["--profiler", "nsys", "--iter-start", "80", "train.py"]
    done = tcprobe(tmp_path, *words, script=STEPS.replace("exit(7)", "exit(0)"))
    assert done.returncode == 2 and "the run ended after 60 steps, and step 80 was to be the first" in done.stderr


@pytest.mark.nsys
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 7), (signal.SIGTERM, 143)])
def test_what_was_recorded_before_a_signal_is_kept(tmp_path: Path, number: signal.Signals, code: int) -> None:
    script = STEPS.replace("range(60)", "range(3000)").replace("sys.exit(7)", "")
    (tmp_path / "train.py").write_text(
        f"try:{script.replace(chr(10), chr(10) + '    ')}\nexcept KeyboardInterrupt:\n    sys.exit(7)\n"
    )
    words = ["--profiler", "nsys", "--iter-start", "0", "--iter-stop", "2999", "train.py"]
    with subprocess.Popen(
        command(*words), cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert any("stepping" in line for line in child.stdout)
        time.sleep(0.7)
        child.send_signal(number)
        child.stdout.read()
    assert child.returncode == code
    assert len(recorded_steps(tmp_path)) > 3 and record(tmp_path)["partial"] is True


@pytest.mark.nsys
@needs_tensorflow
@pytest.mark.tensorflow
@pytest.mark.long
def test_the_steps_of_a_compiled_workload_are_read_back(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "--profiler", "nsys", "train_gan", "--steps", "12")
    assert done.returncode == 0, done.stderr
    assert sorted(recorded_steps(tmp_path)) == [8, 9, 10, 11]  # a step is believed after 8 calls
    assert deviation(tmp_path) < 0.01
    assert "to 11: " in done.stdout
