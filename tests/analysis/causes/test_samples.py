"""Causes of real profiles, against sweeps over their own records, and as an engineer would judge them."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.causes.facts import unnamed
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.analysis.causes.runs import bar
from tests.analysis.causes.sweep import sweep
from tests.support import shared


@cache
def sample(path: str) -> Profile:
    return analyse(open_profile(shared(f"samples/{path}")))


def causes(path: str) -> set[str]:
    return {str(row["cause"]) for row in sample(path).require("causes").rows()}


@pytest.mark.parametrize("gpu", [0, 1])
def test_nsys_by_hand_in_sql(gpu: int) -> None:
    """Flash attention and its backward pass are all that uses Tensor Cores here; no name but theirs is counted."""
    path = "nsys/h100x2_bf16_before_nsys2026.sqlite"
    profile, window = sample(path), sample(path).metadata.window
    assert window.start_ns is not None
    assert window.end_ns is not None
    with sqlite3.connect(shared(f"samples/{path}")) as base:
        kernels = base.execute(
            "SELECT k.start, k.end, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds s ON s.id = k.demangledName WHERE k.deviceId = ?", (gpu,),
        ).fetchall()  # fmt: skip
        copies = base.execute(
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE deviceId = :gpu"
            " UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMSET WHERE deviceId = :gpu", {"gpu": gpu},
        ).fetchall()  # fmt: skip
    on = ("flash_fwd_kernel", "gemm", "nvjet", "cutlass")
    parted = [(start, end, any(word in name for word in on)) for start, end, name in kernels]
    parts, copying, idle = sweep((window.start_ns, window.end_ns), parted, copies)
    found = {cause: ns for (device, cause), ns in bar(profile).items() if device == gpu}
    assert len(kernels) > 1000
    assert found["none"] == pytest.approx(float(parts[True]), abs=1)
    assert found["type"] + found.get("op_unknown", 0) == pytest.approx(float(parts[False]), abs=2)
    assert (found["copy"], found["idle"]) == (copying, idle)
    summed = sum(end - start for start, end, _ in kernels)
    rows = [row for row in profile.require("causes").rows() if row["device"] == gpu and row["cause"] != "copy"]
    assert sum(row["sum_ns"] or 0 for row in rows) == summed


def longer(profile: Profile, gpu: Any) -> int:
    """Return by how much the steps that DLProf reports are longer than what it recorded of them."""
    told = next(row["window_ns"] for row in profile.require("devices").rows() if row["device"] == gpu)
    return max(0, int(told or 0) - (profile.metadata.window.length_ns or 0))


@pytest.mark.parametrize(
    "path",
    ["xplane/tf24_v100_alexnet_fp32.xplane.pb", "xplane/tf25_turing_busy_88pct.xplane.pb", "dlprof/pytorch_1.8"],
)
def test_parts_by_cause(path: str) -> None:
    profile, window = sample(path), sample(path).metadata.window
    assert window.start_ns is not None
    assert window.end_ns is not None
    kernels, details = profile.require("kernels"), profile.require("op_details")
    names, types = [*details.names("op").tolist(), None], [*details.names("op_type").tolist(), None]
    of = {(row["device"], row["kernel"], row["op"], row["op_type"]): row["cause"] for row in kernels.rows()}
    intervals: dict[Any, list[Any]] = defaultdict(list)
    for row in profile.require("launches").rows():
        op = -1 if row["op_id"] is None else int(row["op_id"])
        cause = of.get((row["device"], row["kernel"], names[op], types[op]), "other_step")
        start = int(row["start_ns"] or 0)
        intervals[row["device"]].append((start, start + int(row["duration_ns"] or 0), cause))
    copies: dict[Any, list[Any]] = defaultdict(list)
    for row in profile.require("memory_ops").rows():
        start = int(row["start_ns"] or 0)
        copies[row["device"]].append((start, start + int(row["duration_ns"] or 0)))
    for gpu, mine in intervals.items():
        parts, copying, idle = sweep((window.start_ns, window.end_ns), mine, copies[gpu])
        expected = {**parts, "copy": copying, "idle": idle + longer(profile, gpu)}
        found = {cause: ns for (device, cause), ns in bar(profile).items() if device == gpu}
        assert set(found) == {cause for cause, ns in expected.items() if ns}
        for cause, ns in found.items():
            assert abs(ns - expected[cause]) <= 1, cause
        assert sum(found.values()) == window.end_ns - window.start_ns + longer(profile, gpu)


def test_float32_before_ampere_is_the_dtype_whatever_the_kernel() -> None:
    """DLProf's shape columns and XSpace alike: an RTX 2070 SUPER, a T4, a V100; direct and Winograd kernels too."""
    for path in ("dlprof/pytorch_1.8", "xplane/tf24_t4_alexnet_fp32.xplane.pb", "xplane/tf25_turing_idle.xplane.pb"):
        assert "dtype" in causes(path)
        assert not causes(path) & {"library", "shape", "channels", "none", "tc_slow"}, path


