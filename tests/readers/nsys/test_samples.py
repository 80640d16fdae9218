"""Recordings of real GPUs: the reader's tables against SQL that knows nothing of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tcprobe.readers.nsys import columns, database
from tcprobe.schema.columns import Names
from tcprobe.schema.profile import Profile
from tests.support import shared

KERNELS = "SELECT count(*), sum([end] - start), count(DISTINCT deviceId) FROM CUPTI_ACTIVITY_KIND_KERNEL"
LAUNCHED = (
    "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN (SELECT DISTINCT correlationId AS c, globalTid & ~0xFFFFFF "
    "AS p FROM CUPTI_ACTIVITY_KIND_RUNTIME) r ON r.c = k.correlationId AND r.p = k.globalPid"
)
BY_NAME = (
    "SELECT s.value, sum([end] - start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = demangledName "
    "GROUP BY 1"
)
SAMPLES = (
    *("h100x2_fp32_ffma_nsys2026", "h100x2_bf16_before_nsys2026", "h100x2_bf16_after_nsys2026"),
    *("titanrtx_fp16_inference_nsys2022", "rtx3090_tensorrt_nsys2023.1", "rtx3090_tensorrt_nsys2023.4"),
    *("v100_mpi_rank1", "v100_mpi_rank6"),
)


def sample(name: str) -> Path:
    return shared(f"samples/nsys/{name}.sqlite")


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("name", SAMPLES)
def test_kernels_and_their_launches_are_those_of_plain_sql(name: str) -> None:
    path = sample(name)
    launches = database.read([path]).require("launches")
    spent = launches.numbers("duration_ns")
    assert ask(path, KERNELS) == [(len(launches), int(spent.sum()), len(np.unique(launches.numbers("device"))))]
    assert ask(path, LAUNCHED) == [(int((~np.isnan(launches.numbers("launch_ns"))).sum()),)]
    kernels = launches.names("kernel")
    sums = np.bincount(kernels.ids, weights=spent, minlength=len(kernels.names))
    assert dict(ask(path, BY_NAME)) == {n: int(s) for n, s in zip(kernels.names, sums, strict=True) if s}


@pytest.mark.parametrize(("name", "rank"), [("v100_mpi_rank1", 3), ("v100_mpi_rank6", 6)])
def test_the_rank_is_told(name: str, rank: int) -> None:
    assert database.read([sample(name)]).metadata.rank == rank


def test_ranges_kept_are_those_in_which_something_was_launched() -> None:
    path = sample("h100x2_fp32_ffma_nsys2026")
    table = database.read([path]).require("ranges")
    used = "SELECT correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_"
    query = (
        f"WITH used AS ({used}KERNEL UNION {used}MEMCPY UNION {used}MEMSET), calls AS MATERIALIZED "
        "(SELECT r.start AS at, r.globalTid AS tid FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN used u "
        "ON u.correlationId = r.correlationId AND u.globalPid = (r.globalTid & ~0xFFFFFF)) "
        "SELECT count(*), sum([end] - start) FROM NVTX_EVENTS n "
        "WHERE EXISTS (SELECT 1 FROM calls WHERE tid = n.globalTid AND at BETWEEN n.start AND n.[end])"
    )
    assert ask(path, query) == [(len(table), int(table.numbers("duration_ns").sum()))]


def alike(one: Profile, other: Profile) -> bool:
    """Say whether two profiles have the same tables, row by row."""
    assert one.tables.keys() == other.tables.keys() and one.metadata == other.metadata
    for name, table in one.tables.items():
        for column, data in table.columns.items():
            others = other.tables[name].columns[column]
            if isinstance(data, Names):
                assert isinstance(others, Names) and data.names == others.names
                data, others = data.ids, others.ids
            np.testing.assert_array_equal(data, others)
    return True


@pytest.mark.parametrize("name", SAMPLES)
def test_arrays_of_the_fast_driver_are_those_of_sqlite3(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adbc_driver_sqlite", reason="the extra [fast] is not installed")
    pytest.importorskip("nanoarrow", reason="the extra [fast] is not installed")
    path, by_arrow, used = sample(name), columns._by_arrow, []
    monkeypatch.setattr(columns, "_by_arrow", lambda *given: used.append(by_arrow(*given)) or used[-1])
    fast = database.read([path])
    monkeypatch.setattr(columns, "_by_arrow", lambda *_: None)
    assert alike(fast, database.read([path]))
    assert used and all(found is not None for found in used)
