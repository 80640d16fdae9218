"""What an unaligned size costs, by GPU, dtype and library: the measured table, and who borrows whose."""

from __future__ import annotations

import pytest

from tcprobe.cost.alignment import WIDER, Penalty, level_of, penalty_of, product_level
from tcprobe.cost.constants import Constants, Multiplier, RateFamily
from tcprobe.cost.measured import gemm_record
from tcprobe.cost.shipped import shipped
from tcprobe.gemm.ops import gemms_of
from tcprobe.hardware import find_gpu


def penalty(gpu: str, m: int, n: int, k: int, family: RateFamily = "tc16", **flips: bool) -> Penalty:
    (gemm,) = gemms_of(gemm_record(m, n, k, "float16", **flips))
    return penalty_of(gemm.contiguous, family, find_gpu(gpu), None)


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


@pytest.mark.parametrize(
    ("shape", "flips", "family", "mid"),
    [
        ((4096, 4096, 4096), {}, "tc16", 1.0),
        ((4095, 4096, 4096), {}, "tc16", 1.0),  # rows of the left operand are contiguous in nothing
        ((4096, 4094, 4096), {}, "tc16", 0.63),
        ((4096, 4096, 4092), {}, "tc16", 0.63),
        ((4096, 4095, 4096), {}, "tc16", 0.40),
        ((4096, 4096, 4095), {}, "tc16", 0.40),
        ((4096, 4095, 4096), {"transpose_b": True}, "tc16", 0.33),  # only the result's rows are odd
        ((4095, 4096, 4096), {"transpose_a": True}, "tc16", 0.40),  # the left operand's rows are m
        ((4096, 4095, 4096), {}, "tf32", 0.61),
        ((4096, 4094, 4096), {}, "tf32", 0.61),
        ((4096, 4092, 4096), {}, "tf32", 1.0),
        ((4096, 4095, 4096), {}, "fp32", 1.0),
    ],
)
def test_an_a100_as_measured(
    shape: tuple[int, int, int], flips: dict[str, bool], family: RateFamily, mid: float
) -> None:
    found = penalty("a100-sxm-40", *shape, family, **flips)
    assert found.compute.mid == mid
    assert (found.level is None) == (mid == 1.0)
    assert found.compute.low <= found.compute.mid <= found.compute.high


@pytest.mark.parametrize(("n", "mid"), [(4094, 0.45), (4095, 0.22)])
@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "gh200"])
def test_hopper_as_measured_on_few_sizes(gpu: str, n: int, mid: float) -> None:
    found = penalty(gpu, 4096, n, 4096)
    assert found.compute.mid == mid
    assert found.why is not None and "few sizes" in found.why


@pytest.mark.parametrize(("gpu", "owner"), [("l40s", "A100"), ("t4", "A100"), ("v100-sxm2", "A100"), ("b200", "H100")])
def test_an_unmeasured_generation_borrows_and_doubts_more(gpu: str, owner: str) -> None:
    found = penalty(gpu, 4096, 4095, 4096)
    own = penalty("a100-sxm-40" if owner == "A100" else "h100-sxm", 4096, 4095, 4096)
    assert found.compute.mid == own.compute.mid
    assert found.compute.low == pytest.approx(own.compute.low / WIDER)
    assert found.compute.high == pytest.approx(own.compute.high * WIDER)
    assert found.why is not None and owner in found.why


def test_tf32_on_hopper_was_not_measured() -> None:
    found = penalty("h100-sxm", 4096, 4095, 4096, "tf32")
    assert found.compute.mid == 0.61
    assert found.why is not None and "not measured" in found.why


def test_memory_suffers_less_than_arithmetic() -> None:
    found = penalty("a100-sxm-40", 4096, 4095, 4096)
    assert found.memory.low == pytest.approx(1 / 1.3)
    assert found.memory.low > found.compute.high


def test_calibrated_multipliers_go_first() -> None:
    own = Multiplier(0.5, 0.6, 0.7)
    constants = Constants("a100-sxm-40", "here", "calibrated", shipped()["t4"].rates, {}, {"gemm:tc16:odd": own})
    (gemm,) = gemms_of(gemm_record(64, 65, 64, "float16"))
    found = penalty_of(gemm.contiguous, "tc16", find_gpu("a100-sxm-40"), constants)
    assert (found.compute, found.why) == (own, None)
    assert product_level(gemm.contiguous, "tc16") == "odd"