def test_gpus_without_tensor_cores() -> None:
    assert "gpu" in causes("xplane/tf24_p100_alexnet_fp32.xplane.pb")
    assert "not_nvidia" in causes("xplane/jax08_mi300_gemm.xplane.pb")


def test_nothing_is_to_be_mended_on_another_vendors_gpu() -> None:
    rows = sample("xplane/jax08_mi300_gemm.xplane.pb").require("causes").rows()
    assert {str(row["group"]) for row in rows} == {"never", "idle"}


def test_the_kernel_of_a_cause_is_one_of_the_op_beside_it() -> None:
    """Of the H100s' ops without a Tensor Core kernel NCCL's is the costliest kernel, and aten::copy_ the op."""
    profile = sample("nsys/h100x2_bf16_after_nsys2026.sqlite")
    (second,) = (row for row in profile.require("causes").rows() if (row["device"], row["cause"]) == (1, "type"))
    assert (second["op"], "copy_kernel" in str(second["kernel"])) == ("aten::copy_", True)
    launched = {(row["device"], row["op"], row["kernel"]) for row in profile.require("kernels").rows()}
    for row in profile.require("causes").rows():
        assert row["op"] is None or (row["device"], row["op"], row["kernel"]) in launched


def test_a_source_without_ops_tells_what_names_tell() -> None:
    """Nsight Systems without ranges, and its sums: flash attention uses Tensor Cores, whatever launched it."""
    profile = sample("nsys_stats/h100x2_mfu_before_cuda_gpu_kern_sum.csv")
    rows = {row["cause"]: row for row in profile.require("causes").rows()}
    assert set(rows) == {"none", "type"}
    share = profile.figure("tc_kernel_time_pct")
    assert share is not None
    assert rows["none"]["share_pct"] == pytest.approx(share["value"] if share["low"] is None else share["low"])


def test_without_ops_what_may_be_of_products_bounds_what_tensor_cores_save() -> None:
    """By SQL, after the start-up: 384.9 ms of kernels: 14.9 on Tensor Cores, 27.3 in PyTorch's own, 0.8 of vectors, 7.2
    of layouts."""
    ns, kernel = unnamed(sample("nsys/titanrtx_fp16_inference_nsys2022.sqlite"))
    assert ns / 1e6 == pytest.approx(334.7, abs=0.5)
    assert str(kernel).startswith("void explicit_convolve_sgemm<__half")
    # sums of kernels of a video transformer: all that is off the Tensor Cores is PyTorch's own or NCCL's
    assert unnamed(sample("nsys_stats/h100x2_mfu_before_cuda_gpu_kern_sum.csv")) == (0.0, None)


def test_products_off_tensor_cores_without_ops() -> None:
    """A TITAN RTX: float16 convolutions on CUDA cores, with im2col beside them; what was tried at the start is cut."""
    path = "nsys/titanrtx_fp16_inference_nsys2022.sqlite"
    rows = {(row["cause"], row["kind"]): row for row in sample(path).require("kinds").rows()}
    assert rows["library", "convolution"]["sum_ns"] == pytest.approx(303.3e6, rel=1e-3)
    assert rows["library", "helper"]["sum_ns"] == pytest.approx(30.47e6, rel=1e-3)
    assert ("type", "normalisation") in rows
    assert not {cause for cause, _ in rows} - {"library", "type", "none", "op_unknown"}


def test_a_kernel_built_for_ampere_proves_the_gpu() -> None:
    """Two H100 without a name: nothing but sm80_ in its kernels' names says that they have TF32."""
    profile = sample("nsys/h100x2_fp32_ffma_nsys2026.sqlite")
    assert {row["name"] for row in profile.require("devices").rows()} == {None}
    assert causes("nsys/h100x2_fp32_ffma_nsys2026.sqlite") == {"type", "tf32_unknown", "copy", "idle"}


def test_kinds_add_up_to_causes() -> None:
    for path in ("nsys/h100x2_bf16_before_nsys2026.sqlite", "xplane/tf25_turing_busy_88pct.xplane.pb"):
        profile = sample(path)
        sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
        for row in profile.require("kinds").rows():
            for at, name in enumerate(("split_ns", "sum_ns", "launches")):
                sums[row["device"], row["cause"]][at] += float(row[name] or 0)
        for row in profile.require("causes").rows():
            if row["cause"] not in ("copy", "idle"):
                assert sums[row["device"], row["cause"]] == [row["split_ns"], row["sum_ns"], row["launches"]]


def test_elementwise_kernels_under_counters_have_nothing_to_gain() -> None:
    for path in ("ncu/mlp_t4_v2.raw.csv", "ncu/elementwise_h100.raw.csv"):
        assert causes(path) == {"type"}
        assert unnamed(sample(path)) == (0.0, None)
        assert len(sample(path).require("advice")) == 0
