"""`tcprobe profile --profiler dlprof` as a user types it, against the fake."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.support import ROOT

FAKE = ROOT / "tests/fixtures/fake_dlprof"


def tcprobe(
    work: Path, *words: str, script: str = "print('0.5 img/s')\n", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in `work`, the fake first on PATH."""
    path = f"{FAKE}{os.pathsep}{os.environ['PATH']}"
    (work / "train.py").write_text(script)
    return subprocess.run(
        [warm.tcprobe(), "-m", "tcprobe", "profile", "--profiler", "dlprof", *words, "train.py"],
        cwd=work,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def run_folders(work: Path) -> list[Path]:
    return sorted((work / "tcprobe-runs").glob("*")) if (work / "tcprobe-runs").exists() else []


@pytest.mark.parametrize("build", ["tf1-0.13", "tf2-1.2", "tf2-1.8"])
def test_it_ends_in_the_same_report(build: str, tmp_path: Path) -> None:
    key = ["--key-node", "ASSIGNADDVARIABLEOP_1", "--iter-start", "2", "--iter-stop", "6"]
    done = tcprobe(tmp_path, *key, FAKE_DLPROF_BUILD=build)
    assert done.returncode == 0, done.stderr
    # 80 of the 167 us of a step are on Tensor Cores
    assert "TC share of kernel time 47.9 %" in " ".join(done.stdout.split())
    assert "steps 2 to 6: 5 of 5 counted (given)" in done.stdout
    (folder,) = run_folders(tmp_path)
    assert {"dlprof_summary.csv", "dlprof_iteration.csv"} <= {p.name for p in (folder / "raw/dlprof").iterdir()}
    assert json.loads((folder / "run.json").read_text())["profiler"]["name"] == "dlprof"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tcprobe-runs", "train.py"]  # nothing is left lying about


def test_nothing_captured_is_a_failed_measurement(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, FAKE_DLPROF_MOOD="zero-kernels")
    assert done.returncode == 2
    assert "DLProf captured no GPU kernel" in done.stderr and "Traceback" not in done.stderr
    assert len(run_folders(tmp_path)) == 1


def test_another_vendors_dlprof_starts_nothing(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, FAKE_DLPROF_MOOD="foreign-vendor")
    assert done.returncode == 2 and "is not NVIDIA's DLProf" in done.stderr
    assert "img/s" not in done.stdout
    assert run_folders(tmp_path) == []


def test_dlprofs_own_exit_code_is_not_the_workloads(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, FAKE_DLPROF_MOOD="nonzero-exit")
    assert done.returncode == 0
    assert "TC share of kernel time" in done.stdout
    assert "dlprof ended with exit code 5, though it wrote reports: the workload itself ended with 0" in done.stdout
    assert "PARTIAL" not in done.stdout


def test_failed_post_processing_is_no_failure_of_the_workload(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, FAKE_DLPROF_MOOD="post-processing-fails")
    assert done.returncode == 2
    assert "Nsight Systems recorded the run and DLProf wrote no report from it (exit code 1)" in done.stderr
    assert "the workload failed" not in done.stderr + done.stdout
    (folder,) = run_folders(tmp_path)
    record = json.loads((folder / "run.json").read_text())
    assert (record["exit_code"], record["profiler_exit_code"], record["partial"]) == (0, 1, False)


def test_an_unknown_ending_is_said_to_be_unknown(tmp_path: Path) -> None:
    killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = tcprobe(tmp_path, script=killed)
    assert done.returncode == 2  # DLProf's own code, 137 or 247, is not the workload's
    (folder,) = run_folders(tmp_path)
    assert json.loads((folder / "run.json").read_text())["exit_code"] is None
    assert "whether the workload failed is not known" in done.stdout


def test_the_words_of_dlprof_reach_it(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "--delay", "1.5", "--dlprof-args", "--verbosity=quiet --nsys_opts '-t cuda,nvtx'")
    assert done.returncode == 0, done.stderr
    refused = tcprobe(tmp_path, "--dlprof-args", "--output_path=x")
    assert refused.returncode == 2
    assert "--output_path is tcprobe's to set: its reports must lie in the run folder" in refused.stderr
    assert len(run_folders(tmp_path)) == 1
