"""What an unaligned size costs: the measured rates, the slow layout, and who borrows whose."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tcprobe.cost.alignment import (
    SMALL_ERROR,
    WIDER,
    Penalty,
    is_nt,
    level_of,
    penalty_of,
    product_level,
    published_pct,
)
from tcprobe.cost.constants import Constants, Multiplier, RateFamily, fitted, shipped
from tcprobe.cost.measured import conv_record, gemm_record
from tcprobe.cost.predict import Target, op_cost
from tcprobe.gemm.ops import gemms_of
from tcprobe.hardware import find_gpu
from tcprobe.schema.op import Contiguous, OpRecord
from tests.support import ROOT


def penalty(gpu: str, m: int, n: int, k: int, family: RateFamily = "tc16", **flips: bool) -> Penalty:
    (gemm,) = gemms_of(gemm_record(m, n, k, "float16", **flips))
    known = find_gpu(gpu)
    return penalty_of(gemm.contiguous, family, known, fitted(known, family).rate, least=min(m, n, k))


def tflop_per_s(gpu: str, found: Penalty, family: RateFamily = "tc16") -> float:
    """Return the likely rate of the best tile."""
    known = find_gpu(gpu)
    peak = known.peak_flop_per_s("float16" if family == "tc16" else "tf32") or 0.0
    return found.compute.mid * fitted(known, family).rate.emax * peak / 1e12


@pytest.mark.parametrize(
    ("sizes", "family", "level"),
    [
        ((8, 16, 4096), "tc16", None),
        ((8, 12), "tc16", "even"),
        ((8, 10), "tc16", "even"),
        ((8, 9), "tc16", "odd"),
        ((8, 10, 9), "tc16", "odd"),
        ((4, 12), "tf32", None),
        ((4, 6), "tf32", "even"),
        ((16, 8), "fp8", "even"),
        ((None, 9), "tc16", "odd"),
        ((None, None), "tc16", None),
        ((), "tc16", None),
    ],
)
def test_sixteen_bytes_decide(sizes: tuple[int | None, ...], family: RateFamily, level: str | None) -> None:
    assert level_of(sizes, family) == level


NN: dict[str, bool] = {}
NT = {"transpose_b": True}  # a Dense layer's dgrad
TN = {"transpose_a": True}  # its wgrad
TT = {"transpose_a": True, "transpose_b": True}


@pytest.mark.parametrize(
    ("shape", "flips", "family", "rate"),
    [
        ((4096, 4096, 4096), NN, "tc16", None),
        ((4095, 4096, 4096), NN, "tc16", None),  # rows of the left operand are contiguous in nothing
        ((4095, 4096, 4096), NT, "tc16", None),
        ((4096, 4096, 4095), TN, "tc16", None),  # nor is the contraction here
        ((4096, 4094, 4096), NN, "tc16", 141.0),
        ((4096, 4096, 4092), NN, "tc16", 141.0),
        ((4096, 4095, 4096), NN, "tc16", 87.0),
        ((4096, 4096, 4095), NN, "tc16", 87.0),
        ((4095, 4096, 4096), TN, "tc16", 87.0),  # the left operand's rows are m
        ((4096, 4096, 4095), NT, "tc16", 75.0),
        ((4096, 4095, 4096), NT, "tc16", 75.0),  # only the result's rows are odd: no slower than the operands'
        ((4096, 4095, 4094), NT, "tc16", 75.0),
        ((4096, 4094, 4096), NT, "tc16", 135.0),
        ((4096, 4095, 4096), TT, "tc16", 87.0),  # only the result's rows are odd, but not NT
        ((4096, 4095, 4096), NN, "tf32", 65.7),
        ((4096, 4094, 4096), NT, "tf32", 65.7),
        ((4096, 4092, 4096), NN, "tf32", None),
        ((4096, 4095, 4096), NN, "fp32", None),
    ],
)
def test_an_a100_as_measured(
    shape: tuple[int, int, int], flips: dict[str, bool], family: RateFamily, rate: float | None
) -> None:
    gpu = "a100-sxm-80"
    found = penalty(gpu, *shape, family, **flips)
    assert (found.level is None) == (rate is None)
    if rate is None:
        assert found == Penalty()
        return
    assert tflop_per_s(gpu, found, family) == pytest.approx(rate, rel=1e-6)
    assert (found.is_own, found.of) == (True, None)
    assert found.compute.high / found.compute.low < 1.13


@pytest.mark.parametrize(
    ("gpu", "more"),
    [("a100-sxm-40", 1.0), ("a100-pcie-80", 1.0), ("a30", WIDER), ("a100-sxm-80-mig-3g.40gb", WIDER)],
)
def test_a_part_of_the_chip_widens_the_range(gpu: str, more: float) -> None:
    found, own = penalty(gpu, 4096, 4095, 4096), penalty("a100-sxm-80", 4096, 4095, 4096)
    assert (found.is_own, found.of) == (True, "a100-sxm-80")
    assert found.compute.mid == own.compute.mid
    assert found.compute.low == pytest.approx(own.compute.low / more)
    assert found.compute.high == pytest.approx(own.compute.high * more)


def test_an_unaligned_rate_does_not_follow_the_aligned_one() -> None:
    """A stack that runs aligned products slower runs unaligned ones as fast."""
    gpu = find_gpu("a100-sxm-80")
    rate = fitted(gpu, "tc16").rate
    (gemm,) = gemms_of(gemm_record(4096, 4095, 4096, "float16"))
    fast, slow = (penalty_of(gemm.contiguous, "tc16", gpu, replace(rate, emax=emax)) for emax in (0.96, 0.72))
    assert 0.96 * fast.compute.mid == pytest.approx(0.72 * slow.compute.mid)


def test_a_small_dimension_widens_the_range() -> None:
    large, small = penalty("a100-sxm-80", 4096, 4095, 4096), penalty("a100-sxm-80", 1024, 4095, 4096)
    assert small.compute.mid == large.compute.mid
    assert small.compute.high == pytest.approx(small.compute.mid * SMALL_ERROR)
    assert small.compute.low == pytest.approx(small.compute.mid / SMALL_ERROR)


def test_the_layout_is_in_what_is_contiguous() -> None:
    def contiguous(record: OpRecord) -> tuple[Contiguous, ...]:
        return gemms_of(record)[0].contiguous

    assert [is_nt(contiguous(gemm_record(8, 16, 24, "float16", **f))) for f in (NN, NT, TN, TT)] == [0, 1, 0, 0]
    dot = OpRecord("dot", ((8, 24), (16, 24)), (8, 16), {
        "dot_dimension_numbers": {"lhs_contracting_dimensions": [1], "rhs_contracting_dimensions": [1]}
    }, "float16")  # fmt: skip
    assert is_nt(contiguous(dot))
    einsum = OpRecord("Einsum", ((8, 24), (16, 24)), (8, 16), {"equation": "mk,nk->mn"}, "float16")
    assert is_nt(contiguous(einsum))
    assert not is_nt(contiguous(conv_record("dgrad", "float16", (8, 28, 28, 63), 63, (3, 3))))


@pytest.mark.parametrize(("n", "rate"), [(4094, 255.0), (4095, 132.7)])
@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "gh200"])
def test_hopper_as_measured_on_few_sizes(gpu: str, n: int, rate: float) -> None:
    found = penalty(gpu, 4096, n, 4096, **TN)
    assert tflop_per_s(gpu, found) == pytest.approx(rate, rel=0.03)
    assert not found.is_own
    nt = penalty(gpu, 4096, n, 4096, **NT)
    assert nt.compute.mid < found.compute.mid
    assert nt.compute.high == found.compute.high  # not measured


def test_an_unmeasured_generation_borrows_and_doubts_more() -> None:
    found, own = penalty("b200", 4096, 4095, 4096), penalty("h100-sxm", 4096, 4095, 4096)
    assert found.compute.mid == pytest.approx(own.compute.mid)
    assert found.compute.low == pytest.approx(own.compute.low / WIDER)
    assert found.compute.high == pytest.approx(own.compute.high * WIDER)
    assert found.of == "h100-sxm"


@pytest.mark.parametrize("gpu", ["l40s", "t4", "v100-sxm2", "rtx3090", "rtx5090"])
@pytest.mark.parametrize("n", [4094, 4095])
def test_an_sm_with_a_lower_peak_loses_less_of_it(gpu: str, n: int) -> None:
    """From the A100's share of the peak to its rate per clock and SM, the geometric mean likely."""
    found, own, known = penalty(gpu, 4096, n, 4096), penalty("a100-sxm-80", 4096, n, 4096), find_gpu(gpu)
    a100 = find_gpu("a100-sxm-80")
    a_clock, clock = (g.peaks["float16"] / (g.sm * g.boost_mhz) for g in (a100, known))
    assert found.compute.low == own.compute.low
    assert found.compute.high == pytest.approx(min(1.0, own.compute.mid * a_clock / clock))
    assert found.compute.mid == pytest.approx((own.compute.mid * found.compute.high) ** 0.5)
    assert found.of == "a100-sxm-80"


