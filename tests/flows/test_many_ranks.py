"""Ranks read by processes, and on a Dask cluster: the same figures as one process that reads all."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tcprobe.analysis.context import Options
from tcprobe.errors import ToolError, UsageError
from tcprobe.flows import job as ranks
from tcprobe.flows.report import analysed, make_report
from tcprobe.readers.open import find_job
from tcprobe.report.run.advice import with_texts
from tcprobe.schema.profile import Profile
from tests.readers.nsys.made import Made

MANY = 12
DAMAGED = 7


def write_rank(folder: Path, rank: int) -> None:
    """Three products, and a barrier after each, to which a rank comes later the higher its number modulo 5 is."""
    made = Made(inline=False)
    made.gpu(0, "Tesla V100-SXM2-16GB", smCount=80, computeMajor=7, computeMinor=0, cuDevice=0)
    made.thread(f"MPI Rank {rank}")
    behind, late = 1_000_000 * rank, 1000 * (rank % 5)
    for n in range(3):
        at = behind + 1_000_000 * n
        made.launch("volta_h884gemm_128x64_ldg8_nn", at, at + 10_000, at + 500_000 + late)
        made.range("MPI_Barrier", at + 510_000 + late, at + 520_000 + 3 * rank % 7)
    made.write(folder / f"r{rank}.sqlite")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    for rank in range(MANY):
        write_rank(folder, rank)
    path = folder / f"r{DAMAGED}.sqlite"
    path.write_bytes(path.read_bytes()[:-5000])
    return folder


@pytest.fixture(scope="module")
def alone(job: Path) -> Profile:
    """The report of one process that reads all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "MANY", MANY + 1)
        return make_report(job)


def same(made: Profile, other: Profile) -> bool:
    tables = {name: list(table.rows()) for name, table in made.tables.items()}
    return tables == {name: list(table.rows()) for name, table in other.tables.items()} and (
        made.metadata,
        made.screen,
    ) == (other.metadata, other.screen)


def test_one_process_reads_all_but_the_damaged_one(alone: Profile) -> None:
    rows = list(alone.require("ranks").rows())
    assert [row["state"] for row in rows].count("read") == MANY - 1
    assert {row["source"].endswith(f"r{DAMAGED}.sqlite") for row in rows if row["state"] == "unreadable"} == {True}
    assert alone.value("kernels") == 3.0 * (MANY - 1)
    late = [row for row in rows if row["state"] == "read" and row["rank"] % 5 == 4]
    assert all(float(row["waited_ns"] or 0) < 25 for row in late)  # their ends are up to 6 ns off
    first = next(row for row in rows if row["rank"] == 0)
    assert (first["collectives"], first["collective_ns"]) == (3, 30_000.0)
    assert first["waited_ns"] == pytest.approx(12_000.0, abs=25)


def test_processes_give_the_same(job: Path, alone: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MANY", MANY)
    monkeypatch.setattr(ranks, "CHUNK", 8)
    monkeypatch.setattr(ranks.os, "sched_getaffinity", lambda _: {0, 1})
    assert same(make_report(job), alone)


def test_a_process_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks.sys, "executable", "/bin/false")
    with pytest.raises(ToolError, match="a process that read 0 ranks ended with 1"):
        ranks._in_process(((), ()), Any)  # type: ignore[arg-type]


@contextmanager
def workers() -> Iterator[str]:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask (distributed) is not installed")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as made:
        yield made.scheduler_address


@pytest.mark.filterwarnings("ignore")
def test_dask_gives_the_same(job: Path, alone: Profile) -> None:
    with workers() as address:
        assert same(make_report(job, scheduler=address), alone)


def test_what_no_scheduler_helps(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--scheduler reads the ranks of a job"):
        make_report(tmp_path, scheduler="tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="--scheduler needs Dask") as lacking:
        make_report(job, scheduler="tcp://127.0.0.1:9")
    assert lacking.value.hint == "pip install 'tcprobe[dask]'"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://x", ""])
def test_no_scheduler_answers(job: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask (distributed) is not installed")
    monkeypatch.setattr(ranks, "ANSWER_SECONDS", 0.2)
    with pytest.raises(UsageError, match="no scheduler of Dask answers there"):
        make_report(job, scheduler=address)


def dying_once(marker: Path, path: Path, options: Options) -> Profile:
    """Analyse a rank; the first worker that does dies of it, as of a machine that goes."""
    with suppress(FileExistsError):
        marker.touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return analysed(path, options)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_changes_nothing(job: Path, alone: Profile, tmp_path: Path) -> None:
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask (distributed) is not installed")
    from distributed import LocalCluster

    files = find_job(job)
    assert files is not None
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made:
        analyse = partial(dying_once, tmp_path / "died")
        found = ranks.report_job(job, files, Options(), analyse, made.scheduler_address)
    assert (tmp_path / "died").exists()
    assert same(with_texts(found), alone)
