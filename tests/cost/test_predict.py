"""The predicted time of an op: who uses Tensor Cores, what alignment, XLA and old libraries do to it."""

from __future__ import annotations

import subprocess
import sys
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tcprobe.cost.constants import RELATIVE, Constants, Multiplier, fitted, shipped
from tcprobe.cost.measured import conv_record, gemm_record
from tcprobe.cost.predict import (
    DIRECT_SPREAD,
    GROUPED_SLOWER,
    Cost,
    Target,
    gains,
    op_cost,
    padding,
    saving,
)
from tcprobe.hardware import find_gpu, load_gpus
from tcprobe.schema.op import OpRecord
from tcprobe.schema.provenance import Provenance, Stack

A100 = Target(find_gpu("a100-sxm-40"))
IMAGE = (4096, 28, 28)  # of the GAN whose last layer started it


def target(gpu: str = "a100-sxm-40", **options: Any) -> Target:
    return Target(find_gpu(gpu), **options)


def known(record: OpRecord, on: Target = A100, **options: Any) -> Cost:
    found = op_cost(record, on, **options)
    assert found is not None
    return found


def gemm(m: int, n: int, k: int, dtype: str = "float16", **flips: bool) -> OpRecord:
    return gemm_record(m, n, k, dtype, **flips)


def conv(pass_: str, channels: int, filters: int, dtype: str = "float16", kernel: int = 5) -> OpRecord:
    return conv_record(pass_, dtype, (*IMAGE, channels), filters, (kernel, kernel))