@pytest.mark.parametrize(("n", "tflop_per_s"), [(2055, 115.6), (2057, 106.8), (2071, 110.9), (2073, 112.0)])
def test_odd_products_of_an_rtx_4090_lie_in_the_range(n: int, tflop_per_s: float) -> None:
    """pytorch/pytorch#181718, bfloat16: 2,040 reaches 155.9 TFLOP/s."""
    cost = op_cost(gemm_record(n, n, n, "bfloat16"), Target(find_gpu("rtx4090")))
    assert cost is not None
    assert cost.low_ns < 2e-3 * n**3 / tflop_per_s < cost.high_ns


def test_tf32_on_hopper_lies_between_the_a100s_share_and_its_rate_per_clock() -> None:
    found, own = (penalty(gpu, 4096, 4095, 4096, "tf32").compute for gpu in ("h100-sxm", "a100-sxm-80"))
    # an SM of an H100 does 2,048 FLOP per clock in TF32, one of an A100 1,024
    assert found.low == pytest.approx(own.low / 2, rel=0.01)
    assert found.mid == pytest.approx(own.mid / 2**0.5, rel=0.01)
    assert found.high == pytest.approx(own.high)
    assert penalty("h100-sxm", 4096, 4095, 4096, "tf32").of == "a100-sxm-80"


