"""What the CSV reports of nsys give, in all their layouts, and which of several is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.errors import EmptyInput, InputError, MeasurementFailed, UsageError, WrongFormat
from tcprobe.readers.nsys_stats import csv as nsys_stats
from tcprobe.readers.nsys_stats.layout import named
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile
from tests.fixtures.nsys_stats import make
from tests.fixtures.nsys_stats.make import GEMM, RELU, Copy, Kernel
from tests.support import shared


def read(folder: Path, *texts: str | bytes, names: tuple[str, ...] = ("x.csv",)) -> Profile:
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_profile(folder / names[0] if len(names) == 1 else folder)


def rows(profile: Profile, table: str) -> list[Row]:
    return list(profile.require(table).rows())


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.metadata.notes]


def share(profile: Profile) -> float | None:
    found = {row["metric"]: row["value"] for row in analyse(profile).require("summary").rows()}
    value = found["tc_kernel_time_pct"]
    return None if value is None else float(value)


@pytest.mark.parametrize("old", [True, False])
def test_a_trace_gives_launches_copies_configurations_and_gpus(old: bool, tmp_path: Path) -> None:
    profile = read(tmp_path, make.trace(old=old))
    assert profile.metadata.format == "nsys_stats"
    gemm, relu, _, other = rows(profile, "launches")
    assert (gemm["kernel"], gemm["start_ns"], gemm["duration_ns"]) == (GEMM, 10_000, 4_000)
    assert (gemm["device"], gemm["stream"], gemm["correlation_id"], gemm["launch_ns"]) == (0, 7, 101, None)
    assert (relu["kernel"], other["device"], other["config_id"]) == (RELU, 1, gemm["config_id"])
    (config,) = rows(profile, "launch_configs")
    assert (config["grid"], config["block"], config["registers"]) == ("2,3,1", "128,1,1", 32)
    assert (config["static_shared_bytes"], config["dynamic_shared_bytes"]) == (None, None)
    (copy,) = rows(profile, "memory_ops")
    assert (copy["kind"], copy["size_bytes"], copy["duration_ns"]) == ("MemcpyH2D", 648, 960)
    assert [row["name"] for row in rows(profile, "devices")] == ["NVIDIA A100-SXM4-40GB"] * 2
    assert share(profile) == pytest.approx(90.0)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (("DtoH", "Device-to-Host"), "MemcpyD2H"),
        (("DtoD", "Device-to-Device"), "MemcpyD2D"),
        (("PtoP", "Peer-to-Peer"), "MemcpyP2P"),
        (("unheard of", "Unheard-of"), "other"),
    ],
)
def test_ways_of_copies_in_both_words(way: tuple[str, str], kind: str, tmp_path: Path) -> None:
    events = [Kernel(GEMM, 0, 5), Copy(10, 7_000, 301_056, way)]
    for old in (True, False):
        (copy,) = rows(read(tmp_path, make.trace(events, old=old)), "memory_ops")
        assert (copy["kind"], copy["size_bytes"]) == (kind, 301_056)


def test_a_size_that_its_rate_does_not_tell_is_unknown(tmp_path: Path) -> None:
    events = [Kernel(GEMM, 0, 5), Copy(10, 2 * 10**9, 301_056)]
    assert rows(read(tmp_path, make.trace(events)), "memory_ops")[0]["size_bytes"] is None


def test_a_sum_gives_kernels_by_name_and_nothing_of_when(tmp_path: Path) -> None:
    for text in (make.kernels(), make.kernels(old=True)):
        profile = read(tmp_path, text)
        gemm, relu = rows(profile, "kernels")
        assert (gemm["calls"], gemm["sum_ns"], gemm["min_ns"], gemm["max_ns"]) == (3, 9_000, 2_000, 4_000)
        assert (relu["kernel"], gemm["grid"], gemm["device"]) == (RELU, None, None)
        assert codes(profile) == ["device-unknown", "warm-up-inside"]
        assert "launches" not in profile.tables
        assert share(profile) == pytest.approx(90.0)


def test_rows_of_one_kernel_are_added_up_and_its_costliest_grid_stands(tmp_path: Path) -> None:
    gemm, _ = rows(read(tmp_path, make.kernels(grids=True)), "kernels")
    assert (gemm["calls"], gemm["sum_ns"], gemm["min_ns"], gemm["max_ns"]) == (3, 9_000, 2_000, 4_000)
    assert (gemm["grid"], gemm["block"]) == ("2,3,1", "128,1,1")


def test_of_several_reports_of_a_recording_the_trace_alone_counts(tmp_path: Path) -> None:
    names = ("run_cuda_gpu_kern_sum.csv", "run_cuda_gpu_trace.csv", "run_nvtx_sum.csv")
    profile = read(tmp_path, make.kernels(), make.trace(), make.ranges(), names=names)
    assert len(rows(profile, "launches")) == 4
    assert "kernels" not in profile.tables
    assert codes(profile) == ["ranges-not-read"]
    assert len(profile.metadata.paths) == 3


def test_whole_names_stand_before_short_ones(tmp_path: Path) -> None:
    short = make.kernels().replace(GEMM, "gemm")
    names = ("run_gpukernsum.csv", "run_gpukernsum_base.csv")
    assert rows(read(tmp_path, make.kernels(), short, names=names), "kernels")[0]["kernel"] == GEMM
    (tmp_path / names[0]).unlink()
    assert "short-kernel-names" in codes(open_profile(tmp_path))
    prefixed = make.processing("cuda_gpu_kern_sum", make.kernels(), arguments="nvtx-name:base")
    assert {"short-kernel-names", "prefixed-kernel-names"} <= set(codes(read(tmp_path, prefixed)))


def test_all_that_nsys_printed_is_read_with_the_lines_between(tmp_path: Path) -> None:
    api = make.table(
        ("Time (%)", "Total Time (ns)", "Num Calls", "Avg (ns)", "Min (ns)", "Max (ns)", "Name"),
        [("99", *[7] * 5, "cudaFree")],
    )
    parts = (("gpukernsum", make.kernels()), ("cudaapisum", api), ("nvtxsum", make.ranges()))
    text = "".join(make.processing(*part) for part in parts)
    assert [row["sum_ns"] for row in rows(read(tmp_path, text), "kernels")] == [9_000, 1_000]
    assert [row["sum_ns"] for row in rows(read(tmp_path, make.kernels() + "\n" + api), "kernels")] == [9_000, 1_000]
    piped = f"Processing [x] with [gpukernsum.py] to process [@cat]... {make.kernels()}"
    assert [row["sum_ns"] for row in rows(read(tmp_path, piped), "kernels")] == [9_000, 1_000]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_marks_of_bytes_line_ends_of_windows_and_tabs(encoding: str, tmp_path: Path) -> None:
    text = make.trace(separator="\t").replace("\n", "\r\n")
    assert len(rows(read(tmp_path, text.encode(encoding)), "launches")) == 4


def test_times_in_other_units(tmp_path: Path) -> None:
    assert [row["duration_ns"] for row in rows(read(tmp_path, make.trace(unit="us")), "launches")][:2] == [4000, 1000]
    profile = read(tmp_path, make.trace(unit="ms"))
    assert rows(profile, "launches")[0]["duration_ns"] == 4000
    assert codes(profile) == ["rounded-times"]
    with pytest.raises(WrongFormat, match=r"rounds start to 100,000 ns"):
        read(tmp_path, make.trace(unit="sec"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (make.kernels().replace(",", ";"), "separates its cells by ';'"),
        (make.kernels().replace("9000,3", '"9000,5",3'), "line 2 holds '9000,5' where a number is expected"),
        (make.kernels().replace("Time (ns)", "Time (fortnights)"), "no unit of time"),
        (make.kernels().replace("9000,3", "-9000,3"), "no clock shows"),
        (make.trace()[:-80], "cells where its header has 21"),
        (make.trace().replace(",7,ampere", ",7,x,ampere"), "row in line 3 has 22 cells where its header has 21"),
        (make.kernels()[:-20], "ends within a quoted cell"),
    ],
)
def test_damaged_reports_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, text)


def test_what_may_be_cut_off_is_said(tmp_path: Path) -> None:
    assert "cut-off" in codes(read(tmp_path, make.trace()[:-1]))
    assert "cut-off" in codes(read(tmp_path, make.kernels()[: make.kernels().index("10.0")]))


@pytest.mark.parametrize(
    "text", [make.SKIPPED, make.SKIPPED + make.processing("nvtxsum", make.ranges()), make.trace([])]
)
def test_no_kernel_is_a_failed_measurement(text: str, tmp_path: Path) -> None:
    profile = read(tmp_path, text)
    assert codes(profile) == ["no-kernels"]
    with pytest.raises(MeasurementFailed, match="no kernel was recorded"):
        analyse(profile)


def test_ranges_alone_and_tables_for_people_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmptyInput, match="no kernel's time of its own"):
        read(tmp_path, make.ranges())
    with pytest.raises(WrongFormat, match="tables for people"):
        read(tmp_path, make.processing("gpukernsum", "\n ** CUDA GPU Kernel Summary:\n\n Time (%)  Total Time (ns)\n"))


def test_reports_of_several_recordings_are_refused_with_their_list(tmp_path: Path) -> None:
    names = ("a_cuda_gpu_trace.csv", "b_cuda_gpu_trace.csv", "b_nvtx_sum.csv")
    with pytest.raises(UsageError, match="of 2 recordings lie here: a, b") as raised:
        read(tmp_path, make.trace(), make.trace(), make.ranges(), names=names)
    assert "cuda_gpu_trace.csv" in (raised.value.hint or "")
    for name in names:
        (tmp_path / name).unlink()
    two = make.processing("gputrace", make.trace()) + make.processing("gputrace", make.trace(), "other.sqlite")
    with pytest.raises(UsageError, match="of 2 recordings: run, other"):
        read(tmp_path, two)


def test_an_empty_report_beside_another_is_said_and_alone_refused(tmp_path: Path) -> None:
    names = ("run_cuda_gpu_kern_sum.csv", "run_cuda_gpu_trace.csv")
    profile = read(tmp_path, make.kernels(), "", names=names)
    assert codes(profile)[0] == "empty-report"
    with pytest.raises(EmptyInput, match="the file is empty"):
        open_profile(tmp_path / names[1])


@pytest.mark.parametrize(
    ("name", "stem", "report", "arguments"),
    [
        ("run_cuda_gpu_kern_sum.csv", "run", "cuda_gpu_kern_sum", ""),
        ("my_run_gpukernsum_base.csv", "my_run", "gpukernsum", "base"),
        ("cuda_gpu_trace.csv", "", "cuda_gpu_trace", ""),
        ("run_cuda_gpu_trace_nvtx-name_base.csv", "run", "cuda_gpu_trace", "nvtx-name_base"),
        ("anything.csv", "anything", "", ""),
    ],
)
def test_names_of_files(name: str, stem: str, report: str, arguments: str) -> None:
    found = named(Path(name))
    assert (found.stem, found.report, found.arguments) == (stem, report, arguments)


def test_other_tables_are_none_of_these(tmp_path: Path) -> None:
    for text in (
        "Time (%),Total Time (ns),Num Calls,Name\n1,2,3,cudaFree\n",
        "a,b\n1,2\n",
        "Start,Duration\n",
        '"ID","Kernel Name"\n',
    ):
        (tmp_path / "x.csv").write_text(text)
        assert nsys_stats.finds(tmp_path / "x.csv") == []
        assert nsys_stats.finds(tmp_path) == []


def sample(name: str) -> Path:
    return shared(f"samples/nsys_stats/{name}.csv")


def test_real_reports_of_one_recording_agree() -> None:
    """The trace, the sum with grids and the sum without are of the same 59 kernels: 589 us."""
    names = ("old_gputrace", "new_cuda_gpu_trace", "old_gpukernsum", "new_cuda_gpu_kern_sum")
    found = [analyse(open_profile(sample(name))).require("kernels") for name in names]
    assert [int(table.numbers("calls").sum()) for table in found] == [59] * 4
    assert len({int(table.numbers("sum_ns").sum()) for table in found}) == 1
    assert all(share(open_profile(sample(name))) == 0.0 for name in names)


def test_a_real_empty_report_is_one_line() -> None:
    with pytest.raises(EmptyInput, match="the file is empty"):
        open_profile(sample("h100x2_mfu_before_cuda_gpu_trace"))
    assert share(open_profile(sample("h100x2_mfu_before_cuda_gpu_kern_sum"))) == pytest.approx(61.7, abs=0.05)
