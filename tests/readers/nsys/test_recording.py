"""Recordings of every schema, told event by event: kernels and their launches, GPUs, ranges, notes, how it was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, UsageError
from tcprobe.readers.nsys import database
from tcprobe.readers.nsys.database import REPORT
from tcprobe.schema.columns import Value
from tcprobe.schema.profile import Profile
from tests.readers.nsys.made import OTHER_PID, PID, PRODUCTS, Made, small


def read(made: Made, folder: Path, lazy: bool = True) -> Profile:
    return database.read(database.finds(made.write(folder / "a.sqlite", lazy)))


def values(profile: Profile, table: str, *columns: str) -> list[tuple[Value, ...]]:
    return list(zip(*(profile.require(table).values(column) for column in columns), strict=True))


def codes(profile: Profile) -> dict[str, str]:
    return {note.code: note.message for note in profile.metadata.notes}


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("version", PRODUCTS)
def test_every_schema_gives_the_same_tables(tmp_path: Path, version: str, lazy: bool, inline: bool) -> None:
    profile = read(small(version, inline), tmp_path, lazy)
    gemm, other = "nvjet_tst_128x128_64x6_2x1_v_bz_TNT", "vectorized_elementwise_kernel"
    assert profile.metadata.profiler == f"Nsight Systems {'.'.join(PRODUCTS[version].split('.')[:3])}"
    assert values(profile, "launches", "kernel", "start_ns", "duration_ns", "launch_ns", "thread", "cuda_graph") == [
        (gemm, 150_000, 300_000, 110_000, 0, None),
        (other, 450_000, 100_000, 210_000, 0, None),
        (gemm, 1_150_000, 300_000, 1_110_000, 0, None),
        (other, 1_450_000, 100_000, 1_210_000, 0, None),
    ]
    configs = list(profile.require("launch_configs").rows())
    of = profile.require("launches").numbers("config_id")
    assert [(configs[row]["grid"], configs[row]["block"]) for row in of[:2]] == [
        ("132,1,1", "1,1,1"),
        ("1,1,1", "128,1,1"),
    ]
    assert values(profile, "memory_ops", "kind", "size_bytes", "start_ns", "duration_ns", "launch_ns") == [
        ("MemcpyH2D", 4096, 40_000, 20_000, 20_000),
        ("MemcpyH2D", 4096, 1_040_000, 20_000, 1_020_000),
    ]
    assert values(profile, "ranges", "name", "start_ns", "duration_ns", "kind", "thread", "nests") == [
        ("ProfilerStep#0", 0, 900_000, "step", 0, True),
        ("aten::mm", 100_000, 100_000, "op", 0, True),
        ("ProfilerStep#1", 1_000_000, 900_000, "step", 0, True),
        ("aten::mm", 1_100_000, 100_000, "op", 0, True),
    ]
    assert values(profile, "devices", "device", "name", "compute_capability", "sm_count", "state") == [
        (0, "NVIDIA H100 80GB HBM3", "9.0", 132, "active")
    ]
    assert profile.metadata.notes == () and profile.metadata.gpu_used


def test_processes_with_the_same_correlation_ids_are_kept_apart(tmp_path: Path) -> None:
    made = Made()
    made.launch("a", 100, 1000, 1100, correlation=7)
    made.launch("b", 200, 1000, 1200, pid=OTHER_PID, correlation=7, deviceId=1)
    made.kernel("c", 2000, 2100, 8)
    profile = read(made, tmp_path)
    assert values(profile, "launches", "kernel", "launch_ns", "thread") == [
        ("a", 100, 0), ("b", 200, 1), ("c", None, None),
    ]  # fmt: skip
    assert values(profile, "threads", "thread", "process") == [(0, 0), (1, 1)]


def test_of_calls_with_one_correlation_id_the_first_counts(tmp_path: Path) -> None:
    made = Made()
    made.call(150, 160, 7, name="cuLaunchKernel")
    made.launch("a", 100, 1000, 1100, correlation=7)
    assert values(read(made, tmp_path), "launches", "launch_ns") == [(100,)]


def test_a_gpu_is_the_one_that_the_process_means_by_its_ordinal(tmp_path: Path) -> None:
    made = Made("3.24.14")
    made.gpu(2, "NVIDIA A100-SXM4-40GB", cuDevice=0)
    made.gpu(5, "NVIDIA A40", cuDevice=1)
    made.cuda_device(5, 0)
    made.cuda_device(2, 0, OTHER_PID)
    made.launch("a", 100, 1000, 1100)
    made.launch("b", 100, 1000, 1100, pid=OTHER_PID)
    profile = read(made, tmp_path)
    assert values(profile, "launches", "kernel", "device") == [("a", 5), ("b", 2)]
    assert values(profile, "devices", "device", "name") == [(2, "NVIDIA A100-SXM4-40GB"), (5, "NVIDIA A40")]
    assert "gpus-by-ordinal" not in codes(profile)


def test_processes_with_one_ordinal_and_nothing_to_tell_their_gpus_apart_are_noted(tmp_path: Path) -> None:
    made = Made("3.0.0")
    made.launch("a", 100, 1000, 1100)
    made.launch("b", 100, 1000, 1100, pid=OTHER_PID)
    profile = read(made, tmp_path)
    assert values(profile, "devices", "device", "name") == [(0, None)] and "gpus-by-ordinal" in codes(profile)


def test_kernels_in_cuda_graphs_share_the_launch_and_name_the_graph(tmp_path: Path) -> None:
    made = Made()
    number = made.launch("a", 100, 1000, 1100, graphNodeId=1 << 32, graphId=3)
    made.kernel("b", 1100, 1200, number, graphNodeId=(1 << 32) + 1, graphId=3)
    made.launch("c", 200, 1300, 1400)
    profile = read(made, tmp_path)
    assert values(profile, "launches", "launch_ns", "cuda_graph") == [(100, 3), (100, 3), (200, None)]
    assert "cuda-graphs" not in codes(profile)


def test_graphs_without_their_kernels_are_a_warning_and_an_error_where_nothing_else_ran(tmp_path: Path) -> None:
    made = Made()
    made.graph(3, 100, 200)
    profile = read(made, tmp_path)
    (note,) = (note for note in profile.metadata.notes if note.code == "cuda-graphs")
    assert note.level == "error" and "--cuda-graph-trace=node" in str(note.remedy) and profile.metadata.gpu_used


def test_ranges_that_hold_no_launch_are_left_out_unless_they_are_steps(tmp_path: Path) -> None:
    made = Made()
    made.range("ProfilerStep#0", 0, 1_000_000, tid=1)  # the launches are of another thread
    made.range("waits", 0, 1_000_000, tid=1)
    made.range("holds", 100, 200)
    made.range("before", 50, 99)
    made.range("touches", 50, 100)
    made.range("other process", 0, 1000, pid=OTHER_PID, tid=OTHER_PID)
    made.range("anywhere", 0, 1000, eventType=60, tid=5, endGlobalTid=None)
    made.launch("a", 100, 1000, 1100)
    profile = read(made, tmp_path)
    assert values(profile, "ranges", "name", "nests") == [
        ("ProfilerStep#0", True), ("holds", True), ("touches", True), ("anywhere", False),
    ]  # fmt: skip
    assert codes(profile)["ranges-left-out"].startswith("3 of 7 ")


def test_without_kernels_all_ranges_are_kept(tmp_path: Path) -> None:
    made = Made()
    made.range("a", 0, 10)
    made.range("b", 3, None)
    profile = read(made, tmp_path)
    assert values(profile, "ranges", "name", "duration_ns") == [("a", 10), ("b", 7)]
    assert profile.metadata.gpu_used is False and "no kernels" in profile.absent["launches"]
    assert codes(profile)["ranges-open"].startswith("1 ")


def test_a_recording_of_nothing_is_an_error(tmp_path: Path) -> None:
    made = Made()
    made.string("python")
    with pytest.raises(EmptyInput, match="neither kernels nor NVTX ranges"):
        read(made, tmp_path)


def test_numbers_of_pytorch_become_columns(tmp_path: Path) -> None:
    made = Made()
    names = (
        "aten::mm, seq = 45, op_id = 12, sizes = [[2, 3], [3, 4]], input_op_ids = [(11,0)]",
        "aten::mm, seq = 46, op_id = 13, sizes = [[2, 3], [3, 4]]",
        "aten::view, op_id = 14",
        "a, b = c",
    )
    for place, name in enumerate(names):
        made.range(name, 10 * place, 10 * place + 5)
    profile = read(made, tmp_path)
    shapes = "[[2, 3], [3, 4]]"
    assert values(profile, "ranges", "name", "sequence", "input_shapes") == [
        ("aten::mm", 45, shapes), ("aten::mm", 46, shapes), ("aten::view", None, None), ("a, b = c", None, None),
    ]  # fmt: skip
    assert profile.require("ranges").names("name").names == ["aten::mm", "aten::view", "a, b = c"]


def test_domains_are_told_by_process_and_threads_numbered_through_all(tmp_path: Path) -> None:
    made = Made()
    made.range("x", 0, 10, domain="NCCL", pid=OTHER_PID, tid=9)
    made.range("y", 0, 10, domain="TensorRT")
    made.range("z", 0, 10, tid=PID + 1, eventType=60, endGlobalTid=(1 << 48) | PID << 24 | PID)
    profile = read(made, tmp_path)
    assert values(profile, "ranges", "domain", "name", "thread", "end_thread") == [
        ("NCCL", "x", 2, None), ("TensorRT", "y", 0, None), (None, "z", 1, 0),
    ]  # fmt: skip


def test_rows_that_were_deleted_do_not_shift_names(tmp_path: Path) -> None:
    import sqlite3

    made = Made()
    for place in range(6):
        made.range(f"r{place}", place, place + 1)
    path = made.write(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS WHERE start IN (1, 3)")
    connection.close()
    assert values(database.read([path]), "ranges", "name", "start_ns") == [("r0", 0), ("r2", 2), ("r4", 4), ("r5", 5)]


def test_a_clock_since_the_epoch_is_brought_to_the_capture(tmp_path: Path) -> None:
    made, now = Made(), 1_779_000_000_000_000_000
    made.range("r", now, now + 5000)
    made.launch("a", now + 100, now + 1000, now + 1100)
    profile = read(made, tmp_path)
    assert values(profile, "launches", "start_ns", "launch_ns") == [(1000, 100)]
    assert values(profile, "ranges", "start_ns") == [(0,)]


def test_what_is_told_of_the_recording(tmp_path: Path) -> None:
    made = small()
    made.environment("Hostname", "node7")
    for name, value in (
        ("COMMAND", "python"),
        ("ARGUMENT_1", "--token=hf_0123456789abcdefghij"),
        ("ARGUMENT_0", "t.py"),
    ):
        made.captured(f"PROCESS_0:{name}", value)
    for text in ('NVIDIA_TF32_OVERRIDE="0"', 'PYTORCH_VERSION="2.6.0"', 'SLURM_PROCID="3"', 'SECRET="abc"'):
        made.captured("PROCESS_0:ENVIRONMENT_VARIABLE", text)
    metadata = read(made, tmp_path).metadata
    assert metadata.command[:2] == ("python", "t.py") and "hf_" not in metadata.command[2]
    assert (metadata.host, metadata.rank, metadata.framework) == ("node7", 3, "pytorch 2.6.0")
    assert {note.code for note in metadata.notes} == {"tf32-override", "environment-inside"}
    assert "abc" not in str(metadata)


def test_the_rank_is_that_of_the_thread_name_where_there_is_one(tmp_path: Path) -> None:
    made = small()
    made.thread("MPI Rank 6")
    made.captured("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="1"')
    assert read(made, tmp_path).metadata.rank == 6
    made.thread("MPI Rank 7", OTHER_PID)
    (tmp_path / "b").mkdir()
    assert read(made, tmp_path / "b").metadata.rank is None


def test_environment_of_old_captures_need_not_be_text(tmp_path: Path) -> None:
    made = small("3.0.0")
    made.environment("DeviceEnvironment", b"A=1\0RANK=2\0B=\xff\xfe")
    assert read(made, tmp_path).metadata.rank == 2


def test_several_recordings_in_a_folder_are_refused_with_the_list(tmp_path: Path) -> None:
    for name in ("rank0.sqlite", "rank1.sqlite"):
        small().write(tmp_path / name)
    with pytest.raises(UsageError, match=r"rank0\.sqlite") as caught:
        database.read(database.finds(tmp_path))
    assert "tcprobe report" in str(caught.value.hint)


def test_a_report_beside_its_export_is_the_same_recording_unless_it_is_newer(tmp_path: Path) -> None:
    import os

    export = small().write(tmp_path / "a.sqlite")
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(REPORT + b"2026.1")
    os.utime(report, (1, 1))
    assert database.finds(tmp_path) == [export]
    os.utime(report, (2**31, 2**31))
    assert database.finds(tmp_path) == [report] and database.finds(export) == [export]
