"""The package as a user gets it: a wheel, installed away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import tcprobe
from tests.support import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the checkout."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_what_runs(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"tcprobe/__main__.py", "tcprobe/gpus.csv", "tcprobe/cost/rates.json", "workloads/train_gan.py"} <= names
    assert {"tcprobe/probe/__main__.py", "tcprobe/op_types.json"} <= names
    assert {"tcprobe/report/html/page.css", "tcprobe/report/html/uplot/uPlot.iife.min.js"} <= names
    assert not [n for n in names if n.startswith(("tests/", "bench/")) or "__pycache__" in n]


@pytest.mark.tensorflow
def test_profile_train_gan_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{sysconfig.get_path('purelib')}"}
    done = subprocess.run(
        [sys.executable, "-m", "tcprobe", "profile", "train_gan", "--steps", "8", "--batch-size", "8"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where = subprocess.run(
        [sys.executable, "-c", "import tcprobe; print(tcprobe.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(site))
    assert "NOT MEASURED" in done.stdout
    assert next((tmp_path / "tcprobe-runs").glob("train_gan-*/tables/kernels.csv"), None) is None
    assert next((tmp_path / "tcprobe-runs").glob("train_gan-*/tables/bad_sizes.csv")).exists()


def test_the_version_is_one(wheel: Path) -> None:
    assert wheel.name.startswith(f"tcprobe-{tcprobe.__version__}-")
    done = subprocess.run([sys.executable, "-m", "tcprobe", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tcprobe {tcprobe.__version__}\n"


def test_the_package_lists_its_api() -> None:
    import tcprobe

    assert set(dir(tcprobe)) == set(tcprobe.__all__)
