"""The ranks of one job in a folder: each names its rank, by its record or its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tcprobe.readers.open import find_job


def run(folder: Path, rank: int | None) -> None:
    (folder / "probe").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"tcprobe": "1", "rank": rank}))


def test_run_folders_by_their_records(tmp_path: Path) -> None:
    for name, rank in (("b", 0), ("a", 10), ("c", 2)):
        run(tmp_path / name, rank)
    job = find_job(tmp_path)
    assert job is not None and job.notes == ()
    assert [(file.path.name, file.rank) for file in job.files] == [("b", 0), ("c", 2), ("a", 10)]
    run(tmp_path / "other", None)
    job = find_job(tmp_path)
    assert job is not None and len(job.files) == 3
    assert [note.message.rpartition(": ")[2] for note in job.notes] == ["other"]


def test_ranks_within_a_run_folder(tmp_path: Path) -> None:
    run(tmp_path / "r", None)
    assert find_job(tmp_path / "r") is None
    for rank in (0, 1):
        run(tmp_path / "r" / "ranks" / f"rank-{rank}", rank)
    job = find_job(tmp_path / "r")
    assert job is not None and [file.rank for file in job.files] == [0, 1]


@pytest.mark.parametrize("ranks", [(0, 0), (0, 1, 1), (0, None), (None, None), (0, 1, None, None)])
def test_what_is_no_job(ranks: tuple[int | None, ...], tmp_path: Path) -> None:
    """Two of one number are of two jobs; files without any are runs of their own."""
    for at, rank in enumerate(ranks):
        run(tmp_path / f"run{at}", rank)
    assert find_job(tmp_path) is None


def test_names_tell_where_nothing_else_does(tmp_path: Path) -> None:
    for rank in (0, 1, 12):
        (tmp_path / f"report-rank{rank}.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2022.4.2")
    job = find_job(tmp_path)
    assert job is not None and [file.rank for file in job.files] == [0, 1, 12]
    assert [note.code for note in job.notes] == ["ranks-by-name"]
