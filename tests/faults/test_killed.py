"""Something is killed while a workload runs: what was flushed is kept, and the report says what happened."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.faults.kept import check_kept, left
from tests.faults.running import STEPS, Tcprobe
from tests.faults.table import Fault, Kept, cases
from tests.support import ROOT

FAKE = ROOT / "tests/fixtures/fake_dlprof"
ENDLESS = STEPS.format(steps=10_000, seconds=0.01)
ENDS = {
    "workload-sigkill": ("os.kill(os.getpid(), signal.SIGKILL)", 137, "ended by SIGKILL"),
    "workload-crashes": ("ctypes.string_at(0)", 139, "ended by SIGSEGV"),
    "workload-aborts": ("os.abort()", 134, "ended by SIGABRT"),
    "workload-kills-its-group": ("os.killpg(0, signal.SIGKILL)", 137, "ended by SIGKILL"),
    "workload-exits-at-once": ("os._exit(4)", 4, "failed with exit code 4"),
    "workload-out-of-memory": (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20)); bytearray(1 << 30)",
        1,
        "failed with exit code 1",
    ),
}
"""How a workload ends, after 20 steps, its exit code, and what is said of it."""


def flushed(run: Tcprobe) -> int:
    """Return how many steps had ended a second ago, by what the workload had printed then, a second later."""
    count = run.printed.count("loss: ")
    time.sleep(1.0)
    return count


@pytest.mark.parametrize("fault", cases("test_killed.test_a_workload_that_ends_badly"))
def test_a_workload_that_ends_badly(fault: Fault, tmp_path: Path) -> None:
    end, code, said = ENDS[fault.name]
    flushed = "time.sleep(1)" if fault.kept is Kept.FLUSHED else ""
    run = Tcprobe(tmp_path, f"import ctypes, os, signal\n{STEPS.format(steps=20, seconds=0.001)}\n{flushed}\n{end}\n")
    assert run.wait() == code
    found = left(run.folder())
    assert said in run.printed and said in found.said["partial-run"]
    assert found.record["exit_code"] == code
    check_kept(found, fault.kept, 20)


@pytest.mark.parametrize("fault", cases("test_killed.test_a_killed_tcprobe"))
def test_a_killed_tcprobe(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, STEPS.format(steps=150, seconds=0.01))
    run.until("loss: 0.050")
    steps = flushed(run)
    run.send(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    check_kept(left(run.folder()), Kept.NO_ENDING, steps)
    run.until_true(lambda: not run.processes())
    found = left(run.folder())
    check_kept(found, fault.kept, 150)
    assert "the workload ended well: all of it was recorded" in found.said["partial-run"]
    earlier = shutil.copytree(found.folder, found.folder.with_name("earlier"))
    assert str(found.folder) in left(earlier.parent).said["unended-runs"]


@pytest.mark.parametrize("fault", cases("test_killed.test_all_is_killed"))
def test_all_is_killed(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, ENDLESS)
    run.until("loss: 0.100")
    steps = flushed(run)
    run.kill()
    found = left(run.folder().parent)  # of a folder of runs, those that never ended are read where there is no other
    assert "killed with tcprobe" in found.said["partial-run"]
    check_kept(left(run.folder()), fault.kept, steps)


@pytest.mark.parametrize("fault", cases("test_killed.test_a_killed_profiler"))
def test_a_killed_profiler(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    run = Tcprobe(tmp_path, STEPS.format(steps=100, seconds=0.01), "--profiler", "dlprof")
    run.until("loss: 0.100")
    dlprof = next(p for p in run.processes() if b"--output_path" in Path(f"/proc/{p}/cmdline").read_bytes())
    os.kill(dlprof, signal.SIGKILL)
    assert run.wait() == 2
    assert "dlprof has ended and the workload goes on; waiting for it to end" in run.printed
    assert "DLProf was interrupted and wrote nothing" in run.printed
    found = left(run.folder())
    assert found.record["profiler_exit_code"] == 137
    check_kept(found, fault.kept, 100)


@pytest.mark.parametrize("fault", cases("test_killed.test_a_profiler_killed_after_the_workload"))
def test_a_profiler_killed_after_the_workload(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_DLPROF_MOOD", "slow-postprocess")
    monkeypatch.setenv("FAKE_DLPROF_SECONDS", "30")
    run = Tcprobe(tmp_path, STEPS.format(steps=20, seconds=0.001), "--profiler", "dlprof")
    run.until("DLprof completed system call successfully")
    (dlprof,) = run.processes()
    os.kill(dlprof, signal.SIGKILL)
    assert run.wait() == 2
    assert "goes on" not in run.printed
    assert "DLProf was interrupted and wrote nothing" in run.printed
    check_kept(left(run.folder()), fault.kept, 20)
