"""One run for each cause, its figures worked by hand; a V100 has 125 TFLOP/s, 900 GB/s and 80 SMs."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.causes.facts import unnamed
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS
from tests.analysis import builders as b
from tests.analysis.causes.runs import DIRECT, HELPS, LAYOUT, STEPS, bar, causes, op, run

MYSTERY = "matmul_2d_tiling"
P100 = {"name": "Tesla P100-PCIE-16GB", "compute_capability": "6.0", "sm_count": 56}
MI300 = {"name": "AMD Instinct MI300X", "vendor": "AMD", "compute_capability": None, "sm_count": None}


def product(m: int, n: int, k: int, ns: int) -> Profile:
    return run((b.TC, 0, ns), graph=(b.dense("a", k, n, m),))


@pytest.mark.parametrize(
    ("m", "n", "k", "ns", "cause", "pct"),
    [
        (4096, 4096, 4096, 2_000_000, "tc_well", 54.9756),  # 2 * 4096^3 FLOPs: 1,099,512 ns at the peak
        (4096, 4096, 4096, 2_199_023, "tc_well", 50.0),  # the least
        (4096, 4096, 4096, 2_199_024, "tc_slow", 50.0),
        # 32 * 32 tiles of 128x128 are 12.8 rounds of 80, 1 of 13 is a fifth empty: 1.5 % of the peak explain nothing
        (4096, 4096, 4096, 4_000_000, "tc_slow", 27.4878),
        (4096, 4096, 4095, 4_000_000, "tc_misaligned", 27.4811),  # 8,190 bytes are no multiple of 16
        (64, 64, 64, 3_000, "tc_small", 0.1398),  # 524,288 FLOPs: 4.19 ns at the peak, less than any launch
        # (2^20 * 64 + 64 * 64 + 2^20 * 64) * 2 bytes = 268 MB: 298 us, and 68.7 us of arithmetic
        (1 << 20, 64, 64, 400_000, "tc_memory", 17.1799),
        # 10 * 10 tiles of 128x128 are 1.25 rounds of 80: 2 rounds for that are 37.5 % empty
        (1280, 1280, 4096, 400_000, "tc_tiles", 26.8435),
    ],
)  # fmt: skip
def test_how_well_tensor_cores_are_used(m: int, n: int, k: int, ns: int, cause: str, pct: float) -> None:
    found = product(m, n, k, ns)
    row = op(found)
    assert (row["cause"], causes(found)) == (cause, {b.TC: cause})
    assert row["peak_pct"] == pytest.approx(pct, abs=1e-3)
    assert row["achieved_tflop_per_s"] == pytest.approx(pct / 100 * 125, abs=2e-3)
    assert bar(found)[0, cause] == STEPS * ns


def test_flop_per_byte_is_of_operands_and_result_each_moved_once() -> None:
    """2 * 4096^3 FLOP over three matrices of 4096^2 numbers of 2 bytes; of m=64 the result is small."""
    assert op(product(4096, 4096, 4096, 1_100_000))["flop_per_byte"] == pytest.approx(4096 / 3)
    assert op(product(1 << 20, 64, 64, 400_000))["flop_per_byte"] == pytest.approx(64 / (2 * (2 + 64 / (1 << 20))) * 2)


def test_what_a_slow_cause_speaks_of() -> None:
    misaligned, tiles, small = (
        op(product(4096, 4096, 4095, 4_000_000)),
        op(product(1280, 1280, 4096, 400_000)),
        op(product(64, 64, 64, 3_000)),
    )
    assert (misaligned["cause_dimension"], misaligned["cause_size"], misaligned["tile"]) == ("k", 4095, None)
    assert (tiles["tile"], tiles["waves"], tiles["cause_dimension"]) == ("128x128", 1.25, None)
    assert small["waves"] is not None
    assert float(small["waves"]) < 1
    assert (small["limit"], tiles["limit"]) == ("launch", "compute")


def test_tensor_cores_of_unknown_shapes_are_used_and_no_more_is_known() -> None:
    found = run((b.TC, 0, 3_000), ops=(("a/MatMul", "MatMul", "float16"),))
    assert causes(found) == {b.TC: "none"}
    assert (op(found)["peak_pct"], op(found)["predicted_ns"], op(found)["cause_dimension"]) == (None, None, None)


def grouped() -> dict[str, Any]:
    return {**b.conv("a", 28, 64, 64), "input_shapes": [[4, 28, 28, 64], [5, 5, 2, 64]]}


@pytest.mark.parametrize(
    ("row", "dimension", "size"),
    [
        (b.conv("a", 28, 64, 1), "filters", 1),
        (b.conv("a", 28, 64, 4), "filters", 4),
        (b.conv("a", 28, 1, 64), "channels", 1),
        (b.conv("a", 28, 3, 2), "filters", 2),
        (grouped(), "groups", 32),  # 64 channels in groups of 2
    ],
)
def test_few_channels_or_many_groups_force_a_kernel(row: dict[str, Any], dimension: str, size: int) -> None:
    found = run((DIRECT, 0, 5_000), graph=(row,))
    assert causes(found) == {DIRECT: "channels"}
    told = op(found)
    assert (told["cause_dimension"], told["cause_size"]) == (dimension, size)
    assert told["cause_kernel"] == "conv2d_grouped_direct_kernel"
    assert told["tc_blocker_kind"] in ("shape", "library")  # which stays as it was


@pytest.mark.parametrize(("row", "cause"), [(b.conv("a", 28, 5, 64), "shape"), (b.conv("a", 28, 64, 64), "library")])
def test_more_channels_leave_the_library_a_choice(row: dict[str, Any], cause: str) -> None:
    assert causes(run((DIRECT, 0, 5_000), graph=(row,))) == {DIRECT: cause}


def test_few_filters_do_not_force_a_matrix_product() -> None:
    """With one filter cuDNN ran a matrix product on CUDA cores: its choice, or that of the size, not a lack."""
    assert causes(run((b.FP32, 0, 5_000), graph=(b.conv("a", 28, 64, 1),))) == {b.FP32: "shape"}


def test_an_op_on_tensor_cores_has_other_kernels_too() -> None:
    """Of 6,000 ns in a step 700 change the layout, 500 multiply elsewhere, 100 add what others multiplied."""
    row = b.conv("a", 28, 64, 64)
    kernels = ((LAYOUT, 0, 700), (b.TC, 0, 4_700), (DIRECT, 0, 500), (HELPS, 0, 100))
    found = run(*kernels, graph=(row,))
    # 2 * 4 * 28 * 28 * 64 * 25 * 64 = 642,252,800 FLOPs: 5,138 ns at the peak, in 5,300 ns without the layout: 96.9 %
    assert causes(found) == {LAYOUT: "layout", b.TC: "tc_well", DIRECT: "library", HELPS: "tc_well"}
    told = op(found)
    assert (told["cause"], told["cause_kernel"]) == ("tc_well", b.TC)
    assert told["peak_pct"] == pytest.approx(100 * 5138.0224 / 5300, abs=1e-6)
    assert told["around_ns"] == STEPS * 700
    window = 3_900_000_000  # from the first step to the end of the last mark
    expected = {"tc_well": 4 * 4_800, "library": 4 * 500, "layout": 4 * 700, "idle": window - 4 * 6_000}
    assert bar(found) == {(0, cause): ns for cause, ns in expected.items()}


def test_a_misaligned_op_on_tensor_cores_runs_elsewhere_for_its_shape() -> None:
    found = run((b.TC, 0, 4_000_000), (b.FP32, 0, 1_000), graph=(b.dense("a", 4095, 4096, 4096),))
    assert causes(found) == {b.TC: "tc_misaligned", b.FP32: "shape"}


@pytest.mark.parametrize(
    ("kernel", "op_type", "dtype", "device", "cause"),
    [
        (b.FP32, "MatMul", "float32", {}, "dtype"),
        (b.FP32, "MatMul", "float64", {}, "dtype"),
        (b.FP32, "MatMul", "float16", {}, "library"),
        (MYSTERY, "MatMul", "float16", {}, "kernels_unknown"),
        (b.FP32, "MatMul", "float16", P100, "gpu"),
        (b.FP32, "MatMul", "float16", MI300, "not_nvidia"),
        (b.OTHER, "BiasAdd", "float16", {}, "type"),
        (LAYOUT, "Transpose", "float16", {}, "type"),
        (b.FP32, "fusion", "float16", {}, "type_unknown"),
        (b.TC, "fusion", "float16", {}, "none"),
        (LAYOUT, "MatMul", "float32", {}, "layout"),
    ],
)
def test_what_keeps_kernels_off(kernel: str, op_type: str, dtype: str, device: dict[str, Any], cause: str) -> None:
    found = run((kernel, 0, 1_000), ops=(("a/x", op_type, dtype),), device=device)
    assert causes(found) == {kernel: cause}
    assert op(found)["cause"] == cause


def test_a_product_of_unknown_class_in_an_op_on_tensor_cores_is_unknown() -> None:
    found = run((b.TC, 0, 1_000), (MYSTERY, 0, 500), ops=(("a/MatMul", "MatMul", "float16"),))
    assert causes(found) == {b.TC: "none", MYSTERY: "kernels_unknown"}


def test_kernels_of_no_op_have_the_causes_that_their_names_tell() -> None:
    found = run(
        (b.TC, -1, 1_000), (b.FP32, -1, 500), (HELPS, -1, 200), (b.OTHER, 0, 100), ops=(("a/BiasAdd", "BiasAdd"),)
    )  # fmt: skip
    assert causes(found) == {b.TC: "none", b.FP32: "dtype", HELPS: "op_unknown", b.OTHER: "type"}
    assert {cause: ns for (_, cause), ns in bar(found).items() if cause != "idle"} == {
        "none": 4_000, "dtype": 2_000, "op_unknown": 800, "type": 400,
    }  # fmt: skip


A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108}
NAMELESS = {"name": None, "compute_capability": None, "sm_count": None, "tensor_cores": "unknown"}
HALF_CONV = "void implicit_convolve_sgemm<__half, __half, 128, 5, 5, 3, 3, 3, 1, false, true, true>(int)"
IM2COL = "void cudnn::cnn::im2col4d_kernel<__half, long>(int)"
NCHW = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(int)"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
ALIGN1 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x3_nn_align1>(int)"
ALIGN4 = "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(int)"
DOUBLE = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>(int)"


@pytest.mark.parametrize(
    ("kernel", "device", "metadata", "cause"),
    [
        (b.FP32, {}, {}, "dtype"),  # a V100's Tensor Cores do not take float32
        (b.FP32, A100, {}, "tf32_unknown"),  # TF32 may be off, or the product small
        (b.FP32, A100, {"precision": "float32"}, "tf32"),
        (b.FP32, A100, {"precision": "tf32"}, "library"),
        (b.FP32, NAMELESS, {}, "gpu_unknown"),  # volta_ runs on later GPUs too
        (FFMA, NAMELESS, {}, "tf32_unknown"),  # sm80_ runs on 8.0 and later alone, which have TF32
        (b.FP32, P100, {}, "gpu"),
        (b.FP32, MI300, {}, "not_nvidia"),
        (HALF_CONV, {}, {}, "library"),
        (NCHW, {}, {}, "layout"),  # cuDNN changes layouts around its convolutions alone
        (NCHW, P100, {}, "type"),
        (b.OTHER, {}, {}, "type"),  # Eigen's own multiply nothing, whatever this one does
        ("void gemv2T_kernel_val<int, int, float>(int)", {}, {}, "type"),
        ("matrix_addition2D(float*, float*)", {}, {}, "type"),
        (MYSTERY, {}, {}, "kernels_unknown"),
        (ALIGN1, A100, {}, "tc_misaligned"),
        (ALIGN4, A100, {}, "none"),  # 16 bytes of TF32
        (DOUBLE, A100, {}, "none"),
        (IM2COL, {}, {}, "op_unknown"),
    ],
)
def test_causes_by_names_alone(kernel: str, device: dict[str, Any], metadata: dict[str, Any], cause: str) -> None:
    assert causes(run((kernel, -1, 1_000), device=device, **metadata)) == {kernel: cause}


def test_what_transforms_a_convolution_has_its_cause() -> None:
    found = run((HALF_CONV, -1, 1_000), (IM2COL, -1, 100), ("void splitKreduce_kernel<32>(int)", -1, 10))
    assert causes(found) == {
        HALF_CONV: "library", IM2COL: "library", "void splitKreduce_kernel<32>(int)": "op_unknown",
    }  # fmt: skip


def test_a_product_in_tf32_says_that_its_kind_may_be_rounded() -> None:
    conv = "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4"
    old = "void dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int)"
    found = run((conv, -1, 1_000), (old, -1, 100), (b.FP32, -1, 10), device=A100)
    assert causes(found) == {conv: "none", old: "library", b.FP32: "tf32_unknown"}  # PyTorch sets products apart


def test_a_helper_belongs_to_products_that_are_all_on_tensor_cores() -> None:
    split = "void splitKreduce_kernel<32>(int)"
    alone = run((b.TC, -1, 1_000), (split, -1, 10))
    assert causes(alone)[split] == "none"
    assert unnamed(alone) == (0.0, None)  # nothing that an op's name would tell
    assert causes(run((b.TC, -1, 1_000), (MYSTERY, -1, 100), (split, -1, 10)))[split] == "op_unknown"
    assert causes(run((split, -1, 10), (b.OTHER, -1, 10)))[split] == "op_unknown"


def test_an_aligned_size_in_the_graph_outweighs_nothing_that_the_kernel_says() -> None:
    found = run((ALIGN1, 0, 1_000), ops=(("a/MatMul", "MatMul", "bfloat16"),), device=A100)
    assert causes(found) == {ALIGN1: "tc_misaligned"}


def launch(stream: int, kernel: str, op_id: int, step: int, start: int, ns: int) -> dict[str, Any]:
    return {"device": 0, "stream": stream, "kernel": kernel, "op_id": op_id, "start_ns": start, "duration_ns": ns,
            "config_id": -1, "launch_ns": step * 1000, "iteration": step}  # fmt: skip


def test_streams_share_and_a_step_that_does_not_count_has_its_part() -> None:
    """Steps 1 and 2 count, from 1000 to 2900.

    1000-1300 MatMul of step 1; 1200-1400 BiasAdd of step 1; 1350-1450 Softmax of step 0, and nothing of it counts
    so 1000-1200: MatMul 200; 1200-1300: 50 each; 1300-1350: BiasAdd 50; 1350-1400: 25 each; 1400-1450: Softmax 50
    2000-2300 MatMul of step 2; a copy 2250-2350: 50 without a kernel
    busy 450 + 300, copies 50, idle 1900 - 800.
    """
    rows = [
        launch(7, b.TC, 0, 1, 1000, 300), launch(8, b.OTHER, 1, 1, 1200, 200), launch(9, b.OTHER, 2, 0, 1350, 100),
        launch(7, b.TC, 0, 2, 2000, 300),
    ]  # fmt: skip
    copy = {"device": 0, "stream": 7, "start_ns": 2250, "duration_ns": 100, "kind": "MemcpyH2D", "iteration": 2}
    tables = b.table(LAUNCHES, rows), b.table(MEMORY_OPS, [copy])
    names = b.details(("a/MatMul", "MatMul", "float16"), ("a/BiasAdd", "BiasAdd"), ("a/Softmax", "Softmax"))
    marks = b.marks([0, 1000, 2000], 900)
    found = analyse(b.profile(*tables, names, b.devices({}), marks), Options(iter_start=1, iter_stop=2))
    assert bar(found) == {
        (0, "none"): 250 + 300, (0, "type"): 50 + 50 + 25, (0, "other_step"): 25 + 50, (0, "copy"): 50,
        (0, "idle"): 1100,
    }  # fmt: skip
    assert {row["op"]: row["split_ns"] for row in found.require("ops").rows()} == {"a/MatMul": 550, "a/BiasAdd": 125}
