"""Who may read a run folder: its owner alone whatever the umask, others where it is shared, and nobody may write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

WORKLOAD = """
import json, pathlib
import tcprobe
for number in range(5):
    with tcprobe.step():
        pass
    print("loss:", number)
pathlib.Path("checkpoint").touch()
home = next(pathlib.Path().glob(".partial-*"))
modes = {str(path): path.stat().st_mode & 0o777 for path in [home, *home.rglob("*")]}
pathlib.Path("during.json").write_text(json.dumps(modes))
"""
PROFILERS = [
    "tensorflow",
    pytest.param("nsys", marks=pytest.mark.nsys),
]


def _profile(work: Path, umask: int, *options: str) -> None:
    (work / "t.py").write_text(WORKLOAD)
    command = [sys.executable, "-m", "tcprobe", "profile", "--python", sys.executable, "--output", "run", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "t.py"], cwd=work, umask=umask, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list((work / "run/tables").glob("*.csv"))


def _modes(folder: Path) -> tuple[set[int], set[int]]:
    """Return the modes of the folders and of the files."""
    paths = [folder, *folder.rglob("*")]
    folders, files = ({p.stat().st_mode & 0o777 for p in paths if p.is_dir() == of} for of in (True, False))
    return folders, files


@pytest.mark.parametrize("profiler", PROFILERS)
@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_a_run_is_its_owners_alone_from_the_first_moment(profiler: str, umask: int, tmp_path: Path) -> None:
    _profile(tmp_path, umask, "--profiler", profiler)
    during = json.loads((tmp_path / "during.json").read_text())
    assert any(path.endswith("steps.csv") for path in during)
    assert not {path: oct(mode) for path, mode in during.items() if mode & 0o077}
    assert _modes(tmp_path / "run") == ({0o700}, {0o600})
    assert (tmp_path / "checkpoint").stat().st_mode & 0o777 == 0o666 & ~umask  # what the workload makes is its own


@pytest.mark.parametrize(("umask", "folders", "files"), [(0o000, 0o755, 0o644), (0o027, 0o750, 0o640)])
def test_a_shared_run_can_be_read_as_far_as_the_umask_lets_it(
    umask: int, folders: int, files: int, tmp_path: Path
) -> None:
    _profile(tmp_path, umask, "--share")
    assert _modes(tmp_path / "run") == ({folders}, {files})


def test_a_run_that_replaces_another_is_as_private(tmp_path: Path) -> None:
    _profile(tmp_path, 0o022, "--share")
    _profile(tmp_path, 0o022, "--force")
    assert _modes(tmp_path / "run") == ({0o700}, {0o600})
