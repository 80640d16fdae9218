"""Each framework computes what its row says, and the dry run measures it; those not installed are skipped.

``CALIBRATE_TORCH`` and ``CALIBRATE_JAX`` may name an interpreter that has them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tcprobe.calibration import measure as package
from tcprobe.calibration.files import read_raw
from tcprobe.calibration.plan import dry_cases
from tcprobe.calibration.start import FRAMEWORKS, Device, ask_device, measure_cases
from tcprobe.cost.measured import csv_of
from tcprobe.errors import MeasurementFailed, ToolError
from tests import warm

DRIVER = Path(__file__).parent / "backend_driver.py"
pytestmark = pytest.mark.tensorflow


@pytest.fixture(params=list(FRAMEWORKS))
def framework(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return a framework and an interpreter that has it."""
    name = request.param
    given = os.environ.get(f"CALIBRATE_{name.upper()}")
    if given is None and importlib.util.find_spec(name) is None:
        pytest.skip(f"{FRAMEWORKS[name]} is not installed")
    return name, given or (warm.python() if name == "tensorflow" else sys.executable)


def test_it_computes_what_the_row_says(framework: tuple[str, str]) -> None:
    name, python = framework
    command = [python, str(DRIVER), str(Path(package.__file__).parent), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


def test_it_measures_a_dry_run(framework: tuple[str, str], tmp_path: Path) -> None:
    name, python = framework
    device = ask_device(python, name, "cpu")
    assert isinstance(device, Device)
    assert device.gpu is None
    assert device.text.startswith(FRAMEWORKS[name])
    assert device.text.endswith(", CPU")
    path = tmp_path / "raw.csv"
    path.write_text(csv_of([]), encoding="utf-8")
    cases = [case for case in dry_cases() if case.dtype != "bfloat16"][:8]
    done = measure_cases(python, (name, "cpu"), cases, path, 200.0, device.text)
    assert (done.measured, done.left, done.failed) == (8, 0, {})
    rows = read_raw(path)
    assert [(row.record.dtype, row.source) for row in rows] == [(case.dtype, device.text) for case in cases]
    assert all(100 < row.time_ns < 1e9 for row in rows)


def test_no_gpu_is_said(framework: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    name, python = framework
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert ask_device(python, name, "gpu:0") == f"{FRAMEWORKS[name]} sees no GPU"


def test_interpreters_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="it does not start: No such file"):
        ask_device(str(tmp_path / "python"), "torch", "cpu")
    script = tmp_path / "broken"
    script.write_text("#!/bin/sh\necho out of luck >&2\nexit 7\n", encoding="utf-8")
    script.chmod(0o755)
    with pytest.raises(ToolError, match="through PyTorch exited with status 7: out of luck"):
        ask_device(str(script), "torch", "cpu")


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "slow"
    script.write_text("#!/bin/sh\nsleep 100\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr("tcprobe.calibration.start.ABOUT_S", 0.3)
    with pytest.raises(MeasurementFailed, match=r"JAX did not come to an end within 0\.3 s"):
        ask_device(str(script), "jax", "cpu")
