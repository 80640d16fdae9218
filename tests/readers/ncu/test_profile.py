"""The tables, notes and verdicts of Nsight Compute's CSV, and which files count as one."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.errors import UsageError
from tcprobe.readers import READERS
from tcprobe.readers.merge import merge
from tcprobe.readers.ncu import csv as ncu_csv
from tcprobe.readers.open import open_profile
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile
from tests.fixtures.dlprof import make as dlprof
from tests.fixtures.ncu import make
from tests.fixtures.ncu.make import FIXTURES, GEMM, HMMA, MINE, OPS, RELU, SPENT, Launch
from tests.readers import toys
from tests.readers.toys import Ranged
from tests.support import shared

SMALL = (1, 1, 1)


def read(folder: Path, text: str | bytes) -> Profile:
    path = folder / "x.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return ncu_csv.read(ncu_csv.finds(path))


def rows(profile: Profile, table: str) -> list[Row]:
    return list(profile.require(table).rows())


def codes(profile: Profile) -> list[str]:
    return [note.code for note in profile.metadata.notes]


def test_kernels_are_summed_by_name_and_described_by_their_costliest_configuration(tmp_path: Path) -> None:
    """13.056 + 12.928 + 4 us = 29984 ns; the grid of 32 x 4 took 25.984 us of it."""
    gemm, relu, mine = rows(read(tmp_path, FIXTURES["raw.csv"]), "kernels")
    assert (gemm["kernel"], gemm["calls"], gemm["sum_ns"]) == (GEMM, 3, 29984)
    assert (gemm["min_ns"], gemm["max_ns"], gemm["grid"], gemm["block"]) == (4000, 13056, "32,4,1", "128,1,1")
    assert (gemm["registers"], gemm["static_shared_bytes"], gemm["dynamic_shared_bytes"]) == (168, 0, 29696)
    assert (relu["kernel"], relu["sum_ns"], mine["kernel"], mine["sum_ns"]) == (RELU, 5120, MINE, 1024)


def test_counters_are_means_over_the_launches_of_a_configuration(tmp_path: Path) -> None:
    """Neither time nor properties of the GPU and the launch are counters, nor what the GPU could reach."""
    launches = [Launch("k", SMALL, SMALL, {OPS: (text, "")}) for text in ("2", "n/a", "6")]
    found = rows(read(tmp_path, make.raw([*make.LAUNCHES, *launches])), "kernel_counters")
    assert {row["metric"] for row in found} == {OPS}
    assert [(row["grid"], row["value"], row["launches"]) for row in found if row["kernel"] == GEMM] == [
        ("32,4,1", 8589934592.0, 2),
        ("8,4,1", 2147483648.0, 1),
    ]
    (last,) = (row for row in found if row["kernel"] == "k")
    assert (last["value"], last["launches"], last["device"], last["unit"]) == (4.0, 2, 0, None)


def test_the_gpu_is_named_by_its_attributes(tmp_path: Path) -> None:
    """1,215 MHz x 2 x 5,120 bit / 8 = 1,555.2 GB/s."""
    (gpu,) = rows(read(tmp_path, FIXTURES["raw.csv"]), "devices")
    assert (gpu["device"], gpu["name"], gpu["compute_capability"]) == (0, "NVIDIA A100-SXM4-40GB", "8.0")
    assert (gpu["sm_count"], gpu["clock_khz"], gpu["memory_bytes"]) == (108, 1410000, 42505273344)
    assert gpu["bandwidth_bytes_per_s"] == 1_555_200_000_000
    two = [Launch("k", SMALL, SMALL, {OPS: ("1", "")}, device=n) for n in (1, 3, 1)]
    assert [row["device"] for row in rows(read(tmp_path, make.raw(two)), "devices")] == [1, 3]


def test_verdicts_rest_on_the_counters_and_nothing_is_said_of_steps(tmp_path: Path) -> None:
    """29.984 + 1.024 of 36.128 us are on Tensor Cores: 85.8 %."""
    profile = analyse(read(tmp_path, FIXTURES["live.csv"]))
    found = {row["kernel"]: (row["uses_tc"], row["basis"]) for row in rows(profile, "kernels")}
    assert found == {GEMM: ("yes", "counter"), RELU: ("no", "counter"), MINE: ("yes", "counter")}
    share = profile.figure("tc_kernel_time_pct")
    assert share is not None and share["value"] == pytest.approx(100 * 31008 / 36128) and share["basis"] == "counter"
    for metric in ("step_time_ns", "gpu_busy_pct", "idle_pct"):
        assert (profile.figure(metric) or {"value": None})["value"] is None
    assert "one at a time" in profile.absent["launches"] and codes(profile) == ["profiled-alone", "warm-up-inside"]


def test_configurations_that_differ_prove_nothing_of_their_sum(tmp_path: Path) -> None:
    """The costliest one multiplies on Tensor Cores, the other does not: the row is of both."""
    launches = [
        Launch("k", (n, 1, 1), SMALL, {SPENT: (t, "ns"), OPS: (ops, "")})
        for n, t, ops in ((1, "90", "8"), (2, "10", "0"))
    ]
    (row,) = rows(analyse(read(tmp_path, make.raw(launches))), "kernels")
    assert (row["uses_tc"], row["basis"], row["grid"]) == ("unknown", None, "1,1,1")


def test_a_kernel_with_a_launch_without_a_time_has_none(tmp_path: Path) -> None:
    launches = [Launch("k", SMALL, SMALL, {SPENT: (t, "ns"), OPS: ("8", "")}) for t in ("90", "n/a")]
    profile = analyse(read(tmp_path, make.raw(launches)))
    (row,) = rows(profile, "kernels")
    assert (row["calls"], row["sum_ns"], row["min_ns"], row["uses_tc"]) == (2, None, None, "yes")
    (gpu,) = rows(profile, "devices")
    assert (gpu["state"], gpu["launches"], gpu["sum_ns"], gpu["tc_ns"]) == ("active", 2, None, None)
    note = profile.metadata.notes[0]
    assert note.code == "no-durations" and "1 of 2 launches" in note.message and SPENT in str(note.remedy)


def test_what_lacks_is_said(tmp_path: Path) -> None:
    launches = [Launch("k", SMALL, SMALL, {"dram__bytes_read.sum": ("8.5", "Kbyte")})]
    text = '==ERROR== Failed to profile "k" in process 3\n' + make.raw(launches, old=True)
    profile = read(tmp_path, text)
    assert codes(profile)[:4] == ["ncu-says", "no-durations", "no-tensor-counters", "device-unknown"]
    assert 'Failed to profile "k"' in profile.metadata.notes[0].message
    (gpu,) = rows(profile, "devices")
    assert (gpu["device"], gpu["name"], gpu["state"]) == (0, None, "active")
    (counter,) = rows(profile, "kernel_counters")
    assert (counter["value"], counter["unit"], counter["device"]) == (8500.0, "byte", None)


def test_clocks_left_alone_lose_no_launch(tmp_path: Path) -> None:
    launches = [Launch("k", SMALL, SMALL, {SPENT: ("90", "ns"), OPS: ("8", "")})]
    caches = "==WARNING== Note: Running with uncontrolled GPU caches. Profiling results may be inconsistent.\n"
    clocks = "==WARNING== Note: Running with unmodified GPU clocks. If not controlled otherwise, results may vary.\n"
    (note,) = [n for n in read(tmp_path, caches + clocks + make.raw(launches)).metadata.notes if "ncu-" in n.code]
    assert (note.code, note.level, note.remedy) == ("ncu-uncontrolled", "note", None)


def test_files_are_found_by_what_they_hold(tmp_path: Path) -> None:
    for name, content in {**FIXTURES, "x.ncu-rep": b"NVR\0\2", "kernels.csv": b"kernel,calls\nk,3\n"}.items():
        (tmp_path / name).write_bytes(content)
    said = [path.name for path in ncu_csv.finds(tmp_path)]
    assert said == sorted(set(FIXTURES) - {"denied.csv"})  # where others lie beside, what has no table does not count
    assert ncu_csv.finds(tmp_path / "denied.csv") and not ncu_csv.finds(tmp_path / "kernels.csv")
    others = [reader for reader in READERS if reader is not ncu_csv]
    assert not any(reader.finds(tmp_path) for reader in others)
    assert ncu_csv.finds(Path(dlprof.__file__).parent) == []


def test_of_several_files_none_is_chosen(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(FIXTURES["raw.csv"])
    with pytest.raises(UsageError, match=r"2 profiles .* of Nsight Compute.*: (?:a|b)\.csv, (?:a|b)\.csv"):
        open_profile(tmp_path)


def test_page_raw_and_page_details_of_one_report_are_joined(tmp_path: Path) -> None:
    """Page details has instructions by type, its launches in another order; of a metric in both, page raw counts."""
    other = [make.Launch(one.kernel, one.grid, one.block, {SPENT: ("9", "second"), HMMA: (str(n), "inst")})
             for n, one in enumerate(make.LAUNCHES)]  # fmt: skip
    head, *lines = make.details(other).splitlines(keepends=True)
    (tmp_path / "a.csv").write_bytes(FIXTURES["raw.csv"])
    (tmp_path / "b.csv").write_text(head + "".join(reversed(lines)))
    found = open_profile(tmp_path)
    alone = open_profile(tmp_path / "a.csv")
    assert rows(found, "kernels") == rows(alone, "kernels") and rows(found, "devices") == rows(alone, "devices")
    added = [row for row in rows(found, "kernel_counters") if row not in rows(alone, "kernel_counters")]
    means = [(row["kernel"], row["metric"], row["value"], row["launches"]) for row in added]
    assert means == [(GEMM, HMMA, 0.5, 2), (GEMM, HMMA, 2.0, 1), (RELU, HMMA, 3.0, 1), (MINE, HMMA, 4.0, 1)]
    assert [Path(path).name for path in found.metadata.paths] == ["a.csv", "b.csv"]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (make.details(make.LAUNCHES[:-1]), "one has 5 launches, the other 4"),
        (make.details(make.LAUNCHES[::-1]), "launch 0 has kernel name ampere_fp16"),
        (make.details([replace(make.LAUNCHES[0], grid=(9, 9, 9)), *make.LAUNCHES[1:]]), "launch 0 has grid 32,4,1 in"),
        (make.details([replace(one, process=7) for one in make.LAUNCHES]), "of other processes"),
        (make.raw(), "are of one"),
    ],
)
def test_pages_of_two_reports_are_refused(tmp_path: Path, second: str, why: str) -> None:
    (tmp_path / "a.csv").write_bytes(FIXTURES["raw.csv"])
    (tmp_path / "b.csv").write_text(second)
    with pytest.raises(UsageError) as error:
        open_profile(tmp_path)
    assert why in error.value.message and "name one of them" in str(error.value.hint)


def test_decimal_commas_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, make.raw([Launch("k", SMALL, SMALL, {SPENT: ("9,5", "us"), OPS: ("8", "")})]))
    assert "decimal-commas" in codes(found) and rows(found, "kernels")[0]["sum_ns"] == 9500


def test_counters_decide_beside_a_profile_of_steps_and_the_times_stay_its_own(tmp_path: Path) -> None:
    steps = Ranged().read([toys.write_ranged(tmp_path / "a.ranges.json")])
    before = {row["kernel"]: row for row in rows(analyse(steps), "kernels")}
    name = next(kernel for kernel, row in before.items() if row["basis"] != "counter" and row["uses_tc"] != "yes")
    counted = read(tmp_path, make.raw([Launch(str(name), (1, 1, 1), (32, 1, 1), {SPENT: ("9", "ms"), OPS: ("8", "")})]))
    (row,) = (row for row in rows(analyse(merge([steps, counted])), "kernels") if row["kernel"] == name)
    assert (row["uses_tc"], row["basis"], row["sum_ns"]) == ("yes", "counter", before[name]["sum_ns"])


@pytest.mark.parametrize("name", ["mlp_t4", "elementwise_h100"])
def test_real_kernels_off_the_tensor_cores(name: str) -> None:
    """The second runs HFMA2 on the tensor pipe (2.1 % of its peak), and no operation of a Tensor Core."""
    profile = analyse(open_profile(shared(f"samples/ncu/{name}.raw.csv")))
    assert {(row["uses_tc"], row["basis"]) for row in rows(profile, "kernels")} == {("no", "counter")}
    assert rows(profile, "devices")[0]["name"] is not None


COUNTED = {
    "pipe_tensor_active_pct": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%"),
    "pipe_tensor_elapsed_pct": ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "%"),
    "hmma_pct": ("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active", "%"),
    "imma_pct": ("sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_active", "%"),
    "ops_path_tensor_sum": (OPS, ""),
    "dur_ns": (SPENT, "ns"),
}


def _counted(lines: Sequence[dict[str, str]]) -> list[Launch]:
    """Return launches of public reports."""
    return [
        Launch(
            line["demangled"],
            (int(float(line["grid"])), 1, 1),
            (int(float(line["block"])), 1, 1),
            {name: (line[column] or "no data", unit) for column, (name, unit) in COUNTED.items()},
            capability=line["cc"],
        )
        for line in lines
    ]


def test_launches_whose_truth_is_known(tmp_path: Path) -> None:
    """216 launches of public reports: what counters prove of each is never the opposite of the truth."""
    with shared("samples/ncu/kernel_truth.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    truth = defaultdict(set)
    for line in lines:
        truth[line["demangled"]].add(line["tc_truth"])
    wrong, by_counter = [], 0
    for gpu in {line["cc"] for line in lines}:
        mine = [line for line in lines if line["cc"] == gpu]
        for row in rows(analyse(read(tmp_path, make.raw(_counted(mine)))), "kernels"):
            opposite = {"yes": "0", "no": "1"}.get(str(row["uses_tc"]))
            wrong += [row["kernel"]] if truth[str(row["kernel"])] == {opposite} else []
            by_counter += int(row["calls"] or 0) if row["basis"] == "counter" else 0
    assert not wrong and by_counter >= 180
