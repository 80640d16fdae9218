"""Verdicts from the GPU, the name and the op; and the kernels table that follows from launches."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis.kernels.table import Verdict, classify, derive_kernels, reclassify, refine
from tcprobe.hardware import find_gpu
from tcprobe.readers.open import open_profile
from tcprobe.readers.xspace import xplane
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import DEVICES, KERNELS, LAUNCH_CONFIGS, LAUNCHES, OP_DETAILS
from tests.support import SHARED, shared

HMMA = "volta_h884gemm_128x64_ldg8_nn"
SGEMM = "volta_sgemm_128x64_nn"
EIGEN = "void Eigen::internal::EigenMetaKernel<float>(float*)"
DOT = "gemm_fusion_dot_7"
UNKNOWN = Verdict("unknown", None, "no rule knows this name", None)
T4 = {
    "device": 0,
    "name": "Tesla T4",
    "vendor": "Nvidia",
    "compute_capability": "7.5",
    "tensor_cores": "yes",
    "state": "active",
}


def launches(*rows: tuple[Any, ...]) -> Table:
    """Rows of (kernel, duration_ns, op_id, config_id, device, iteration)."""
    made = []
    for i, row in enumerate(rows):
        kernel, duration, op, config, device, iteration = (*row, *(-1, -1, 0, None)[len(row) - 2 :])
        made.append(
            {
                "device": device, "stream": 7, "start_ns": 100 * i, "duration_ns": duration, "kernel": kernel,
                "op_id": op, "config_id": config, "iteration": iteration,
            }
        )  # fmt: skip
    return Table.from_rows(LAUNCHES, made)


def profile(*tables: Table, precision: str | None = None, gpus: tuple[dict[str, Any], ...] = (T4,)) -> Profile:
    made = Profile(Metadata("test", precision=precision))
    return made.with_tables(Table.from_rows(DEVICES, list(gpus)), *tables)


def details(*rows: dict[str, Any]) -> Table:
    return Table.from_rows(OP_DETAILS, list(rows))


# --- the GPU ------------------------------------------------------------------------------------------


def test_a_gpu_before_volta_has_no_tensor_cores_whatever_the_name() -> None:
    verdict = classify(HMMA, (6, 0))
    assert (verdict.uses_tc, verdict.basis) == ("no", "inferred")
    assert "6.0" in verdict.evidence


def test_another_vendors_gpu_has_none_either() -> None:
    verdict = classify("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1", (9, 4), "AMD")
    assert (verdict.uses_tc, verdict.basis) == ("no", "inferred")
    assert "not an NVIDIA GPU" in verdict.evidence


def test_evidence_names_the_token_that_decided() -> None:
    verdict = classify(HMMA, (7, 0))
    assert (verdict.uses_tc, verdict.basis, verdict.precision, verdict.rule) == ("yes", "name", "fp16", "mma-shape")
    assert verdict.evidence.startswith("h884gemm")


# --- the op -------------------------------------------------------------------------------------------


def refined(dtype: str | None, op_type: str = "MatMul", gpu: str = "a100-sxm-40", **given: Any) -> Verdict:
    verdict = given.pop("verdict", UNKNOWN)
    given = {"flops": None, "duration_ns": None, "tf32": None, **given}
    return refine(verdict, op_type=op_type, dtype=dtype, gpu=find_gpu(gpu), **given)


def test_a_float32_op_cannot_use_the_tensor_cores_of_a_t4() -> None:
    verdict = refined("float32", gpu="t4")
    assert (verdict.uses_tc, verdict.basis, verdict.precision) == ("no", "shape", "fp32")
    assert "float32 cannot use a T4's Tensor Cores" in verdict.evidence


def test_a_float32_op_with_tf32_off_does_not_use_them() -> None:
    assert refined("float32", tf32=False).uses_tc == "no"
    assert refined("float32", tf32=True).uses_tc == "unknown"
    assert refined("float32").uses_tc == "unknown"


def test_a_rate_beyond_the_cuda_cores_proves_tensor_cores() -> None:
    # A100: 19.5 TFLOP/s in float32, x 1.25 = 24.4; 1e9 FLOP in 20 us are 50 TFLOP/s, in 50 us 20
    fast = refined("float32", flops=1e9, duration_ns=20_000, tf32=True)
    assert (fast.uses_tc, fast.basis, fast.precision) == ("yes", "shape", "tf32")
    assert "50.0 TFLOP/s" in fast.evidence
    assert "24.4" in fast.evidence
    assert refined("float32", flops=1e9, duration_ns=50_000, tf32=True).uses_tc == "unknown"


def test_half_precision_on_cuda_cores_may_reach_four_times_the_float32_rate() -> None:
    # 97.5 TFLOP/s is what half2 arithmetic can reach: 10 us are 100, 12 us are 83
    assert refined("float16", flops=1e9, duration_ns=10_000).uses_tc == "yes"
    assert refined("float16", flops=1e9, duration_ns=12_000).uses_tc == "unknown"


def test_a_convolution_may_count_four_times_what_it_multiplies() -> None:
    given = {"op_type": "Conv2D", "flops": 1e9, "tf32": True}
    assert refined("float32", duration_ns=20_000, **given).uses_tc == "unknown"  # 50 of 97.5
    assert refined("float32", duration_ns=8_000, **given).uses_tc == "yes"  # 125 of 97.5


def test_triton_on_sixteen_bits_is_tensor_core_where_the_gpu_has_it() -> None:
    name = classify(DOT, (8, 0))
    assert name.uses_tc == "unknown"
    verdict = refined("bfloat16", "dot", verdict=name)
    assert (verdict.uses_tc, verdict.basis, verdict.precision) == ("yes", "shape", "bf16")
    assert refined("bfloat16", "dot", "t4", verdict=name).uses_tc == "no"
    assert refined("float32", "dot", verdict=name).uses_tc == "unknown"
    assert refined("bfloat16", "dot").uses_tc == "unknown"  # some other kernel of unknown name


def test_without_gpu_or_dtype_it_stays_unknown() -> None:
    nothing = {"op_type": "MatMul", "flops": 1e12, "duration_ns": 1.0, "tf32": None}
    assert refine(UNKNOWN, dtype="float16", gpu=None, **nothing) == UNKNOWN
    assert refined(None, flops=1e12, duration_ns=1.0) == UNKNOWN


@given(st.sampled_from([HMMA, SGEMM, EIGEN]), st.sampled_from(["float32", "float16", None]))
def test_what_the_name_tells_is_never_overruled_by_the_op(name: str, dtype: str | None) -> None:
    verdict = classify(name, (8, 0))
    assert refined(dtype, verdict=verdict, flops=1e15, duration_ns=1.0, tf32=False) == verdict


# --- the table ----------------------------------------------------------------------------------------


def test_rows_are_kernel_times_op_times_device_costliest_first() -> None:
    ops = details({"op": "fc1", "op_type": "MatMul"}, {"op": "fc2", "op_type": "MatMul"})
    rows = launches((HMMA, 10, 0), (HMMA, 30, 0), (HMMA, 5, 1), (EIGEN, 7), (HMMA, 2, 0, -1, 1))
    table = derive_kernels(profile(rows, ops, gpus=(T4, {**T4, "device": 1})))
    got = [tuple(r[c] for c in ("kernel", "op", "device", "calls", "sum_ns", "min_ns", "max_ns")) for r in table.rows()]
    assert got == [
        (HMMA, "fc1", 0, 2, 40, 10, 30),
        (EIGEN, None, 0, 1, 7, 7, 7),
        (HMMA, "fc2", 0, 1, 5, 5, 5),
        (HMMA, "fc1", 1, 1, 2, 2, 2),
    ]
    assert table.values("uses_tc") == ["yes", "no", "yes", "yes"]


def test_ops_of_the_same_name_and_type_are_one_row() -> None:
    ops = details(
        {"op": "fc", "op_type": "MatMul", "dtype": "float16"}, {"op": "fc", "op_type": "MatMul", "dtype": "float32"}
    )
    table = derive_kernels(profile(launches((EIGEN, 1, 0), (EIGEN, 2, 1)), ops))
    assert table.values("calls") == [2]


def test_the_costliest_configuration_is_shown() -> None:
    configs = Table.from_rows(
        LAUNCH_CONFIGS, [{"registers": 32, "block": "128,1,1"}, {"registers": 64, "block": "256,1,1"}]
    )
    rows = launches((HMMA, 10, -1, 0), (HMMA, 10, -1, 0), (HMMA, 15, -1, 1), (EIGEN, 1))
    table = derive_kernels(profile(rows, configs))
    assert table.values("registers") == [32, None]  # 20 ns against 15; the other kernel has none
    assert table.values("block") == ["128,1,1", None]


def test_dtype_and_gpu_decide_what_the_name_leaves_open() -> None:
    ops = details({"op": "d", "op_type": "dot", "dtype": "float32"})
    row = next(derive_kernels(profile(launches((DOT, 9, 0)), ops)).rows())
    assert (row["uses_tc"], row["basis"], row["precision"]) == ("no", "shape", "fp32")


def test_the_rate_counts_an_op_once_an_iteration_and_all_its_kernels() -> None:
    shapes = {"input_shapes": json.dumps([[4096, 2048], [2048, 8192]]), "output_shape": json.dumps([4096, 8192])}
    ops = details({"op": "m", "op_type": "MatMul", "dtype": "float16", **shapes})
    a100 = {**T4, "name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0"}
    # 2 * 4096 * 2048 * 8192 = 137.4 GFLOP; two iterations in 2 ms: 137 TFLOP/s, beyond 97.5
    fast = launches(("custom", 900_000, 0, -1, 0, 1), ("custom", 900_000, 0, -1, 0, 2), (EIGEN, 200_000, 0, -1, 0, 2))
    table = derive_kernels(profile(fast, ops, gpus=(a100,)))
    assert dict(zip(table.values("kernel"), table.values("uses_tc"), strict=True)) == {"custom": "yes", EIGEN: "no"}
    # the same launches within one iteration may be parts of one execution: 69 TFLOP/s at least, which proves nothing
    once = launches(("custom", 900_000, 0, -1, 0, 1), ("custom", 900_000, 0, -1, 0, 1), (EIGEN, 200_000, 0, -1, 0, 1))
    assert "unknown" in derive_kernels(profile(once, ops, gpus=(a100,))).values("uses_tc")


def test_a_gpu_without_tensor_cores_by_name_alone() -> None:
    gtx = {**T4, "name": "NVIDIA GeForce GTX 1660 Ti", "tensor_cores": "unknown"}
    row = next(derive_kernels(profile(launches((HMMA, 9)), gpus=(gtx,))).rows())
    assert (row["uses_tc"], row["basis"]) == ("no", "inferred")
    assert "GTX 1660 Ti" in str(row["evidence"])


def test_no_launches_give_an_empty_table() -> None:
    assert len(derive_kernels(profile(launches()))) == 0


def test_an_op_id_out_of_range_counts_as_no_op() -> None:
    table = derive_kernels(profile(launches((HMMA, 1, 99)), details({"op": "fc", "op_type": "MatMul"})))
    assert table.values("op") == [None]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([HMMA, SGEMM, EIGEN, DOT]),
            st.integers(0, 10**9),
            st.integers(-1, 2),
            st.integers(-1, 1),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=60,
    ),
    st.randoms(use_true_random=False),
)
def test_sums_are_kept_and_the_order_of_launches_does_not_matter(rows: list[tuple[Any, ...]], random: Any) -> None:
    ops = details(*({"op": f"op{i}", "op_type": "MatMul", "dtype": "float16"} for i in range(3)))
    table = derive_kernels(profile(launches(*rows), ops))
    assert sum(int(v or 0) for v in table.values("sum_ns")) == sum(row[1] for row in rows)
    assert sum(int(v or 0) for v in table.values("calls")) == len(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)
    again = derive_kernels(profile(launches(*shuffled), ops))
    assert list(table.rows()) == list(again.rows())


# --- tables that a profiler wrote ---------------------------------------------------------------------


def read_table(*rows: tuple[str, str, int]) -> Table:
    made = [
        {"device": 0, "kernel": k, "uses_tc": said, "basis": "reported", "evidence": "DLProf", "sum_ns": ns}
        for k, said, ns in rows
    ]
    return Table.from_rows(KERNELS, made)


def test_our_verdict_stands_where_the_name_tells_and_theirs_where_it_does_not() -> None:
    given = read_table(("nvjet_hsh_128x64_64x8_2x1_v_bz_NNN", "no", 75), ("Kernel", "yes", 20), (SGEMM, "no", 5))
    h100 = {**T4, "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"}
    table, notes = reclassify(given, profile(gpus=(h100,)))
    assert table.values("uses_tc") == ["yes", "yes", "no"]
    assert table.values("basis") == ["name", "reported", "name"]
    assert table.values("evidence")[1] == "DLProf"
    (note,) = notes
    assert note.code == "profiler-contradicted"
    assert "1 kernels (75.0 % of the time)" in note.message
    assert "it says no, we yes" in note.message


def test_no_note_where_both_agree() -> None:
    table, notes = reclassify(read_table((SGEMM, "no", 5), (HMMA, "yes", 5)), profile())
    assert notes == ()
    assert table.values("precision") == ["fp32", "fp16"]


# --- real captures ------------------------------------------------------------------------------------


def kineto_time(path: Path) -> Counter[str]:
    launches, time = open_profile(path).require("launches"), Counter[str]()
    for kernel, spent in zip(launches.values("kernel"), launches.values("duration_ns"), strict=True):
        time[str(kernel)] += int(spent or 0)
    return time


def nsys_time(path: Path) -> Counter[str]:
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
        return Counter(
            dict(
                connection.execute(
                    "SELECT s.value, sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k"
                    " JOIN StringIds s ON s.id = k.demangledName GROUP BY 1"
                )
            )
        )


def captures() -> Iterator[Any]:
    samples = SHARED / "samples"
    found = [*samples.glob("kineto/*.json.gz"), *samples.glob("nsys/*.sqlite")]
    for path in sorted(found) or [Path("kineto/none")]:
        yield pytest.param(f"samples/{path.parent.name}/{path.name}", id=path.name)


@pytest.mark.parametrize("sample", list(captures()))
def test_nine_tenths_of_the_kernel_time_of_a_framework_are_covered(sample: str) -> None:
    path = shared(sample)
    time = nsys_time(path) if path.suffix == ".sqlite" else kineto_time(path)
    covered = sum(spent for name, spent in time.items() if classify(name).uses_tc != "unknown")
    if path.name.startswith("v100_mpi"):
        assert covered < 0.01 * sum(time.values())  # one hand-written kernel: unknown by name
    else:
        assert covered >= 0.9 * sum(time.values())


@pytest.mark.parametrize(
    ("sample", "share"),
    [
        ("kineto/a100_alexnet_cudnn8_tf32.json.gz", 17.0),
        ("nsys/h100x2_bf16_before_nsys2026.sqlite", 61.7),
        ("nsys/h100x2_bf16_after_nsys2026.sqlite", 60.0),
        ("nsys/h100x2_fp32_ffma_nsys2026.sqlite", 0.0),
        ("nsys/rtx3090_tensorrt_nsys2023.1.sqlite", 92.7),
        ("kineto/v100_resnet50_fp32.json.gz", 0.0),
    ],
)
def test_share_of_tensor_core_time_is_the_one_the_names_prove(sample: str, share: float) -> None:
    path = shared(f"samples/{sample}")
    time = nsys_time(path) if path.suffix == ".sqlite" else kineto_time(path)
    found = 100 * sum(s for name, s in time.items() if classify(name).uses_tc == "yes") / sum(time.values())
    assert found == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize(
    "name", ["tf24_t4_alexnet_fp32", "tf24_v100_alexnet_fp32", "tf24_p100_alexnet_fp32", "tf25_turing_chess_fp32"]
)
def test_float32_runs_of_tensorflow_use_no_tensor_cores(name: str) -> None:
    table = derive_kernels(xplane.read([shared(f"samples/xplane/{name}.xplane.pb")]))
    assert len(table) > 50
    assert set(table.values("uses_tc")) == {"no"}
    sums = table.numbers("sum_ns")
    assert np.all(np.diff(sums) <= 0)


def test_amd_gpus_are_not_judged_by_nvidias_names() -> None:
    table = derive_kernels(xplane.read([shared("samples/xplane/jax08_mi300_gemm.xplane.pb")]))
    assert len(table)
    assert set(table.values("uses_tc")) == {"no"}
    assert all("not an NVIDIA GPU" in str(e) for e in table.values("evidence"))


def test_dlprofs_own_verdicts_agree_with_ours() -> None:
    with shared("samples/dlprof/pytorch_1.8/dlprof_iteration.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(list(file)[1:]))
    assert rows
    for row in rows:
        said = classify(row["Long Kernel Name"] or row["Kernel Name"], (7, 5)).uses_tc
        assert said in (row["Uses TC"], "unknown"), row["Long Kernel Name"]


def test_a_kernel_on_float64_alone_uses_no_tensor_cores_where_they_do_not_multiply_it() -> None:
    name = "compute_energy(fp64 *, fp64 const *, int)"
    assert classify(name).uses_tc == "unknown"
    assert (classify(name, (7, 5)).uses_tc, classify(name, (7, 5)).basis) == ("no", "inferred")
    assert classify(name, (8, 6)).uses_tc == "no"
    assert classify(name, (8, 0)).uses_tc == "unknown"
    assert classify("compute_energy(fp64 *, __half *)", (7, 5)).uses_tc == "unknown"
    assert classify("compute_energy(float *)", (7, 5)).uses_tc == "unknown"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn"])
def test_a_copy_of_narrow_types_computes_in_none_of_them(dtype: str) -> None:
    made = profile(
        launches(("copy_kernel", 10, 0), ("my_product", 5, 0)),
        details({"op": "op", "op_type": "MatMul", "dtype": dtype}),
    )
    rows = {row["kernel"]: row["precision"] for row in derive_kernels(made).rows()}
    assert rows["copy_kernel"] is None
    assert rows["my_product"] in ("int8", "fp8")
