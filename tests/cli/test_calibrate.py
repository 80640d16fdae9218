"""`tcprobe calibrate` as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tcprobe.calibration.start import Device, MeasureResult
from tcprobe.cli.calibrate import _measured
from tcprobe.cost.measured import MEASUREMENT_COLUMNS
from tcprobe.flows.calibrate import MeasuredRun
from tests import warm
from tests.calibration.made import raw_csv
from tests.support import ROOT, needs_tensorflow


def command(*args: str | Path) -> list[str]:
    return [sys.executable, "-m", "tcprobe", "calibrate", *map(str, args)]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "80"}


def calibrate(folder: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm.tcprobe(), *command(*args)[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment(folder),
        timeout=280,
    )


def refused(folder: Path, *args: str | Path) -> str:
    """Return what a refusal says: one line and perhaps a hint, nothing on standard output."""
    done = calibrate(folder, *args)
    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert 1 <= len(lines) <= 2, done.stderr
    return done.stderr


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV all of whose lines are whole."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    found = list(csv.DictReader(text.splitlines()))
    assert all(
        set(row) == set(MEASUREMENT_COLUMNS) and None not in row.values() and float(row["time_ns"]) > 0 for row in found
    )
    return found


def test_from_a_file_to_a_calibration_that_is_used(tmp_path: Path) -> None:
    raw_csv(tmp_path / "raw.csv", levels=3)
    done = calibrate(tmp_path, "--from", "raw.csv")
    assert (done.returncode, done.stderr) == (0, "")
    header, *kinds = done.stdout.split("\n\n")[0].strip().splitlines()
    assert header.split() == ["products", "not", "fitted", "number", "off", "by", "%", "shipped", "%"]
    own, shipped = (float(cell) for cell in kinds[-1].split()[-2:])
    assert kinds[-1].startswith("all") and own < 12 < 20 < shipped
    path = tmp_path / "config" / "tcprobe" / "calibration" / "h200-sxm.json"
    assert f"{path}: predictions for h200-sxm rest on it from now on" in done.stdout
    shown = calibrate(tmp_path, "--show")
    assert shown.returncode == 0
    titles, line = shown.stdout.splitlines()
    assert titles.split()[:2] == ["gpu", "date"]
    assert titles.split()[-3:] == ["stack", "measured", "through"]
    assert line.split()[0] == "h200-sxm" and line.split()[-2:] == ["unknown", "made"]
    assert f"{own:.1f}" in line.split() and f"{shipped:.1f}" in line.split()
    assert "exists already" in refused(tmp_path, "--from", "raw.csv")
    assert calibrate(tmp_path, "--from", "raw.csv", "--force").returncode == 0


def test_the_stack_is_kept_and_named(tmp_path: Path) -> None:
    raw = raw_csv(tmp_path / "raw.csv", levels=1)
    raw.write_text(
        raw.read_text(encoding="utf-8").replace(",made\n", ',"PyTorch 2.13.0, CUDA 13.0"\n'), encoding="utf-8"
    )
    done = calibrate(tmp_path, "--from", "raw.csv")
    assert "rest on it from now on (PyTorch 2.13.0); remove it to go back" in done.stdout
    kept = json.loads((tmp_path / "config" / "tcprobe" / "calibration" / "h200-sxm.json").read_text(encoding="utf-8"))
    assert kept["stack"] == {"kind": "framework", "name": "PyTorch 2.13.0"}
    assert "  framework  PyTorch 2.13.0, CUDA 13.0" in calibrate(tmp_path, "--show").stdout
    (tmp_path / "model.py").write_text(
        "import keras\nkeras.Sequential([keras.Input((512,)), keras.layers.Dense(4090), keras.layers.Dense(8)])\n",
        encoding="utf-8",
    )
    audit = [warm.tcprobe(), "-m", "tcprobe", "audit-shapes", "--mode", "source", "--target-gpu", "h200", "model.py"]
    said = subprocess.run(audit, capture_output=True, text=True, cwd=tmp_path, env=environment(tmp_path), check=False)
    text = " ".join(said.stdout.split())
    assert "Calibrated for H200 SXM" in text
    assert "It rests on measurements of an H200 SXM" in text


def test_show_without_any_and_with_a_damaged_one(tmp_path: Path) -> None:
    done = calibrate(tmp_path, "--show")
    assert (done.returncode, done.stdout, done.stderr) == (0, "no GPU is calibrated\n", "")
    assert "--show stands alone" in refused(tmp_path, "--show", "--force")
    path = tmp_path / "config" / "tcprobe" / "calibration" / "t4.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"format": "tcprobe-calibration", "version": 1}', encoding="utf-8")
    assert "t4.json: damaged calibration file" in refused(tmp_path, "--show")


def test_files_that_cannot_be_fitted(tmp_path: Path) -> None:
    assert "none.csv: no such file" in refused(tmp_path, "--from", "none.csv")
    raw_csv(tmp_path / "raw.csv", levels=1)
    text = (tmp_path / "raw.csv").read_text(encoding="utf-8").splitlines()
    text[7] = text[7].replace(",made", ",made").replace("cublas12", "cublas99")
    (tmp_path / "raw.csv").write_text("\n".join(text), encoding="utf-8")
    assert "raw.csv: line 8: column 'library' is 'cublas99'" in refused(tmp_path, "--from", "raw.csv")
    (tmp_path / "raw.csv").write_text("m,n,k\n1,2,3\n", encoding="utf-8")
    assert "line 1: no column 'gpu'" in refused(tmp_path, "--from", "raw.csv")
    assert not (tmp_path / "config").exists()


def test_an_interpreter_without_a_framework(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    missing = "TensorFlow is not installed; PyTorch is not installed; JAX is not installed"
    said = refused(tmp_path, "--python", bare)
    assert f"no GPU to measure on: {missing}" in said and "--dry-run" in said
    assert f"nothing to measure through: {missing}" in refused(tmp_path, "--python", bare, "--dry-run")
    assert "does not start" in refused(tmp_path, "--python", tmp_path / "none")


@pytest.mark.tensorflow
@needs_tensorflow
def test_without_a_gpu_it_names_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    said = refused(tmp_path, "--python", warm.python(), "--framework", "tensorflow", "-o", "raw.csv")
    assert "no GPU to measure on: TensorFlow sees no GPU" in said and "--dry-run" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.tensorflow
@needs_tensorflow
def test_a_dry_run_measures_for_real(tmp_path: Path) -> None:
    options = ("--python", warm.python(), "--dry-run", "--framework", "tensorflow")
    done = calibrate(tmp_path, *options, "-o", "raw.csv")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("tcprobe: measuring through TensorFlow ")
    assert "CPU: 30 products measured in " in done.stdout
    assert "nothing was fitted: a CPU's times are not a GPU's" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["raw.csv"]
    found = rows(tmp_path / "raw.csv")
    assert len(found) == 30
    assert {row["gpu"] for row in found} == {"cpu"}
    assert {row["dtype"] for row in found} == {"float32", "float16", "bfloat16"}
    assert {row["pass"] for row in found} == {"forward", "dgrad", "wgrad"}
    assert "times of a CPU" in refused(tmp_path, "--from", "raw.csv")
    assert "raw.csv: exists already" in refused(tmp_path, "--dry-run", "-o", "raw.csv")


@pytest.mark.tensorflow
@needs_tensorflow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_killed_in_the_middle_it_leaves_whole_rows(tmp_path: Path, how: signal.Signals) -> None:
    part = tmp_path / "raw.csv.part"
    # an orphan knows itself by its parent, which is the server where TensorFlow is imported already
    python = sys.executable if how == signal.SIGKILL else warm.python()
    args = command("--python", python, "--dry-run", "--framework", "tensorflow", "-o", "raw.csv")
    with subprocess.Popen(
        args, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        end = time.monotonic() + 200
        while not (part.is_file() and part.read_text(encoding="utf-8").count("\n") >= 4):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.02)
        process.send_signal(how)
        process.wait(60)
    before = -1
    while before != part.stat().st_size:  # what it started ends after the product at hand
        before = part.stat().st_size
        time.sleep(2)
    assert 3 <= len(rows(part)) < 30
    assert not (tmp_path / "raw.csv").exists()


def test_what_was_left_says_why() -> None:
    device = Device("torch", "PyTorch 2.13.0", "NVIDIA H200", (9, 0), None, None, "13.0", None)
    done = MeasureResult(3, 2, {"float16: an illegal memory access": 1}, 4)
    first, second = _measured(MeasuredRun(device, done, 1.0, (), None))
    assert first.endswith("3 products measured in 1 s, 2 left for want of time, 4 left since the device failed")
    assert second == "1 could not be computed: float16: an illegal memory access"
