"""The cause of every kernel, worked out by hand: why a product is slow on Tensor Cores, or not on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.causes.kernels import Few, Kernel, OpFacts, few_of, few_of_gradients, set_causes
from tcprobe.analysis.kernels.kinds import is_direct, part_of
from tcprobe.flows.report import make_report
from tcprobe.schema.kinds import BLOCKERS
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.fixtures.gpu_run import catalogue
from tests.support import shared

MS = 1_000_000
A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108}
TC = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn"
FP32 = "ampere_sgemm_128x64_nn"
DIRECT = catalogue.DIRECT_WGRAD_NAME
ONE = Few("filters", 1)


def run(layer: dict[str, Any], *kernels: tuple[str, int], gpu: dict[str, Any] = A100, **metadata: Any) -> Profile:
    """Return five steps of 100 ms on one GPU, in each of which the op of a layer launches these kernels."""
    rows: list[tuple[Any, ...]] = []
    for step in range(5):
        at = 100 * MS * step
        for kernel, ns in kernels:
            rows.append((kernel, 0, step, at, ns))
            at += ns
    names = b.details((str(layer["op"]), layer["op_type"]))
    marks = b.marks([100 * MS * step for step in range(5)], 100 * MS - 1)
    return analyse(b.profile(b.launches(*rows), names, b.devices(gpu), marks, b.graph(layer), **metadata))


def op(profile: Profile) -> dict[str, Any]:
    return next(row for row in b.rows(profile, "ops") if row["op_type"] in ("MatMul", "Conv2D"))


def matmul(m: int, k: int, n: int) -> dict[str, Any]:
    return b.dense("l", k, n, batch=m)


# 4096^3 in float16 is 137.4 GFLOP: 440 us at an A100's 312 TFLOP/s
@pytest.mark.parametrize(
    ("layer", "ns", "cause", "peak_pct"),
    [
        (matmul(4096, 4096, 4096), 550_000, "tc_well", 80.1),
        (matmul(4096, 4096, 4096), 880_000, "tc_well", 50.1),
        # 32 x 16 tiles of 128 x 256 over 108 SMs: 4.74 waves, of 5 95 % full; nothing else costs a tenth
        (matmul(4096, 4096, 4096), 1_800_000, "tc_slow", 24.5),
        # 4095 halves of 2 bytes are no multiple of 16 bytes
        (matmul(4096, 4095, 4095), 2_000_000, "tc_misaligned", 22.0),
        # 4096 x 4096 x 8: 34 MB of weights take 21.6 us at 1.55 TB/s, its 0.27 GFLOP 0.9 us at the peak
        (matmul(8, 4096, 4096), 60_000, "tc_memory", 1.4),
        # one product of 64^3: launched and over
        (matmul(64, 64, 64), 8_000, "tc_small", 0.0),
    ],
)
def test_what_slows_a_product(layer: dict[str, Any], ns: int, cause: str, peak_pct: float) -> None:
    found = op(run(layer, (TC, ns)))
    assert found["cause"] == cause
    assert found["peak_pct"] == pytest.approx(peak_pct, abs=0.1)
    assert found["achieved_tflop_per_s"] == pytest.approx(312 * found["peak_pct"] / 100, rel=0.01)


def test_a_wave_that_is_mostly_empty() -> None:
    # 11 x 10 tiles of 128 x 128, each contraction split in two, are 220 for 108 SMs: the third wave holds 4
    found = op(run(matmul(128 * 11, 8192, 128 * 10), (TC, 300_000)))
    assert found["cause"] == "tc_tiles"
    assert found["tile"] is not None
    assert found["waves"] == pytest.approx(220 / 108)


def test_how_well_is_unknown_without_a_peak_or_shapes() -> None:
    unknown = {"name": "NVIDIA Something", "compute_capability": None, "sm_count": None}
    assert op(run(matmul(4096, 4096, 4096), (TC, 550_000), gpu=unknown))["cause"] == "none"
    shapes = {"input_shapes": [[None, 4096], [4096, 4096]], "output_shape": [None, 4096]}
    open_shape = {**matmul(4096, 4096, 4096), **shapes}
    found = op(run(open_shape, (TC, 550_000)))
    assert (found["cause"], found["peak_pct"]) == ("none", None)


@pytest.mark.parametrize(("sizes", "cause"), [((4095, 4093), "tc_misaligned"), ((4095, 4096), "none")])
def test_an_op_of_several_products_is_misaligned_where_all_are(sizes: tuple[int, int], cause: str) -> None:
    """Which of an op's kernels ran which of its products is not known; all of them are of sizes that slow them."""
    rows = [b.dense("l", size, size, batch=4096) for size in sizes]
    marks = b.marks([100 * MS * step for step in range(5)], 100 * MS - 1)
    launches = b.launches(*((TC, 0, step, 100 * MS * step, MS) for step in range(5)))
    names = b.details((str(rows[0]["op"]), "MatMul"))
    found = analyse(b.profile(launches, names, b.devices(A100), marks, b.graph(*rows)))
    assert op(found)["cause"] == cause


def causes(profile: Profile) -> dict[str, str]:
    return {row["kernel"]: row["cause"] for row in b.rows(profile, "kernels")}


def test_the_parts_of_an_op_have_causes_of_their_own() -> None:
    layout, helper, other = catalogue.TO_NHWC.name, catalogue.SPLIT_K.name, "my_gemm_kernel"
    found = run(
        matmul(4096, 4096, 4096), (TC, 550_000), (layout, 9_000), (helper, 5_000), (FP32, 7_000), (other, 1_000)
    )
    assert causes(found) == {
        TC: "tc_well",
        layout: "layout",
        helper: "tc_well",
        FP32: "library",
        other: "kernels_unknown",
    }
    assert op(found)["around_ns"] == 5 * 9_000
    # its rate counts the kernels that multiply and help, not the 9 us of layout
    assert op(found)["peak_pct"] == pytest.approx(100 * 440.5 / 563, abs=0.1)


