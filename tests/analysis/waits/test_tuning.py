"""What counts as autotuning, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.analysis import Options, analyse
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b

CONV = ("m/conv/Conv2D", "Conv2D", "float32")
DENSE = ("m/fc/MatMul", "MatMul", "float32")
FFT = ("fft2d_r2c_32x32<float>", "fft2d_r2c_32x32<float>", "volta_gcgemm_32x32_nt", "fft2d_c2r_32x32<float>")
WINOGRAD = (
    "winograd_nonfused::winogradForwardData4x4<float>", "winograd_nonfused::winogradForwardFilter4x4<float>",
    "volta_sgemm_128x64_nn", "winograd_nonfused::winogradForwardOutput4x4<float>",
)  # fmt: skip
IMPLICIT = (
    "cudnn::gemm::computeOffsetsKernel(cudnn::gemm::ComputeOffsetsParams)",
    "volta_scudnn_128x64_relu_small_nn_v1",
)
EXPLICIT = ("im2col4d_kernel<float, int>", "cudnn::detail::explicit_convolve_sgemm<float, int>")
TILES = tuple(
    f"sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize{n}x64x32_tensor16x8x16_kernel" for n in (32, 64, 128, 256)
)


def run(*calls: tuple[int, tuple[str, ...]], step: int | None = 0, ops: tuple[Any, ...] = (CONV, DENSE)) -> Profile:
    """Calls of ops one after the other, each kernel 10 ns long."""
    names = [(op, name) for op, kernels in calls for name in kernels]
    made = b.launches(*((name, op, step, 10 * i, 10) for i, (op, name) in enumerate(names)))
    return b.profile(made, b.details(*ops), b.devices({}))


@pytest.mark.parametrize(
    "kernels",
    [
        ("volta_scudnn_128x64_relu_small_nn_v1", "redzone_checker", "redzone_checker"),
        ("nvjet_hsh_128x64_TNN", "redzone_checker_kernel"),
        ("nvjet_hsh_128x64_TNN", "__xla_fp32_comparison"),
        (*FFT, *WINOGRAD, *IMPLICIT),  # three algorithms, as cudnn.benchmark tries them
        (*FFT, *EXPLICIT, *IMPLICIT),
        (*TILES, *TILES, *TILES),  # twelve launches of four kernels
    ],
)
def test_a_call_that_tries_algorithms_is_autotuning(kernels: tuple[str, ...]) -> None:
    found = analyse(run((1, ("volta_sgemm_128x64_nn",)), (0, kernels))).tuning
    assert found is not None
    assert (found.ops, found.kernels, found.sum_ns) == (1, len(kernels), 10.0 * len(kernels))
    assert found.share_pct == pytest.approx(100 * len(kernels) / (len(kernels) + 1))
    assert (found.worst_op, found.worst_calls) == ("m/conv/Conv2D", len(kernels))


@pytest.mark.parametrize(
    "calls",
    [
        [(0, (*FFT, *FFT)), (1, ("volta_sgemm_32x32_nn",))],
        [(0, (*WINOGRAD, *IMPLICIT))],  # the two halves of a backward call of PyTorch
        [(0, IMPLICIT), (1, ("volta_sgemm_128x64_nn",)), (0, FFT), (1, ("volta_sgemm_128x64_nn",)), (0, WINOGRAD)],
        [(0, ("volta_sgemm_32x32_nn",)), (1, (b.OTHER,))] * 100,  # a loop
        [(0, ("volta_sgemm_32x32_nn",) * 200)],  # a loop without anything between
        [(0, TILES), (1, (b.OTHER,)), (0, TILES)],  # a shape a call
        [(0, TILES[:3] * 10)],
    ],
)
def test_a_call_that_runs_one_algorithm_is_none(calls: list[tuple[int, tuple[str, ...]]]) -> None:
    assert analyse(run(*calls)).tuning is None


@pytest.mark.parametrize("op_type", ["CudnnRNNV3", "XlaLaunch", "PartitionedCall", "FlashAttention", None])
def test_an_op_that_holds_many_products_is_none(op_type: str | None) -> None:
    ops = (("m/rnn", op_type, "float32"), DENSE)
    assert analyse(run((0, (*TILES, *FFT, *WINOGRAD, *IMPLICIT)), ops=ops)).tuning is None


def test_of_launches_without_an_op_only_those_around_the_checkers_count() -> None:
    kernels = (b.OTHER,) * 5 + ("nvjet_hsh_128x64_TNN", "redzone_checker", "nvjet_hsh_64x64_TNN", "redzone_checker")
    found = analyse(run((-1, (*kernels, *(b.OTHER,) * 5)))).tuning
    assert found is not None
    assert (found.ops, found.kernels, found.worst_op) == (1, 4, None)


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)"
MANY_WAYS = (*FFT, *WINOGRAD, *IMPLICIT, *EXPLICIT)


def test_without_ops_the_names_of_kernels_that_follow_one_another_tell() -> None:
    """Two convolutions tried in four ways, twelve kernels each, and another's work around them."""
    found = analyse(run((-1, (ADD, *MANY_WAYS, ADD, *MANY_WAYS[::-1], ADD, "volta_sgemm_128x64_nn")), step=None)).tuning
    assert found is not None
    assert (found.ops, found.kernels, found.worst_op, found.worst_calls) == (2, 24, None, 12)
    assert found.share_pct == pytest.approx(100 * 24 / 28)