def test_a_convolution_is_relative_to_aligned_products_of_the_same_timings() -> None:
    channels = (Contiguous("channels", 63), Contiguous("filters", 64))
    for gpu in ("a100-sxm-80", "a30"):
        known = find_gpu(gpu)
        found = penalty_of(channels, "tc16", known, fitted(known, "tc16").rate)
        assert (found.level, found.compute.mid) == ("odd", pytest.approx(0.40, abs=0.005))


def test_where_memory_is_the_limit_an_a100_takes_1_7_times_as_long() -> None:
    found = penalty("a100-sxm-40", 4096, 4095, 4096)
    assert found.memory.mid == pytest.approx(1 / 1.7)
    assert found.memory.low < found.memory.mid < found.memory.high < 1


@pytest.mark.parametrize(
    ("size", "family", "capability", "gpu", "pct"),
    [
        (4090, "tc16", (8, 0), "a100-sxm-80", 63),
        (4091, "tc16", (7, 5), "a100-sxm-80", 40),
        (4091, "tc16", (9, 0), "h100-sxm", 22),
        (4090, "tc16", None, "a100-sxm-80", 63),
        (4090, "tf32", (9, 0), "a100-sxm-80", 61),
    ],
)
def test_published_rates(size: int, family: RateFamily, capability: tuple[int, int], gpu: str, pct: int) -> None:
    assert published_pct(size, family, capability) == (find_gpu(gpu), pct)


def test_calibrated_multipliers_go_first() -> None:
    own, nt = Multiplier(0.5, 0.6, 0.7), Multiplier(0.4, 0.5, 0.6)
    rates = shipped()["t4"].rates
    constants = Constants("a100-sxm-40", "here", "calibrated", rates, {}, {"gemm:tc16:odd": own})
    (gemm,) = gemms_of(gemm_record(64, 65, 64, "float16"))
    (turned,) = gemms_of(gemm_record(64, 65, 64, "float16", transpose_b=True))
    found = penalty_of(gemm.contiguous, "tc16", find_gpu("a100-sxm-40"), rates["tc16"], constants)
    assert (found.compute, found.of) == (own, None)
    assert (product_level(gemm.contiguous, "tc16"), product_level(turned.contiguous, "tc16")) == ("odd", "nt_odd")
    # of the layout if it was measured, else of the alignment
    with_nt = replace(constants, multipliers={"gemm:tc16:odd": own, "gemm:tc16:nt_odd": nt})
    for known, expected in ((constants, own), (with_nt, nt)):
        found = penalty_of(turned.contiguous, "tc16", find_gpu("a100-sxm-40"), rates["tc16"], known)
        assert found.compute == expected


@pytest.mark.parametrize(
    ("row", "family", "capability"),
    [
        ("float16, bfloat16 on an A100", "tc16", (8, 0)),
        ("float16, bfloat16 on an H100 (few points)", "tc16", (9, 0)),
        ("TF32 on an A100", "tf32", (8, 0)),
    ],
)
def test_the_rates_in_the_documentation(row: str, family: RateFamily, capability: tuple[int, int]) -> None:
    lines = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8").splitlines()
    (cells,) = ([cell.strip() for cell in line.split("|")[2:5]] for line in lines if line.startswith(f"| {row} |"))
    for size, cell in zip((63, 62, 60), cells, strict=True):
        assert cell == (
            "full rate" if family == "tf32" and size == 60 else f"{published_pct(size, family, capability)[1]} %"
        )
