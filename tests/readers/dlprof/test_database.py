"""DLProf's own database: the rows of its reports, a failed measurement, the recording beside one that is not whole."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, InputError, UsageError
from tcprobe.readers.dlprof import database
from tcprobe.readers.dlprof.dldb import NEEDED
from tcprobe.readers.dlprof.reader import CSV
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.fuzz.mutate.chance import Chance
from tests.fuzz.mutate.database import mutated
from tests.support import shared

REAL = "samples/dlprof/pytorch_1.8"
_OP = ("MATMUL_1", "MatMul", "fprop", "float32", "N,K;M,K", "N,M")
TEXTS = ("", *_OP, "[[64,63],[32,63],[]]\n", "[[64,32]]\n", "gemm", "sm80_xmma_gemm", "[[16,63],[32,63]]")
ROWS: dict[str, list[tuple[object, ...]]] = {
    "dictionary": list(enumerate(TEXTS)),
    "model_summary": [(1, 1, 9000, 75.0, 50.0, 3, 0, 1, 2, 3, 3), (2, 1, 5000, 75.0, 50.125, 3, 1, 1, 2, 3, 3)],
    "category_summary": [(1, 500, 60, 1), (2, 300, 40, 1), (3, 200, 20, 1), (4, 44, 6, 1)],
    "kernel_summary_metrics": [(2, 1, 1, 2, 3)],
    "memory_summary_metrics": [(2, 1, 4)],
    "metric": [(1, 3, 500, 100, 300), (2, 2, 50, 20, 30)],
    "node_time_metrics": [(1, 2, 1, 2, 2)],
    "read_only_ops": [(7, "dense/MatMul", "", *range(1, 7))],
    "read_only_op_instances": [(1, 7, 0, 50, 7, 8), (2, 7, 60, 90, 11, 8)],
    "read_only_grid_block": [(1, 8, 4, 1), (2, 128, 1, 1)],
    "read_only_kernels": [
        (11, 7, 0, 9, 10, 1, 10, 20, 1000, 1300, 1, 2, 0),
        (12, 7, 1, 9, 9, 0, 70, 80, 2000, 2100, 2, 1, 1),
        (13, 7, 1, 9, 9, 0, 95, 99, 9000, 9100, 2, 1, 1),  # launched when the second call of its op was over
    ],
    "kernel_iteration_node": [(1, 1, 13, 0), (2, 1, 11, 1), (2, 1, 12, 2), (2, 1, 13, 2)],
    "kernel_summaries": [(2, 1, 7, 9, 1, 1)],
    "op_nodes": [(2, 7, 1, 2, 1, 1)],
    "op_type_metrics": [(2, 1, 2, 1, 1, 2)],
    "expert_systems_feedback": [(1, "old", "older"), (2, "it is slow", "be fast")],
    "read_only_gpu_infos": [(0, "NVIDIA A100"), (1, "NVIDIA A100")],
    "read_only_system_config": [("TensorFlow 2.6.2", "v1.8.0")],
}


def made(path: Path, *changes: str) -> Path:
    """Write the database of the rows above, changed by SQL; DLProf's own has more columns."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in NEEDED.items():
            connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", ROWS[table])
        for change in changes:
            connection.execute(change)
    return path