@pytest.mark.parametrize(
    "kernels",
    [
        (*FFT, *WINOGRAD, *IMPLICIT),  # three convolutions of a network, each run in its own way
        (*FFT, ADD, *WINOGRAD, ADD, *IMPLICIT, ADD, *EXPLICIT),
        (*MANY_WAYS, ADD) * 3,  # what recurs is a step of the network
    ],
)
def test_without_ops_a_network_of_many_convolutions_is_none(kernels: tuple[str, ...]) -> None:
    assert analyse(run((-1, kernels), step=None)).tuning is None


def steps(*tuned: int, count: int = 6) -> Profile:
    """Steps of 100 ns with four kernels each; the tuned ones try three algorithms instead."""
    rows = []
    for i in range(count):
        kernels = (*FFT, *WINOGRAD, *IMPLICIT) if i in tuned else IMPLICIT * 2
        rows += [(name, 0, i, 200 * i + 10 * k, 10) for k, name in enumerate(kernels)]
    return b.profile(b.launches(*rows), b.details(CONV), b.devices({}), b.marks([200 * i for i in range(count)], 150))


@pytest.mark.parametrize(
    ("tuned", "count", "bounds"),
    [
        ((0,), 6, (1, 5)),
        ((0,), 2, (1, 1)),  # too few steps to compare their kernels
        ((4,), 7, (0, 3)),
        ((2,), 7, (3, 6)),
        ((0, 1), 3, (2, 2)),
    ],
)
def test_tuned_iterations_are_left_out_where_steps_remain(
    tuned: tuple[int, ...], count: int, bounds: tuple[int, int]
) -> None:
    found = analyse(steps(*tuned, count=count))
    window = found.metadata.window
    assert (window.first, window.last) == bounds
    assert found.tuning is None


def eager(*looped: int, count: int = 6) -> Profile:
    """Steps of twelve products of four kernels under one name, as an eager loop makes them; others of one."""
    rows = []
    for i in range(count):
        kernels = TILES * 3 if i in looped else TILES[:1]
        rows += [(name, 0, i, 500 * i + 10 * k, 10) for k, name in enumerate(kernels)]
    return b.profile(b.launches(*rows), b.details(DENSE), b.devices({}), b.marks([500 * i for i in range(count)], 450))


@pytest.mark.parametrize(("looped", "tuned"), [(range(6), False), (range(3), False), (range(2), True), ([0], True)])
def test_what_most_steps_repeat_is_no_tuning(looped: list[int], tuned: bool) -> None:
    found = analyse(eager(*looped), Options(iter_start=0, iter_stop=5))
    assert (found.tuning is not None) == tuned


def test_where_none_remains_a_warning_says_it() -> None:
    found = analyse(steps(0, 1, count=2))
    assert found.tuning is not None
    assert found.tuning.share_pct == 100.0
    assert "autotuning-inside" in {note.code for note in found.metadata.notes}


def test_a_window_that_was_asked_for_stays() -> None:
    found = analyse(steps(2), Options(iter_start=1, iter_stop=3))
    assert (found.metadata.window.first, found.metadata.window.last) == (1, 3)
    assert found.tuning is not None
    assert (found.tuning.kernels, found.tuning.worst_calls) == (10, 10)
