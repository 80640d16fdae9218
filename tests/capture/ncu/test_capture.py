"""Nsight Compute as a capture: against a fake of it in its moods, and against the real one where it is on PATH."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from tcprobe.capture import CAPTURES, ncu
from tcprobe.capture.base import CaptureRequest, Collected, Invocation, NcuOptions
from tcprobe.errors import MeasurementFailed, ToolError, UsageError
from tcprobe.flows.profile import ProfileOptions, profile
from tests.support import ROOT

FAKE = ROOT / "tests/fixtures/fake_ncu"
NO_NCU = "Nsight Compute (ncu) is not on PATH"


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CaptureRequest:
    """A script to be profiled, with the fake first on PATH."""
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("NVTX_DISABLE", raising=False)
    script = tmp_path / "train.py"
    script.write_text("import sys\nsys.exit(int(sys.argv[1]))\n")
    folder = tmp_path / ".partial-50%-1"
    for name in ("raw", "probe"):
        (folder / name).mkdir(parents=True)
    return CaptureRequest(Invocation("script", str(script), ("7",)), folder, sys.executable)


def run(request: CaptureRequest, monkeypatch: pytest.MonkeyPatch, mood: str = "") -> Collected:
    monkeypatch.setenv("FAKE_NCU_MOOD", mood)
    launch = ncu.prepare(request)
    done = subprocess.run(launch.argv, env={**os.environ, **launch.environment}, capture_output=True, text=True)
    return ncu.collect(request, done.returncode)


def window(request: CaptureRequest) -> tuple[object, object, object]:
    """Return the orders for the steps to mark: how many, the first, the last."""
    orders = json.loads((request.folder / "probe/config.json").read_text())
    return orders["window_steps"], orders["iter_start"], orders["iter_stop"]


def seen(monkeypatch: pytest.MonkeyPatch, **probe: object) -> None:
    """Have the probe tell this: no tool listens to it here."""
    monkeypatch.setattr(ncu, "read_probe", lambda _: probe)


def test_it_is_listed() -> None:
    assert "ncu" in [capture.NAME for capture in CAPTURES]
    assert (FAKE / "ncu").stat().st_mode & stat.S_IXUSR


def test_one_step_is_counted_by_what_this_gpu_has(request_: CaptureRequest) -> None:
    argv = ncu.prepare(request_).argv
    assert {"--nvtx", "--nvtx-include=tcprobe@tcprobe window", "--target-processes=all"} <= set(argv)
    metrics = "gpu__time_duration.sum,sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"
    assert f"--metrics={metrics}" in argv
    assert f"--export={request_.folder.parent}/.partial-50%%-1/raw/ncu/report" in argv
    assert window(request_) == (1, 10, None)


@pytest.mark.parametrize(
    ("start", "stop", "first"), [(None, None, 10), (0, None, 0), (12, 14, 12), (None, 4, 4), (None, 40, 10)]
)
def test_the_step_that_is_counted(request_: CaptureRequest, start: int | None, stop: int | None, first: int) -> None:
    assert ncu._first(replace(request_, iter_start=start, iter_stop=stop)) == first


def test_kernels_that_were_named_are_counted_from_the_start(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVTX_DISABLE", "1")  # nothing is marked, and nothing needs to be
    request = replace(request_, ncu=NcuOptions("gemm|conv", 50))
    argv = ncu.prepare(request).argv
    assert {"--kernel-name=regex:gemm|conv", "--launch-count=50"} <= set(argv)
    assert not [word for word in argv if word.startswith("--nvtx")] and window(request)[1] is None
    with pytest.raises(ToolError, match="no step can be marked for Nsight Compute: NVTX_DISABLE is set"):
        ncu.prepare(request_)


def test_report_and_table_are_kept_and_the_code_is_the_workloads(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run(request_, monkeypatch)
    assert [path.name for path in done.files] == ["report.ncu-rep", "report.csv"] and done.workload_code == 7
    assert not done.notes


def test_what_the_probe_saw_says_which_steps_these_are(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen(monkeypatch, exit_code=0, window={"first_step": 12, "last_step": 13})
    ncu.home(request_.folder).mkdir(parents=True)
    (ncu.home(request_.folder) / "report.ncu-rep").write_bytes(b"NVR")
    assert [note.message for note in ncu.collect(request_, 0).notes] == ["all launches are of step 12 to 13"]
    (ncu.home(request_.folder) / "report.ncu-rep").unlink()
    seen(monkeypatch, exit_code=0, steps={"count": 0})
    (note,) = ncu.collect(request_, 1).notes
    assert note.message == "no kernel was counted: step 10 was to be, and no step was seen in the run"
    seen(monkeypatch, exit_code=0, steps={"count": 4})
    (note,) = ncu.collect(request_, 1).notes
    assert note.message == "no kernel was counted: step 10 was to be, and the run ended after 4 steps"
    (ncu.home(request_.folder) / "ncu.log").write_text("==PROF== Connected\n==WARNING== No kernels were profiled.\n")
    seen(monkeypatch, exit_code=0, steps={"count": 40})
    (note,) = ncu.collect(request_, 1).notes
    assert note.message == "no kernel was counted; Nsight Compute says 'No kernels were profiled.'"


@pytest.mark.parametrize(
    ("mood", "code", "message"),
    [
        ("no-gpu", None, "ended with exit code 1 before the workload began, as it does without a GPU"),
        ("not-allowed", 7, r"not allowed to read the GPU's counters \(ERR_NVGPUCTRPERM\)"),
    ],
)
def test_nothing_counted_is_one_clear_note(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch, mood: str, code: int | None, message: str
) -> None:
    done = run(request_, monkeypatch, mood)
    (note,) = done.notes
    assert (note.code, note.level, done.workload_code, done.files) == ("no-report", "error", code, ())
    assert re.search(message, note.message)


def test_a_report_that_ncu_does_not_print_stays(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NCU_MOOD", "import-fails")
    seen(monkeypatch, exit_code=0)
    ncu.home(request_.folder).mkdir(parents=True)
    (ncu.home(request_.folder) / "report.ncu-rep").write_bytes(b"NVR")
    done = ncu.collect(request_, 0)
    assert [path.name for path in done.files] == ["report.ncu-rep"]
    assert done.notes[0].code == "ncu-export" and "Could not open report file" in done.notes[0].message


def test_another_program_and_ranks_are_refused(request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NCU_MOOD", "foreign")
    with pytest.raises(ToolError, match="is not Nsight Compute, or one that is too old"):
        ncu.prepare(request_)
    with pytest.raises(UsageError, match="is for one process"):
        ncu.prepare(replace(request_, ranks=(0,), launcher=("mpirun",)))


def test_the_report_says_whose_times_these_are(
    request_: CaptureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    seen(monkeypatch, exit_code=0, window={"first_step": 10, "last_step": 10})
    done = profile(ProfileOptions((str(tmp_path / "train.py"),), "ncu", output=tmp_path / "run"))
    assert done.report is not None and done.exit_code == 0, done.failure
    notes = [note.code for note in done.report.metadata.notes]
    assert "profiled-alone" in notes and "ncu-one-step" in notes and "warm-up-inside" not in notes
    assert len(done.report.require("kernel_counters")) and "serialises_kernels" in done.report.traits


@pytest.mark.skipif(shutil.which("ncu") is None, reason=NO_NCU)
@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_the_real_one_without_a_gpu_costs_the_measurement(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    done = profile(ProfileOptions((str(tmp_path / "train.py"),), "ncu", output=tmp_path / "run"))
    assert (done.workload_code, done.exit_code) == (None, 2) and (done.folder / "run.json").is_file()
    assert isinstance(done.failure, MeasurementFailed) and "as it does without a GPU" in done.failure.message
