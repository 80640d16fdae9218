"""What each rank of a job starts: folders of its own, and the others plain. srun by its variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

SHOW = "import json, os, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder, whose command shows where it is told to write; its workload shows its words."""
    home = tmp_path / "100% run"
    (home / "probe").mkdir(parents=True)
    (home / "raw" / "nsys").mkdir(parents=True)
    script = tmp_path / "work.py"
    script.write_text(SHOW)
    orders = {
        "out": f"{home}/probe",
        "raw": f"{home}/raw",
        "target": ["script", str(script)],
        "argv": ["--token", "***"],
    }
    (home / "probe/config.json").write_text(json.dumps({**orders, "argv": ["--token", "***"], "masked": [1]}))
    (home / "probe/words.json").write_text(json.dumps({"argv": ["--token", "real"], "secrets": ["real"]}))
    return home


def start(home: Path, ranks: list[int] | None = None, **variables: str) -> Any:
    double = str(home).replace("%", "%%")
    words = [f"--output={double}/raw/nsys/report-%h", f"{home}/probe/src/x", f"{home}/probe/config.json"]
    command = [sys.executable, "-c", SHOW, *words]
    orders = {"folder": str(home), "command": command, "python": sys.executable, "ranks": ranks}
    (home / "probe/launch.json").write_text(json.dumps(orders))
    here = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    argv = [sys.executable, str(ROOT / "tcprobe/probe"), str(home / "probe/launch.json")]
    done = subprocess.run(argv, env={**here, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_rank_has_a_folder_and_no_two_the_same(folder: Path) -> None:
    place = folder / "ranks" / "rank-3"
    assert start(folder, SLURM_PROCID="3", SLURM_NTASKS="4") == [
        f"--output={str(place).replace('%', '%%')}/raw/nsys/report-%h",
        f"{folder}/probe/src/x",
        f"{place}/probe/config.json",
    ]
    orders = json.loads((place / "probe/config.json").read_text())
    assert (orders["out"], orders["raw"]) == (f"{place}/probe", f"{place}/raw")
    assert orders["words"] == f"{folder}/probe/words.json" and (place / "raw/nsys").is_dir()
    start(folder, OMPI_COMM_WORLD_RANK="3")
    assert sorted(p.name.split("-")[1] for p in (folder / "ranks").iterdir()) == ["3", "3"]


def test_others_run_plain_with_their_own_words(folder: Path) -> None:
    assert start(folder, [0, 7], PMI_RANK="1") == ["--token", "real"]
    assert not (folder / "ranks").exists()
    assert start(folder, [0, 7], PMI_RANK="7")[2].endswith("/ranks/rank-7/probe/config.json")


def test_a_process_that_is_no_rank_keeps_the_folder(folder: Path) -> None:
    assert start(folder)[2] == f"{folder}/probe/config.json"
