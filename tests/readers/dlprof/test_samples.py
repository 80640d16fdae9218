"""DLProf's real output: what its files say is what is read, to the nanosecond."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tcprobe.readers.dlprof.reader import CSV as dlprof_csv
from tcprobe.readers.dlprof.reader import JSON as dlprof_json
from tcprobe.schema.profile import Profile
from tests.support import SHARED, shared

FOLDER = "samples/dlprof/simple_0.16_json"
SIMPLE = sorted(path.name for path in (SHARED / FOLDER).glob("*.json")) or ["none.json"]


def reported(profile: Profile) -> dict[str, float | str | None]:
    rows = profile.require("reported").rows()
    return {str(r["metric"]): r["text"] if r["value"] is None else float(r["value"]) for r in rows}


def raw(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        _, head, *rows = csv.reader(file)
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def whole() -> Profile:
    folder = shared("samples/dlprof/pytorch_1.8")
    return dlprof_csv.read(dlprof_csv.finds(folder))


def test_summary_of_1_7_keeps_its_35_4() -> None:
    path = shared("samples/dlprof/a100x4_pytorch_1.7_summary.csv")
    profile = dlprof_csv.read(dlprof_csv.finds(path))
    row = next(r for r in profile.require("reported").rows() if "Utilization" in str(r["metric"]))
    assert (row["metric"], row["value"]) == ("Summary Report / Tensor Core Kernel Utilization %", 35.4)
    assert row["source"] == "a100x4_pytorch_1.7_summary.csv, Summary Report"
    figures = reported(profile)
    assert figures["All Kernels / Kernels using TC / GPU Time (ns)"] == 43847528
    assert figures["All Ops / Ops eligible for TC but not using / # Ops"] == 2
    assert figures["System Config / CUDA Version"] == "11.6"
    assert len(figures) == 50  # ten + ten + six lines, and two tables of four rows by three columns


def test_summary_of_1_7_names_four_gpus_and_its_window() -> None:
    profile = dlprof_csv.read([shared("samples/dlprof/a100x4_pytorch_1.7_summary.csv")])
    assert profile.require("devices").values("name") == ["NVIDIA A100-SXM4-40GB"] * 4
    window = profile.metadata.window
    assert (window.first, window.last, window.basis) == (200, 400, "aggregated by DLProf")
    assert profile.metadata.profiler == "DLProf 1.7.0 (build 28499851)"
    assert profile.metadata.framework == "PyTorch 1.11.0a0+b6df043"
    assert profile.metadata.notes == ()  # neither the first iteration nor the last of 939 is inside
    assert "summary" in profile.absent["launches"] and profile.table("launches") is None


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_mode_percentage_follows_from_its_own_kernel_times(name: str) -> None:
    path = shared(f"{FOLDER}/{name}")
    figures = reported(dlprof_json.read(dlprof_json.finds(path)))
    tc, other = (figures[f"All Kernels / {row} / GPU Time (ns)"] for row in ("Kernels using TC", "All other kernels"))
    assert isinstance(tc, float) and isinstance(other, float)
    said = json.loads(path.read_text(encoding="utf-8"))["Summary Report"]["Tensor Core Kernel Utilization %"][0]
    assert figures["Summary Report / Tensor Core Kernel Utilization %"] == said
    assert 100 * tc / (tc + other) == pytest.approx(said, rel=1e-12)


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_mode_is_said_and_names_its_gpus(name: str) -> None:
    path = shared(f"{FOLDER}/{name}")
    profile = dlprof_json.read([path])
    assert [n.code for n in profile.metadata.notes] == ["simple-mode"]
    assert len(profile.require("devices")) == 2  # two names, whatever the count beside them
    assert profile.metadata.framework is None
    assert profile.metadata.window.basis == "whole capture"


def test_detail_of_tensorflow_1_has_its_387_ops() -> None:
    path = shared("samples/dlprof/v100_tf1_0.13_detailed.csv")
    profile = dlprof_csv.read(dlprof_csv.finds(path))
    ops, lines = profile.require("ops"), raw(path)
    assert len(ops) == len(lines) == 387
    assert ops.values("op") == [line["Op Name"] for line in lines]
    assert ops.numbers("union_ns").tolist() == [int(line["Total GPU Time (ns)"]) for line in lines]
    assert ops.numbers("host_ns").sum() == sum(int(line["Total CPU Time (ns)"]) for line in lines)
    assert Counter(ops.values("tc_capable")) == Counter(line["TC Eligible"] for line in lines)
    assert np.isnan(ops.numbers("sum_ns")).sum() == sum(int(line["Total GPU Time (ns)"]) > 0 for line in lines)


def test_detail_of_tensorflow_1_says_what_it_cannot() -> None:
    profile = dlprof_csv.read([shared("samples/dlprof/v100_tf1_0.13_detailed.csv")])
    assert {n.code for n in profile.metadata.notes} == {"op-times-are-unions", "eligible-without-gpu-time"}
    note = next(n for n in profile.metadata.notes if n.code == "eligible-without-gpu-time")
    assert note.message.startswith("23 ops")
    assert {"launches", "kernels"} <= set(profile.absent)
    sums = dict(zip(*(profile.require("reported").values(name) for name in ("metric", "value")), strict=True))
    rows = raw(shared("samples/dlprof/v100_tf1_0.13_detailed.csv"))
    assert sums == {
        f"All Iterations / All ops / Total GPU {name} (ns)": sum(int(row[f"Total GPU {name} (ns)"]) for row in rows)
        for name in ("Time", "Idle")
    }
    assert profile.require("devices").values("name") == [None]  # some GPU ran it


def test_detail_of_tensorflow_1_bounds_the_use_of_tensor_cores() -> None:
    path = shared("samples/dlprof/v100_tf1_0.13_detailed.csv")
    used, every = 0, 0
    for line in raw(path):
        every += int(line["Total GPU Time (ns)"])
        used += int(line["Total GPU Time (ns)"]) * (line["Using TC"] == "yes")
    notes = {n.code: n.message for n in dlprof_csv.read([path]).metadata.notes}
    assert f"take {100 * used / every:.1f} % of the ops' time, which is an upper bound" in notes["op-times-are-unions"]


def test_shapes_and_dtypes_of_tensorflow_1() -> None:
    ops = {
        r["op"]: r
        for r in dlprof_csv.read([shared("samples/dlprof/v100_tf1_0.13_detailed.csv")]).require("host_ops").rows()
    }
    assert ops["cluster_2_1/xla_run"]["input_shapes"] == "[[64, 8]]"
    assert ops["ConstantFoldingCtrl/training/cond/cond/Switch_1"]["input_shapes"] is None  # a scalar, printed as <0>


def test_set_of_1_8_is_read_whole(whole: Profile) -> None:
    assert {name: len(table) for name, table in whole.tables.items()} == {
        "launches": 51, "op_details": 7, "launch_configs": 32, "kernels": 41, "ops": 32, "host_ops": 32, "devices": 1,
        "reported": 378,
    }  # fmt: skip
    assert [n.code for n in whole.metadata.notes] == ["whole-run"] + ["dlprof-advice"] * 4
    sources = {str(r["source"]).partition(",")[0] for r in whole.require("reported").rows()}
    wanted = ("summary", "detailed", "tensor_core", "op_type", "group_op", "expert_systems")
    assert sources == {f"dlprof_{kind}.csv" for kind in wanted}


def test_kernels_of_1_8_are_sums_and_ops_are_unions(whole: Profile) -> None:
    figures, kernels = reported(whole), whole.require("kernels")
    assert kernels.numbers("sum_ns").sum() == 308960 == figures["All Kernels / All other kernels / GPU Time (ns)"]
    assert whole.require("ops").numbers("union_ns").sum() == 339839 == figures["All Ops / All ops / GPU Time (ns)"]
    assert whole.require("ops").numbers("sum_ns").sum() == 308960
    conv = next(r for r in whole.require("ops").rows() if r["op_type"] == "conv2d")
    assert (conv["sum_ns"], conv["union_ns"], conv["called_from"]) == (129598, 130846, "dummy_network.py:25")


def test_kernels_of_1_8_agree_with_the_kernel_report(whole: Profile) -> None:
    folder = shared("samples/dlprof/pytorch_1.8")
    theirs = sorted(
        (int(r["Total GPU Time (ns)"]), int(r["Max GPU Time (ns)"])) for r in raw(folder / "dlprof_kernel.csv")
    )
    kernels = whole.require("kernels")
    ours = zip(kernels.numbers("sum_ns").tolist(), kernels.numbers("max_ns").tolist(), strict=True)
    assert sorted((int(a), int(b)) for a, b in ours) == theirs
    alone = dlprof_csv.read([folder / "dlprof_kernel.csv"]).require("kernels")
    assert alone.numbers("calls").sum() == 51  # recovered from totals and averages
    assert alone.numbers("sum_ns").sum() == 308960


def test_launches_of_1_8_carry_names_shapes_and_times(whole: Profile) -> None:
    first = next(whole.require("launches").rows())
    assert first["kernel"] == "cudnn::gemm::computeOffsetsKernel(cudnn::gemm::ComputeOffsetsParams)"
    assert (first["start_ns"], first["duration_ns"], first["launch_ns"]) == (2860736409, 2176, 2860729860)
    op = next(whole.require("op_details").rows())
    assert (op["dtype"], op["input_shapes"]) == ("float32", "[[1, 3, 32, 32], [6, 3, 3, 3], [6]]")
    assert next(whole.require("launch_configs").rows())["grid"] == "8,1,1"


def test_every_report_of_1_8_is_read_alone() -> None:
    for path in sorted(shared("samples/dlprof/pytorch_1.8").glob("*.csv")):
        assert dlprof_csv.finds(path) == [path]
        assert dlprof_csv.read([path]).tables or path.stem.endswith("expert_systems")