@pytest.mark.parametrize(
    ("filters", "channels", "cause", "dimension", "size"),
    [(1, 8, "channels", "filters", 1), (64, 3, "channels", "channels", 3), (64, 32, "library", None, None)],
)
def test_few_channels_leave_a_library_no_choice(
    filters: int, channels: int, cause: str, dimension: str | None, size: int | None
) -> None:
    found = op(run(b.conv("c", 28, channels, filters), (DIRECT, 900_000)))
    assert (found["cause"], found["cause_dimension"], found["cause_size"]) == (cause, dimension, size)
    assert found["cause_kernel"] == "wgrad2d_grouped_direct_kernel"


def test_few_channels_are_no_cause_of_another_kernel() -> None:
    assert op(run(b.conv("c", 28, 8, 1), (FP32, 900_000)))["cause"] == "shape"


def test_groups_come_before_channels() -> None:
    grouped = OpRecord("Conv2D", ((4, 28, 28, 64), (5, 5, 16, 64)), (4, 28, 28, 64), attributes={
        "data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "SAME"})  # fmt: skip
    assert few_of(grouped, "Conv2D") == Few("groups", 4)
    assert few_of(OpRecord("MatMul", ((1, 1), (1, 1)), (1, 1)), "MatMul") is None


def test_float32_without_tf32_is_that() -> None:
    found = run(b.dense("l", 4096, 4096, batch=4096, dtype="float32"), (FP32, 9 * MS), precision="float32")
    assert causes(found)[FP32] in ("tf32", "tf32_unknown")


def every_cause_of_a_sample(path: str) -> Iterator[tuple[str, str]]:
    profile = make_report(shared(path))
    ops = {(row["op"], row["op_type"]): row for row in b.rows(profile, "ops")}
    for kernel in b.rows(profile, "kernels"):
        row = ops.get((kernel["op"], kernel["op_type"]))
        yield kernel["cause"], "op_unknown" if row is None else str(row["tc_blocker_kind"])


def test_dlprofs_shapes_tell_the_cause_of_float32() -> None:
    found = set(every_cause_of_a_sample("samples/dlprof/pytorch_1.8"))
    assert ("dtype", "dtype") in found  # an RTX 2070 SUPER has no Tensor Cores for float32
    assert {cause for cause, _ in found} <= {"dtype", "type", "layout", "op_unknown", "type_unknown"}
    assert {cause for cause, blocker in found if blocker in BLOCKERS} <= {"dtype", "type_unknown", "layout"}


@pytest.mark.parametrize(
    ("kernel", "part"),
    [
        (catalogue.TO_NHWC.name, "layout"),
        ("void cudnn::ops::nhwcToNchwKernel<float>(int)", "layout"),
        ("input_transpose_fusion_3", "layout"),
        ("void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>", "layout"),
        ("void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int>(int)", "layout"),
        ("void tensorflow::BiasNHWCKernel<float>(int, float const*)", "helps"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>(int)", "helps"),
        ("void fbgemm_gpu::permute_2D_data_kernel<false>(int)", "helps"),
        (catalogue.SPLIT_K.name, "helps"),
        ("volta_scudnn_128x32_relu_exp_medium_nhwc_tn_v1", "multiplies"),
        (TC, "multiplies"),
        (DIRECT, "multiplies"),
        ("nobody_knows", "multiplies"),
    ],
)  # fmt: skip
def test_what_part_a_kernel_has(kernel: str, part: str) -> None:
    assert part_of(kernel) == part


def test_direct_convolutions() -> None:
    assert is_direct(DIRECT)
    assert is_direct(catalogue.SGEMM_CONV.name)
    assert not is_direct(FP32)
    assert not is_direct(TC)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ([ONE], ONE),
        ([ONE, ONE], ONE),
        ([ONE, None], None),  # another convolution of the layer has channels enough
        ([], None),
    ],
)
def test_a_gradient_has_the_few_of_its_layers_convolutions(forward: list[Few | None], expected: Few | None) -> None:
    rows = [OpFacts({"op": f"c{n}", "layer": "conv", "pass": "forward"}, few=few) for n, few in enumerate(forward)]
    gradient = OpFacts({"op": "g", "layer": "conv", "pass": "wgrad"})
    other = OpFacts({"op": "m", "layer": "conv", "pass": "wgrad"})  # a product that is no convolution
    facts = {(str(fact.row["op"]), "convolution"): fact for fact in (*rows, gradient)} | {("m", "dot"): other}
    found = few_of_gradients(facts)
    assert found["g", "convolution"].few == expected
    assert found["m", "dot"].few is None
    assert all(found[f"c{n}", "convolution"].few == few for n, few in enumerate(forward))


@pytest.mark.parametrize(
    ("kind", "uses_tc", "cause"),
    [
        ("communication", "no", "type"),
        ("embedding", "no", "type"),
        ("fusion", "no", "type_unknown"),  # a compiler may have put a product of vectors there
        ("fourier", "no", "type_unknown"),  # a way to convolve
        ("elementwise", "no", "type_unknown"),  # the bias of a product, maybe
        ("embedding", "unknown", "type_unknown"),
    ],
)
def test_what_multiplies_nothing_needs_no_known_op(kind: Any, uses_tc: str, cause: str) -> None:
    kernel = Kernel(0, "k", ("custom", "Custom"), 1, 10, uses_tc, None, kind)
    set_causes({kernel.op: [kernel]}, {kernel.op: OpFacts({"tc_capable": "unknown"})})
    assert kernel.cause == cause
