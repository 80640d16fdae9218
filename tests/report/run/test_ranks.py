"""Reports of real jobs: five ranks of MPI with kernels, what lies beside them, and what is damaged."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.report import make_report
from tests.report.run.test_screen import compared
from tests.support import shared

RANKS = {1: 3, 2: 7, 3: 4, 4: 2, 6: 6}
"""The samples by the number in their name: the rank that each says it is."""
BEGAN = "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"
KERNELS = "SELECT sum([end] - start), count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def five(tmp_path: Path) -> Path:
    for name in RANKS:
        shutil.copyfile(shared(f"samples/nsys/v100_mpi_rank{name}.sqlite"), tmp_path / f"{name}.sqlite")
    return tmp_path


def test_five_ranks_are_one_report(five: Path, golden: Callable[[str, str], None]) -> None:
    made = make_report(five)
    compared(made.with_metadata(paths=("five",)), golden, "job/v100_mpi")
    found = {row["rank"]: row for row in made.require("ranks").rows()}
    assert [n for n, row in found.items() if row["state"] == "missing"] == [0, 1, 5]
    # what the recorder says of when each session began is another clock: it agrees to a microsecond
    began = {rank: _asked(five / f"{name}.sqlite", BEGAN)[0] for name, rank in RANKS.items()}
    for rank in RANKS.values():
        assert found[rank]["clock_offset_ns"] == pytest.approx(began[rank] - began[2], abs=1000), rank
        assert float(found[rank]["clock_residual_ns"] or 0) < 200
    assert {row["collectives"] for row in found.values()} == {None, 1002}  # 1,001 all-reduces and a barrier
    kernels = [_asked(five / f"{name}.sqlite", KERNELS) for name in RANKS]
    assert (made.value("kernel_time_ns"), made.value("kernels")) == tuple(map(sum, zip(*kernels, strict=True)))


def _asked(path: Path, query: str) -> tuple[int, ...]:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        return tuple(map(int, database.execute(query).fetchone()))


def test_a_foreign_and_a_damaged_file_cost_themselves(five: Path) -> None:
    shutil.copyfile(shared("samples/nsys/rtx3090_tensorrt_nsys2023.4.sqlite"), five / "other.sqlite")
    for name in (3, 4, 6):
        (five / f"{name}.sqlite").unlink()
    whole = shared("samples/nsys/v100_mpi_rank3.sqlite").read_bytes()
    (five / "3.sqlite").write_bytes(whole[: len(whole) // 2])
    made = make_report(five)
    said = {note.code: note.message for note in made.metadata.notes}
    assert said["not-of-the-job"].endswith("nothing tells which rank of the job it is: other.sqlite")
    assert said["rank-unreadable"].startswith(f"{five}/3.sqlite is left out")
    assert [row["rank"] for row in made.require("ranks").rows() if row["state"] == "read"] == [3, 7]


def test_files_of_many_runs_are_still_refused() -> None:
    with pytest.raises(UsageError, match=r"12 profiles that are no hosts of one run"):
        make_report(shared("samples/nsys"))