def recording(path: Path) -> Path:
    """Write what Nsight Systems exports of a range and nothing else."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid, domainId)")
        connection.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'step', 4, 0)")
    return path


def rows(profile: Profile, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in profile.require(table).rows())


def figures(profile: Profile) -> dict[str, object]:
    return {
        str(r["metric"]): r["text"] if r["value"] is None else r["value"] for r in profile.require("reported").rows()
    }


def test_the_newest_aggregation_is_read(tmp_path: Path) -> None:
    profile = open_profile(made(tmp_path / "dlprof_dldb.sqlite"))
    launches = profile.require("launches")
    assert launches.values("kernel") == ["sm80_xmma_gemm", "gemm", "gemm"]
    assert launches.values("device") == [0, 1, 1] and launches.values("iteration") == [1, 2, 2]
    assert launches.values("start_ns") == [1000, 2000, 9000] and launches.values("duration_ns") == [300, 100, 100]
    assert profile.require("launch_configs").values("grid") == ["8,4,1", "128,1,1"]
    details = profile.require("op_details")
    assert details.values("input_shapes") == ["[[64, 63], [32, 63], null]", "[[16, 63], [32, 63]]", None]
    assert set(details.values("op")) == {"dense/MatMul"}
    (op,) = profile.require("ops").rows()
    assert (op["calls"], op["sum_ns"], op["tc_ns"], op["union_ns"], op["tc_capable"]) == (2, 500, 300, 500, "yes")
    held = figures(profile)
    assert held["All Kernels / All kernels / GPU Time (ns)"] == 544  # with copies, as in the reports
    assert held["Summary Report / GPU Utilization %"] == 50.125
    assert held["Expert Systems Feedback"] == "it is slow -> be fast"
    assert [note.code for note in profile.metadata.notes] == ["dlprof-advice", "several-aggregations"]
    assert (profile.metadata.profiler, profile.metadata.framework) == ("DLProf 1.8.0", "TensorFlow 2.6.2")
    assert [row["name"] for row in profile.require("devices").rows()] == ["NVIDIA A100"] * 2


def test_the_real_one_has_the_rows_of_the_reports_beside_it() -> None:
    folder = shared(REAL)
    theirs, ours = CSV.read(CSV.finds(folder)), database.read([folder / "dlprof_dldb.sqlite"])
    assert theirs.tables.keys() == ours.tables.keys() and theirs.absent == ours.absent
    for table in theirs.tables.keys() - {"reported"}:
        assert rows(theirs, table) == rows(ours, table), table
    printed, held = figures(theirs), figures(ours)
    left = {name for name in printed if name.startswith(("Tensor Core Report", "Group Op Report"))}
    assert held.keys() == printed.keys() - left and len(held) == 100
    for name in held.keys() - {"Expert Systems Feedback"}:
        near = isinstance(value := held[name], float) and "%" in name
        assert printed[name] == (pytest.approx(value, abs=0.05) if near else value), name


def test_no_kernel_is_a_failed_measurement(tmp_path: Path) -> None:
    nothing = [f"DELETE FROM {t}" for t in ("kernel_iteration_node", "kernel_summaries", "read_only_kernels")]
    path = made(tmp_path / "x.sqlite", *nothing, "UPDATE category_summary SET gpu_time = 0")
    with pytest.raises(EmptyInput, match="captured no GPU kernel: Tensor Core use was not measured") as raised:
        open_profile(path)
    assert raised.value.exit_code == 2 and "run it again" in (raised.value.hint or "")


def test_reports_beside_it_are_read_instead(tmp_path: Path) -> None:
    made(tmp_path / "dlprof_dldb.sqlite")
    assert database.finds(tmp_path) == [tmp_path / "dlprof_dldb.sqlite"]
    (tmp_path / "dlprof_kernel.csv").write_text("Kernel Report\nKernel Name,Total GPU Time (ns)\n", encoding="utf-8")
    assert database.finds(tmp_path) == []


def test_several_are_refused_with_their_list(tmp_path: Path) -> None:
    for name in ("dlprof_dldb.sqlite", "dlprof_dldb_1.sqlite"):
        made(tmp_path / name)
    with pytest.raises(UsageError, match=r"dlprof_dldb(_1)?\.sqlite, dlprof_dldb"):
        open_profile(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, "is empty"),
        (("DELETE FROM model_summary",), "did not end writing it"),
        (("DROP TABLE model_summary",), "no version of DLProf that is known"),
    ],
)
def test_the_recording_beside_one_that_is_not_whole_is_read(
    tmp_path: Path, changes: tuple[str, ...] | None, said: str
) -> None:
    path = tmp_path / "dlprof_dldb.sqlite"
    made(path, *changes) if changes else path.touch()
    recording(tmp_path / "nsys_profile.sqlite")
    profile = open_profile(tmp_path)
    assert (profile.metadata.format, profile.metadata.sources[0].format) == ("nsys", "nsys")
    note = next(n for n in profile.metadata.notes if n.code == "dlprof-rescued")
    assert "dlprof_dldb.sqlite: " in note.message and "nsys_profile.sqlite was read" in note.message
    assert said in note.message and ("did not end" in note.message) == (said == "did not end writing it")
    if changes:
        with pytest.raises(InputError, match=said):
            open_profile(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE read_only_kernels SET gpu_stop = 5", "ends before it begins"),
        ("UPDATE read_only_kernels SET name_id = 99", "rows of the table dictionary are missing"),
        ("UPDATE read_only_kernels SET device_id = -1", "column device_id of the table read_only_kernels"),
        ("UPDATE read_only_kernels SET device_id = 'x'", "no whole number"),
        ("UPDATE read_only_kernels SET device_id = NULL", "column device_id"),
        ("UPDATE model_summary SET wall_time = 'x'", "where a number was expected"),
        ("DROP TABLE op_nodes", "lacks the table op_nodes"),
        ("ALTER TABLE metric RENAME COLUMN max TO most", "lacks the table metric, or a column of it"),
    ],
)
def test_what_is_damaged_is_one_line(tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        open_profile(made(tmp_path / "d.sqlite", change))
    assert "\n" not in raised.value.message and "dlprof --database" in (raised.value.hint or "")


def test_changed_bytes_are_read_or_refused(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "dlprof_dldb.sqlite"
    for seed in range(10):  # as many as a second allows
        chance = Chance(str(seed))
        path.write_bytes(whole[: chance.randrange(len(whole))] if seed % 5 == 0 else mutated(whole, chance))
        try:
            profile = database.read([path])
        except InputError as error:
            assert str(path) in error.message and "\n" not in error.message
        else:
            assert (profile.require("launches").numbers("duration_ns") >= 0).all()