def grouped(channels: int, groups: int) -> OpRecord:
    image = (32, 56, 56, channels)
    taps = (3, 3, channels // groups, channels)
    return OpRecord("Conv2D", (image, taps), image, {"padding": "SAME", "strides": [1, 1, 1, 1]}, "float16", "forward")


def test_a_large_aligned_product() -> None:
    found = known(gemm(8192, 8192, 8192))
    # 1.1 TFLOP at 312 TFLOP/s is 3.52 ms; the best measured share of the peak is 0.96
    assert 3.52e6 / 0.97 < found.ns < 3.52e6 / 0.75
    assert (found.limit, found.uses_tc, found.rate_pct, found.basis) == ("compute", "yes", None, "predicted")


def test_limits() -> None:
    assert known(gemm(8, 8, 8)).limit == "launch"
    assert known(gemm(8, 16384, 16384)).limit == "memory"


@pytest.mark.parametrize(
    ("shape", "flips", "measured"),
    [
        ((8192, 4095, 4096), {}, 86.0),
        ((8192, 4094, 4096), {}, 136.9),
        ((8192, 4095, 4096), {"transpose_b": True}, 72.8),
        ((8192, 4096, 4094), {"transpose_b": True}, 130.0),
    ],
)
def test_a_large_unaligned_product_has_a_rate_of_its_own(
    shape: tuple[int, int, int], flips: dict[str, bool], measured: float
) -> None:
    """TFLOP/s on an A100, whatever a stack makes of aligned products."""
    m, n, k = shape
    found, aligned = known(gemm(m, n, k, **flips)), known(gemm(8192, 4096, 4096))
    assert 2e-3 * m * n * k / found.ns == pytest.approx(measured, rel=0.09)  # tiles and waves count too
    assert found.high_ns / found.low_ns < 1.2
    assert found.rate_pct is not None
    assert found.rate_pct.mid == pytest.approx(100 * aligned.ns / found.ns, rel=0.06)
    assert found.uses_tc == "yes"
    assert found.evidence == "timed"


def test_a_skinny_product_loses_less() -> None:
    skinny, heavy = known(gemm(16, 4095, 4096)), known(gemm(8192, 4095, 4096))
    assert skinny.rate_pct is not None and heavy.rate_pct is not None
    assert 100 / 1.7 - 1 < skinny.rate_pct.mid < 100
    assert skinny.rate_pct.mid > heavy.rate_pct.mid + 20
    assert skinny.high_ns / skinny.low_ns > heavy.high_ns / heavy.low_ns


@pytest.mark.parametrize("pass_", [{}, {"transpose_b": True}])
def test_the_batch_costs_nothing(pass_: dict[str, bool]) -> None:
    aligned, odd = known(gemm(4096, 4096, 4096, **pass_)), known(gemm(4095, 4096, 4096, **pass_))
    assert odd.rate_pct is None
    assert odd.ns <= aligned.ns


@pytest.mark.parametrize(
    ("gpu", "dtype", "options", "uses"),
    [
        ("a100-sxm-40", "float32", {}, "yes"),
        ("a100-sxm-40", "float32", {"tf32": False}, "no"),
        ("a100-sxm-40", "bfloat16", {}, "yes"),
        ("t4", "float32", {}, "no"),
        ("t4", "float16", {}, "yes"),
        ("t4", "bfloat16", {}, "no"),
        ("v100-sxm2", "bfloat16", {}, "no"),
        ("p100", "float16", {}, "no"),
        ("gtx1650", "float16", {}, "no"),
        ("h100-sxm", "float8_e4m3fn", {}, "yes"),
        ("t4", "int8", {}, "yes"),
    ],
)
def test_who_uses_tensor_cores(gpu: str, dtype: str, options: dict[str, Any], uses: str) -> None:
    assert known(gemm(4096, 4096, 4096, dtype), target(gpu, **options)).uses_tc == uses


def test_float32_on_cuda_cores_does_not_mind_odd_sizes() -> None:
    odd, aligned = gemm(4095, 4095, 4095, "float32"), gemm(4096, 4096, 4096, "float32")
    for on in (target("t4"), target(tf32=False)):
        assert known(odd, on).rate_pct is None
        assert known(odd, on).ns == pytest.approx(known(aligned, on).ns, rel=0.01)
    assert known(odd).rate_pct is not None  # TF32


def test_sixteen_bits_on_a_gtx_16_are_slower_than_float32() -> None:
    plain, half = (
        known(gemm(4096, 4096, 4096, "float32"), target("gtx1650")),
        known(gemm(4096, 4096, 4096), target("gtx1650")),
    )
    assert half.ns == pytest.approx(3 * plain.ns)
    assert half.high_ns > 4 * half.low_ns


def test_before_cuda_11_an_unaligned_product_uses_no_tensor_cores() -> None:
    old = target("v100-sxm2", library="cublas10")
    aligned, odd = known(gemm(4096, 4096, 4096), old), known(gemm(4096, 4095, 4096), old)
    assert (aligned.uses_tc, odd.uses_tc) == ("yes", "no")
    assert odd.ns / aligned.ns == pytest.approx(125 / 15.7, rel=0.2)  # the peaks
    assert known(gemm(4095, 4096, 4096), old).uses_tc == "no"  # then the batch counted too
    assert known(gemm(4096, 4095, 4096), target("v100-sxm2")).uses_tc == "yes"


def test_float8_must_be_aligned() -> None:
    h100 = target("h100-sxm")
    aligned, odd = (
        known(gemm(4096, 4096, 4096, "float8_e4m3fn"), h100),
        known(gemm(4096, 4104, 4096, "float8_e4m3fn"), h100),
    )
    assert (aligned.uses_tc, odd.uses_tc) == ("yes", "unknown")
    assert odd.evidence == "judged"
    assert op_cost(gemm(4096, 4096, 4096, "float8_e4m3fn"), A100) is None


@pytest.mark.parametrize(
    "record",
    [
        gemm(4096, 4096, 4096, "complex64"),
        gemm(4096, 4096, 4096, "float16+float32"),
        OpRecord("MatMul", ((None, 8), (8, 8)), None, {"transpose_a": False, "transpose_b": False}, "float16"),
        OpRecord("MatMul", ((0, 8), (8, 8)), None, {"transpose_a": False, "transpose_b": False}, "float16"),
        OpRecord("MatMul", ((8, 8), (8, 8)), None, {"transpose_a": False, "transpose_b": False}),
        OpRecord("DepthwiseConv2dNative", ((8, 8, 8, 8), (3, 3, 8, 1)), (8, 8, 8, 8), {}, "float16"),
        OpRecord("Relu", ((8, 8),), (8, 8), {}, "float16"),
        OpRecord("Conv2D", ((None, 28, 28, 8), (3, 3, 8, 8)), None, {"padding": "SAME"}, "float16", "forward"),
    ],
)
def test_what_is_not_known_has_no_cost(record: OpRecord) -> None:
    assert op_cost(record, A100) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8"])
@pytest.mark.parametrize("gpu", ["a100-sxm-40", "h100-sxm", "l40s", "v100-sxm2", "t4", "p100", "gtx-1660"])
@pytest.mark.parametrize("sizes", [(16384, 16384, 16384), (262144, 8, 16384), (262144, 768, 50264)])
def test_no_time_beats_the_gpu(gpu: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    where = target(gpu)
    cost = op_cost(gemm(*sizes, dtype), where)
    if cost is None:
        return
    m, n, k = sizes
    peaks = [where.gpu.peak_flop_per_s(d) for d in ((dtype,) if dtype != "float32" else ("float32", "tf32"))]
    # where the table has no rate of its own: float16 on CUDA cores is twice float32 at the most, bfloat16 not that
    plain = (where.gpu.peak_flop_per_s("float32") or 0.0) * (2 if dtype == "float16" else 1)
    peak = max(p or plain for p in peaks)
    assert cost.low_ns >= 0.999 * 2e9 * m * n * k / peak


def test_bfloat16_before_ampere_is_no_faster_than_float32() -> None:
    half, plain = (known(gemm(8192, 8192, 8192, d), target("v100-sxm2")) for d in ("bfloat16", "float32"))
    assert half.low_ns >= 0.99 * plain.low_ns


def test_xla_pads_dots_of_16_bits() -> None:
    aligned, odd = known(gemm(4096, 4096, 4096)), known(gemm(4096, 4096, 4095), compiled=True)
    rate = fitted(find_gpu("a100-sxm-40"), "tc16").rate
    # both operands are copied: 4,095 columns read and 4,096 written, twice, in 2 bytes
    copies = 2 * 4096 * (4095 + 4096) * 2 / (1555 * rate.bwf)
    assert odd.low_ns == pytest.approx(aligned.low_ns, rel=1e-3)  # both at the peak, for 4,095 and for 4,096
    assert odd.ns == pytest.approx(aligned.ns + copies * rate.spread[1], rel=1e-6)
    assert odd.ns < known(gemm(4096, 4096, 4095), compiled=False).ns
    assert odd == known(gemm(4096, 4096, 4095), target(xla=True))
    assert known(gemm(4096, 4096, 4095), target(xla=True), compiled=False).ns > odd.ns


def test_the_result_of_a_padded_dot_is_likely_sliced_by_what_reads_it() -> None:
    likely, rate = known(gemm(8192, 4090, 4096), compiled=True), fitted(find_gpu("a100-sxm-40"), "tc16").rate
    aligned = known(gemm(8192, 4096, 4096))
    weights, result = (2 * rows * (4090 + 4096) / (1555 * rate.bwf) for rows in (4096, 8192))
    assert likely.ns == pytest.approx(aligned.ns + weights * rate.spread[1], rel=1e-6)
    worst = aligned.high_ns + (weights + result + 3 * rate.t0_ns) * rate.spread[2]
    assert likely.high_ns == pytest.approx(worst, rel=1e-6)


def test_xla_pads_no_tf32_and_no_bfloat16_before_ampere() -> None:
    tf32 = gemm(4096, 4095, 4096, "float32")
    assert known(tf32, compiled=True) == known(tf32, compiled=False)
    half = gemm(4096, 4095, 4096)
    assert known(half, target("t4"), compiled=True).ns < known(half, target("t4"), compiled=False).ns


@pytest.mark.parametrize(
    ("channels", "filters", "dtype", "padded"),
    [
        (31, 7, "float16", True),
        (63, 31, "float16", True),
        (3, 64, "float16", True),  # to 4 channels
        (8, 1, "float16", False),  # the result would grow eightfold
        (3, 24, "float16", False),  # so would the image, 3 to 8
        (31, 7, "bfloat16", False),
        (31, 7, "float32", False),
    ],
)
def test_xla_pads_float16_convolutions_that_grow_little(channels: int, filters: int, dtype: str, padded: bool) -> None:
    record = conv("forward", channels, filters, dtype)
    alone, compiled = known(record, compiled=False), known(record, compiled=True)
    assert (compiled != alone) == padded
    if padded:
        multiple = 4 if channels == 3 else 8
        whole = conv("forward", -(-channels // multiple) * multiple, -(-filters // 8) * 8)
        assert compiled.low_ns == pytest.approx(known(whole).low_ns, rel=1e-3)


def test_a_weight_gradient_of_one_filter_may_fall_to_cuda_cores() -> None:
    found = known(conv("wgrad", 8, 1))
    assert found.uses_tc == "unknown"
    assert found.ns == pytest.approx(4 * 10.09e6, rel=0.01)  # of 1,024 images 10.0-10.3 ms
    assert found.high_ns == pytest.approx(found.ns * DIRECT_SPREAD)
    assert found.low_ns < 2e6  # cuDNN's usual kernel
    gain = saving(conv("wgrad", 8, 1), conv("wgrad", 8, 8), A100)
    assert gain is not None
    assert 30e6 < gain.mid < found.ns and gain.low <= 0
    for other in (conv("forward", 8, 1), conv("dgrad", 8, 1), conv("wgrad", 8, 7), conv("wgrad", 8, 1, "float32")):
        assert known(other).ns < 5e6


def test_xla_was_seen_to_take_another_kernel_for_one_filter() -> None:
    found = known(conv("wgrad", 8, 1), target(xla=True))
    assert found.high_ns < 10e6  # no cluster of the GAN's step under XLA took as long as the direct kernel, 40 ms
    assert found == known(conv("wgrad", 8, 1), compiled=True)


def test_convolutions_in_tf32_turn_their_tensors() -> None:
    record = conv("forward", 32, 8, "float32")
    turned, last, plain = (known(record, target(**o)) for o in ({}, {"channels_last": True}, {"tf32": False}))
    # 411 MB of image and 103 of result are read and written once more, at 0.855 of 1,555 GB/s
    assert turned.ns - last.ns == pytest.approx(2 * 513.8e6 / (1555 * 0.855), rel=0.01)
    assert (turned.low_ns - last.low_ns) / (turned.high_ns - last.high_ns) == pytest.approx(0.4)
    assert plain == known(record, target(tf32=False, channels_last=True))
    half = conv("forward", 32, 8)
    assert known(half) == known(half, target(channels_last=True))


def test_a_thin_product_in_float32_is_bound_by_what_it_writes() -> None:
    """6400 x 32768 x 4 took 494 us through PyTorch on an A100, in all layouts (autoheuristic-datasets)."""
    found = known(gemm(6400, 32768, 4, "float32"), target("a100-sxm-80", tf32=False))
    assert found.limit == "memory"
    assert found.timed_ns == pytest.approx(494e3, rel=0.2)
    vector = known(gemm(9984, 1, 4480, "float32"), target("a100-sxm-80", tf32=False))
    assert vector.low_ns < 135e3 < vector.high_ns


# TFLOP/s of an H100 SXM that no constant was fitted to (bench/gpu/results): m, n, k
@pytest.mark.parametrize(
    ("sizes", "flips", "measured"),
    [
        ((8480, 8064, 1536), {"transpose_a": True}, 227),
        ((4096, 4096, 4092), {"transpose_b": True}, 353),
        ((4096, 4089, 4096), {"transpose_a": True}, 120),
        ((4096, 4089, 4096), {"transpose_b": True}, 130),
    ],
)
def test_tf32_on_an_h100(sizes: tuple[int, int, int], flips: dict[str, bool], measured: float) -> None:
    found = known(gemm(*sizes, "tf32", **flips), target("h100-sxm"))
    assert 2e-3 * sizes[0] * sizes[1] * sizes[2] / found.ns == pytest.approx(measured, rel=0.15)


def test_an_a100_runs_all_layouts_of_tf32_alike() -> None:
    layouts = ({}, {"transpose_a": True}, {"transpose_b": True})
    assert len({known(gemm(4096, 4096, 4096, "tf32", **flips)).ns for flips in layouts}) == 1


def test_two_to_four_filters_were_not_seen_to_fall() -> None:
    one, three, five = (known(conv("wgrad", 8, filters)) for filters in (1, 3, 5))
    assert three.ns < one.ns / 10
    assert three.high_ns > one.ns
    assert five.high_ns < one.ns
    assert (three.uses_tc, five.uses_tc) == ("unknown", "yes")


def test_unaligned_convolutions_lie_between_none_and_the_slowdown_of_a_product() -> None:
    aligned, found = known(conv("forward", 64, 32)), known(conv("forward", 63, 31))
    assert found.low_ns == pytest.approx(aligned.low_ns, rel=0.02)
    assert found.rate_pct is not None
    assert (found.rate_pct.low, found.rate_pct.high) == (pytest.approx(35, abs=3), pytest.approx(100, abs=1))
    assert found.evidence == "between"


def test_an_image_of_one_channel_pays_for_the_channels_that_a_kernel_steps_over() -> None:
    one, many = known(conv("forward", 1, 64, kernel=3)), known(conv("forward", 32, 64, kernel=3))
    assert one.ns == pytest.approx(many.ns, rel=0.35)
    v100 = target("v100-sxm2")
    half, plain = known(conv("forward", 1, 32), v100), known(conv("forward", 1, 32, "float32"), v100)
    assert half.ns > plain.ns  # DeepBench: 5-8 times


def test_float32_convolutions_of_unit_stride_multiply_less_on_cuda_cores() -> None:
    v100 = target("v100-sxm2")
    image = (32, 28, 28, 256)
    unit = known(conv_record("wgrad", "float32", image, 256, (3, 3)), v100)
    strided = known(conv_record("wgrad", "float32", image, 256, (3, 3), (2, 2)), v100)
    assert unit.ns < 0.7 * 4 * strided.ns  # a quarter of the positions, and no Winograd


def test_there_was_no_tf32_before_cuda_11() -> None:
    old, later = (known(gemm(4096, 4096, 4096, "float32"), target(library=lib)) for lib in ("cublas10", "cublas11"))
    assert old == known(gemm(4096, 4096, 4096, "float32"), target(tf32=False, library="cublas10"))
    assert (old.uses_tc, later.uses_tc) == ("no", "yes")


@pytest.mark.parametrize("channels", [32, 256])
def test_groups_of_one_channel_are_no_products(channels: int) -> None:
    assert op_cost(grouped(channels, channels), A100) is None
    assert op_cost(grouped(channels, channels // 2), A100) is not None


def test_grouped_convolutions_are_doubted() -> None:
    found, plain = known(grouped(256, 32)), known(grouped(256, 1))
    assert found.rate_pct is not None and found.rate_pct.low == pytest.approx(100 / GROUPED_SLOWER)
    assert found.evidence == "judged"
    assert plain.rate_pct is None


@pytest.mark.parametrize(
    ("record", "evidence"),
    [
        (gemm(4096, 4096, 4096), "timed"),
        (gemm(4096, 4095, 4096), "timed"),
        (gemm(4096, 33, 4095), "timed"),
        (gemm(2, 50, 4096), "judged"),  # two samples: memory bounds it
        (gemm(4096, 50, 32), "judged"),
        (conv("forward", 64, 64), "timed"),
        (conv("forward", 64, 63), "between"),
        (conv("wgrad", 64, 63), "between"),
        (conv("wgrad", 8, 1), "timed"),  # 26 % of a GAN's step on an A100
        (conv("wgrad", 8, 1, "bfloat16"), "timed"),
        (conv("forward", 8, 1), "between"),
        (conv("wgrad", 8, 3), "judged"),
        (conv("wgrad", 8, 3, "float32"), "between"),  # the direct kernel is that of 16 bits
        (grouped(256, 64), "judged"),
        (gemm(4096, 4095, 4096, "float8_e4m3fn"), "judged"),
    ],
)
def test_a_cost_says_whether_such_kernels_were_timed(record: OpRecord, evidence: str) -> None:
    gpu = target("h100-sxm") if record.dtype and "float8" in record.dtype else A100
    assert known(record, gpu).evidence == evidence


def test_before_cuda_11_few_filters_run_on_cuda_cores_as_float32_does() -> None:
    assert known(conv("wgrad", 8, 3), target("v100-sxm2", library="cublas10")).evidence == "timed"


def test_a_recurrent_layer_waits_for_each_step() -> None:
    def lstm(steps: int) -> OpRecord:
        return OpRecord(
            "CudnnRNNV3", ((steps, 64, 256), (1, 64, 512)), None, {"rnn_mode": "lstm"}, "float16", "forward"
        )

    assert known(lstm(100)).ns > 8 * known(lstm(10)).ns


def test_a_gpu_without_measurements_borrows_and_says_so() -> None:
    own, other = known(gemm(4096, 4096, 4096), target("a100-sxm-80")), known(gemm(4096, 4096, 4096), target("a30"))
    assert own.constants == Provenance("a100-sxm-80", "a100-sxm-80", Stack("framework", "PyTorch"))
    assert own.constants.borrowed == {}
    assert other.constants == replace(own.constants, gpu="a30", widened=RELATIVE)
    assert other.constants.borrowed == {"gpu": "a100-sxm-80"}
    assert other.high_ns / other.low_ns > own.high_ns / own.low_ns


def test_whose_constants_each_figure_rests_on() -> None:
    b200 = known(gemm(4096, 4095, 4096, "float32"), target("b200")).constants
    assert b200 is not None
    assert (b200.measured_on, b200.stack, b200.dtype) == ("b200", Stack("serving", "vLLM"), "tc16")
    assert (b200.framework_of, b200.unaligned_of, b200.convolutions_of) == ("a100-sxm-80", "a100-sxm-80", None)
    assert tuple(b200.borrowed) == ("dtype", "stack", "alignment")
    conv_of_t4, conv_of_a100 = (known(conv("forward", 64, 64), target(gpu)).constants for gpu in ("t4", "a100-sxm-80"))
    assert conv_of_t4 is not None and conv_of_t4.borrowed == {"stack": "a100-sxm-80"}
    assert conv_of_a100 is not None and conv_of_a100.convolutions_of == "v100-sxm2"
    own = Constants("t4", "here", "calibrated", shipped()["t4"].rates, stack=Stack("framework", "TensorFlow 2.21.0"))
    mine = known(gemm(4096, 4096, 4096), target("t4", constants=own)).constants
    assert mine == Provenance("t4", "t4", own.stack)


def test_a_launch_is_no_part_of_a_kernel() -> None:
    """A framework's launch costs a step 5-7 us a product; the kernel is as long through either stack, but for rates."""
    tiny = gemm(8, 8, 8)
    for gpu in ("a100-sxm-80", "h100-sxm", "h200-sxm", "l40s"):
        framework, serving = known(tiny, target(gpu)), known(tiny, target(gpu, through="serving"))
        assert (serving.launch_ns, serving.timed_ns) == (0, serving.ns)
        assert 5000 < framework.launch_ns < 7000
        assert framework.timed_ns == framework.ns + framework.launch_ns
        assert framework.ns == pytest.approx(serving.ns, rel=0.15)
    framework, benchmark = (known(tiny, target("t4", through=through)) for through in ("framework", "serving"))
    assert framework.ns < 0.8 * benchmark.ns  # a call of DeepBench holds part of its launch
    saved = saving(gemm(8192, 4090, 4096), gemm(8192, 4096, 4096), A100)
    before, after = known(gemm(8192, 4090, 4096)), known(gemm(8192, 4096, 4096))
    assert saved is not None and saved.mid == pytest.approx(before.ns - after.ns)


def test_a_framework_reaches_less_than_a_serving_stack() -> None:
    """8192 cubed is 1.1 TFLOP: 86 % of the peak at most through vLLM, 74 % (A100) and 62 % (H100) through PyTorch."""
    for gpu, least, most in (("a100-sxm-80", 1.1, 1.3), ("h100-sxm", 1.1, 1.3), ("t4", 0.999, 1.001)):
        framework, serving = (known(gemm(8192, 8192, 8192), target(gpu, through=t)) for t in ("framework", "serving"))
        assert least <= framework.ns / serving.ns <= most


@pytest.mark.parametrize("gpu", load_gpus(), ids=lambda gpu: gpu.id)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_gpu_has_a_cost(gpu: Any, dtype: str) -> None:
    for record in (gemm(512, 500, 300, dtype), conv("wgrad", 31, 7, dtype), conv("dgrad", 3, 1, dtype)):
        found = known(record, Target(gpu))
        assert 0 < found.low_ns <= found.ns <= found.high_ns


def test_calibrated_constants_go_first() -> None:
    own = Constants(
        "a100-sxm-40",
        "here",
        "calibrated",
        shipped()["a100-sxm-80"].rates,
        {"tc16:forward": (0.9, 1.0, 1.1)},
        {"conv:tc16:forward:odd": Multiplier(0.4, 0.5, 0.6)},
    )
    found = known(conv("forward", 63, 31), target(constants=own))
    assert found.basis == "calibrated"
    assert found.evidence == "timed"
    assert found.rate_pct is not None and found.rate_pct.mid == pytest.approx(50, abs=1)


def test_saving_is_before_less_after_with_errors_that_go_together() -> None:
    before, after = gemm(8192, 4090, 4090), gemm(8192, 4096, 4096)
    gain = saving(before, after, A100)
    assert gain is not None
    assert gain.mid == pytest.approx(known(before).ns - known(after).ns)
    assert 0 < gain.low < gain.mid < gain.high
    assert saving(before, OpRecord("Relu"), A100) is None


def test_padding_that_costs_more_than_it_gains_is_negative() -> None:
    gain = saving(gemm(4096, 4096, 4088), gemm(4096, 8192, 4096), A100)
    assert gain is not None and gain.high < 0


SIZES = st.integers(1, 20_000)
TARGETS = st.builds(
    Target,
    st.sampled_from(load_gpus()),
    st.sampled_from(["cublas10", "cublas11", "cublas12"]),
    st.booleans(),
    st.booleans(),
)


@given(SIZES, SIZES, SIZES, st.sampled_from(["float32", "float16", "bfloat16", "int8", "float8_e5m2"]), TARGETS)
def test_ends_are_in_order(m: int, n: int, k: int, dtype: str, on: Target) -> None:
    found = op_cost(gemm(m, n, k, dtype), on)
    if found is not None:
        assert 0 < found.low_ns <= found.ns <= found.high_ns
        if found.rate_pct is not None:
            assert 0 < found.rate_pct.low <= found.rate_pct.mid <= found.rate_pct.high <= 100


@given(SIZES, st.integers(1, 2000), SIZES, st.sampled_from(["a100-sxm-40", "h100-sxm", "l40s", "t4"]))
def test_an_aligned_size_costs_no_more_than_the_work_that_it_adds(m: int, eighth: int, k: int, gpu: str) -> None:
    n = 8 * eighth
    aligned, below = known(gemm(m, n, k), target(gpu)), known(gemm(m, n - 1, k), target(gpu))
    # up to the third power: bytes that no longer fit the cache come slower
    assert aligned.ns <= below.ns * (n / (n - 1)) ** 3


@given(SIZES, SIZES, SIZES)
def test_twice_the_contraction_takes_at_most_twice_as_long(m: int, n: int, k: int) -> None:
    h200 = target("h200-sxm", library="cublas12")
    once, twice = known(gemm(m, 8 * n, 8 * k), h200), known(gemm(m, 8 * n, 16 * k), h200)
    assert once.ns <= twice.ns <= 2 * once.ns * (1 + 1e-9)


@given(
    st.integers(1, 20_000),
    st.integers(1, 500),
    st.integers(1, 500),
    st.sampled_from(["a100-sxm-40", "h200-sxm", "l40s"]),
)
def test_more_rows_never_take_less(m: int, n: int, k: int, gpu: str) -> None:
    fewer, more = known(gemm(m, 8 * n, 8 * k), target(gpu)), known(gemm(m + 1, 8 * n, 8 * k), target(gpu))
    assert fewer.ns <= more.ns * (1 + 1e-9)


def test_a_call_takes_well_under_a_millisecond() -> None:
    record = gemm(4096, 4095, 4096)
    assert min(timeit.repeat(lambda: op_cost(record, A100), number=20, repeat=5)) / 20 < 1e-3


def test_it_loads_nothing_heavy() -> None:
    code = "import sys, tcprobe.cost.predict; print(sorted({'numpy', 'pandas', 'tensorflow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_padding_at_run_time_may_lose_where_the_copies_weigh() -> None:
    large, short = padding(gemm(8192, 4095, 4096), A100), padding(gemm(512, 4096, 4094), A100)
    assert large is not None and short is not None
    assert 0 < large.low < large.mid < large.high
    assert short.low <= 0 < short.high


def test_padding_copies_a_twelfth_to_a_fifth_of_a_large_product() -> None:
    """1.09-1.19 times the padded product was measured."""
    before, gain = known(gemm(8192, 8192, 8191)), padding(gemm(8192, 8192, 8191), A100)
    assert gain is not None
    assert 1.09 < (before.ns - gain.mid) / known(gemm(8192, 8192, 8192)).ns < 1.19


@pytest.mark.parametrize(
    "record",
    [
        gemm(4096, 4096, 4096),
        gemm(4096, 4095, 4096, "float8_e4m3fn"),
        conv("forward", 63, 64),
        OpRecord("Relu", ((8, 8),), (8, 8), {}, "float16"),
    ],
)
def test_nothing_to_pad(record: OpRecord) -> None:
    assert padding(record, target("h100-sxm")) is None


def test_the_error_of_a_measured_rate_is_not_that_of_an_aligned_product() -> None:
    odd, whole, larger = (known(gemm(4096, 4096, k)) for k in (4095, 4096, 8192))
    assert gains(larger, whole) == tuple(
        a - b for a, b in ((getattr(larger, e), getattr(whole, e)) for e in ("low_ns", "ns", "high_ns"))
    )
    low, likely, high = gains(odd, whole)
    assert likely == pytest.approx(odd.ns - whole.ns)
    assert odd.low_ns - whole.high_ns < low < min(odd.low_ns - whole.low_ns, odd.high_ns - whole.high_ns)
    assert max(odd.low_ns - whole.low_ns, odd.high_ns - whole.high_ns) < high < odd.high_ns - whole.low_ns


@pytest.mark.parametrize("name", ["v100-sxm2", "t4", "a10g"])
@pytest.mark.parametrize("shape", [(18193, 12097, 4), (8193, 8191, 8191), (4095, 17, 8191)])
def test_before_cuda_11_no_product_beats_the_gpus_bandwidth_or_peak(name: str, shape: tuple[int, int, int]) -> None:
    gpu, (m, n, k) = find_gpu(name), shape
    found = op_cost(gemm(m, n, k), Target(gpu, "cublas10"))
    assert found is not None
    moved = 2 * (m * k + k * n + m * n) - gpu.l2_bytes
    assert found.low_ns >= 1e9 * moved / gpu.bandwidth_bytes_per_s
    assert found.low_ns >= 1e9 * 2 * m * n * k / gpu.peaks["float16"]
