"""The error of past predictions: float32 convolutions by size, and a GPU that its power limit slows down."""

from __future__ import annotations

import pytest

from tcprobe.cost.measured import conv_record, gemm_record
from tcprobe.cost.predict import Cost, Target, op_cost
from tcprobe.cost.spread import pooled
from tcprobe.hardware import find_gpu
from tcprobe.schema.finding import Range


def convolution(side: int, gpu: str = "v100-pcie", pass_: str = "forward", taps: int = 3, **options: str) -> Cost:
    record = conv_record(pass_, "float32", (32, side, side, 256), 256, (taps, taps))
    found = op_cost(record, Target(find_gpu(gpu), tf32=False, **options))  # type: ignore[arg-type]
    assert found is not None
    return found


def per_position(side: int, **options: str) -> float:
    return convolution(side, **options).ns / side**2


@pytest.mark.parametrize("gpu", ["a100-pcie-80", "v100-pcie", "t4", "p100"])
def test_a_float32_convolution_of_3x3_gains_on_large_images(gpu: str) -> None:
    assert per_position(6, gpu=gpu) > 3 * per_position(64, gpu=gpu)
    found = convolution(28, gpu)
    assert found.high_ns / found.low_ns < 2.5


def test_sizes_beyond_those_timed_change_nothing_more() -> None:
    assert per_position(512) == pytest.approx(per_position(256), rel=0.1)


def test_a_gradient_was_timed_by_deepbench_alone() -> None:
    forward, wgrad = convolution(28), convolution(28, pass_="wgrad")
    assert wgrad.high_ns / wgrad.low_ns > 1.5 * forward.high_ns / forward.low_ns


@pytest.mark.parametrize("options", [{"taps": 5}, {"library": "cublas10"}])
def test_what_deepbench_timed_keeps_its_factor(options: dict[str, str]) -> None:
    found = convolution(28, **options)  # type: ignore[arg-type]
    assert found.constants is not None and found.constants.convolutions_of == "v100-sxm2"


def test_an_l4_sustains_a_third_of_its_float32_peak() -> None:
    found = op_cost(gemm_record(8192, 8192, 8192, "float32"), Target(find_gpu("l4"), tf32=False))
    assert found is not None
    assert 2e-3 * 8192**3 / found.ns == pytest.approx(9, rel=0.1)  # TFLOP/s of 30
    assert found.high_ns / found.low_ns < 1.5


# NeuSight's timings of PyTorch 2.1, of the half that no constant was fitted to: sizes, us
@pytest.mark.parametrize(
    ("gpu", "sizes", "measured_us"),
    [
        ("l4", (160, 128, 4096, 4096), 96_193),
        ("l4", (4096, 196, 196, 96), 5_395),
        ("a100-pcie-40", (425, 371, 712, 72), 1_759),  # a wave takes 24 us whatever the contraction
        ("a100-pcie-40", (266, 99, 216, 65), 148),
        ("t4", (1023, 56, 229, 415), 4_601),
        ("p100", (172, 357, 536, 137), 2_199),
    ],
)
def test_batched_products_in_float32(gpu: str, sizes: tuple[int, int, int, int], measured_us: float) -> None:
    batch, m, n, k = sizes
    found = op_cost(gemm_record(m, n, k, "float32", batch), Target(find_gpu(gpu), tf32=False))
    assert found is not None
    assert found.low_ns <= 1e3 * measured_us <= found.high_ns


def test_what_was_hardly_timed_has_a_wider_range() -> None:
    def width(m: int, n: int, k: int) -> float:
        found = op_cost(gemm_record(m, n, k, "float32"), Target(find_gpu("h100-sxm"), tf32=False))
        assert found is not None
        return found.high_ns / found.low_ns

    wide = pytest.approx(1.69 * width(4096, 4096, 4096))
    assert (width(8192, 16, 8192), width(64, 64, 64)) == (wide, wide)


def test_the_errors_of_unlike_products_cancel_out_in_part() -> None:
    one = Range(8.0, 10.0, 16.0)
    assert pooled([one]) == one
    two = pooled([one, one])  # 0.4 of the variance in common: 0.4 x 4^2 + 0.6 x (2^2 + 2^2) = 11.2, and 9 times that
    assert (two.low, two.mid, two.high) == pytest.approx((20 - 11.2**0.5, 20.0, 20 + 100.8**0.5))
    assert pooled([one, one], shared=1.0) == Range(16.0, 20.0, 32.0)
    assert pooled([]) == Range(0.0, 0.0, 0.0)
