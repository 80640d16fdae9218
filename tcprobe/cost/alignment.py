"""What an unaligned size costs: its rate relative to an aligned one, by GPU, dtype and library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tcprobe.cost.constants import Constants, Multiplier, RateFamily
from tcprobe.gemm.alignment import ALIGN_BYTES
from tcprobe.hardware import Gpu
from tcprobe.schema.op import Contiguous

Library = Literal["cublas10", "cublas11", "cublas12"]
Misalignment = Literal["odd", "even", "output"]
BYTES: Final[dict[RateFamily, int]] = {"tc16": 2, "tf32": 4, "fp32": 4, "fp8": 1, "int8": 1}

# Public timings of cuBLAS through PyTorch, 2024 (autoheuristic-datasets), aligned products of the same size = 1; all
# dimensions 1024 or more. low and high: the least and the largest ratio among dtypes and sets of measurements.
# A100: odd 85.0/211.2 (fp16), 86.6/222.8 (bf16), 91/225 (second set); even 134.8/211.2, 138.4/222.8, 145/225; only the
# result's rows odd 67-73. TF32: odd 65.7/108.3, even 66.0/108.3; a multiple of 4 is aligned.
# H100: even 239-273 beside 570-650 (five products), odd 132.7/600 (one product); no other class was measured there.
_A100: Final = {
    "tc16:odd": Multiplier(0.37, 0.40, 0.43),
    "tc16:even": Multiplier(0.60, 0.63, 0.66),
    "tc16:output": Multiplier(0.30, 0.33, 0.36),
    "tf32:odd": Multiplier(0.58, 0.61, 0.70),
}
_HOPPER: Final = {
    "tc16:odd": Multiplier(0.17, 0.22, 0.30),
    "tc16:even": Multiplier(0.37, 0.45, 0.55),
    "tc16:output": Multiplier(0.17, 0.22, 0.30),
}
# How much slower an unaligned product is if memory is its limit (same data): A100 1.2-1.3, H100 1.5-1.9, at least
# 1.1.
_A100_MEMORY: Final = Multiplier(1 / 1.3, 1 / 1.2, 1 / 1.1)
_HOPPER_MEMORY: Final = Multiplier(1 / 1.9, 1 / 1.7, 1 / 1.1)
WIDER: Final = 1.3  # widens each side of a multiplier measured on another generation; a judgement, not a measurement
NO_SLOWDOWN: Final = Multiplier(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Penalty:
    """How much alignment slows down one product.

    Attributes:
        compute: its rate relative to an aligned product, if arithmetic is the limit.
        memory: the same if memory is the limit.
        level: alignment of its sizes; None if aligned.
        why: where the figure comes from, if it was not measured on this GPU.
        of: id of the GPU that was timed, if it is of another generation.
    """

    compute: Multiplier = NO_SLOWDOWN
    memory: Multiplier = NO_SLOWDOWN
    level: Misalignment | None = None
    why: str | None = None
    of: str | None = None


def level_of(sizes: Sequence[int | None], family: RateFamily) -> Misalignment | None:
    """Return how far the worst contiguous size is from whole 16 bytes; None if all fit or all are unknown.

    ``odd`` leaves a single element over, ``even`` more. Source: cuBLAS 12, "Tensor Core Usage".
    """
    units = ALIGN_BYTES // BYTES[family]
    worst = min((_divisor(size, units) for size in sizes if size), default=units)
    if worst >= units:
        return None
    return "odd" if worst == 1 else "even"


def product_level(contiguous: Sequence[Contiguous], family: RateFamily) -> Misalignment | None:
    """Return the measured class of a product's sizes; None if all are aligned or alignment does not matter here.

    ``output``, the slowest class: both operands are aligned and the rows of the result are odd. For TF32, odd and even
    sizes run alike (65.7 and 66.0 TFLOP/s on an A100). On CUDA cores, unaligned float32 is as fast (17.3 and 17.7).
    """
    sizes = [c.size for c in contiguous]
    level = None if family == "fp32" else level_of(sizes, family)
    if family == "tf32" and level == "even":
        return "odd"
    if family == "tc16" and level == "odd" and len(sizes) == 3 and level_of(sizes[:2], family) is None:
        return "output"
    return level


def penalty_of(contiguous: Sequence[Contiguous], family: RateFamily, gpu: Gpu, constants: Constants | None) -> Penalty:
    """Return the penalty of a matrix multiplication (cuBLAS 11 or later).

    Args:
        contiguous: innermost dimensions of the two operands and, if there are three, of the result, in this order.
        family: family of the operands' dtype; 1-byte types have no penalty here (float8 must be aligned).
        gpu: decides which measurements apply.
        constants: calibrated constants, whose multipliers take precedence.
    """
    level = product_level(contiguous, family)
    if level is None or family not in ("tc16", "tf32"):
        return Penalty()
    major = gpu.compute_capability[0]
    memory = _HOPPER_MEMORY if major >= 9 else _A100_MEMORY
    own = constants.multipliers.get(f"gemm:{family}:{level}") if constants else None
    if own is not None:
        return Penalty(own, memory, level)
    key = f"{family}:{level}"
    if gpu.compute_capability == (8, 0):
        return Penalty(_A100[key], memory, level, _UNMEASURED)
    if major >= 9 and key in _HOPPER:
        if major == 9:
            return Penalty(_HOPPER[key], memory, level, f"{_UNMEASURED}, few sizes of this generation")
        why = f"{_BORROWED} those of the H100, range widened"
        return Penalty(_wide(_HOPPER[key]), _wide(memory), level, why, "h100-sxm")
    why = f"{_BORROWED} those of the A100, range widened"
    return Penalty(_wide(_A100[key]), _wide(memory), level, why, "a100-sxm-80")


_UNMEASURED: Final = "slowdown of unaligned sizes from published timings"
_BORROWED: Final = "slowdown of unaligned sizes not measured on this generation:"


def _wide(value: Multiplier) -> Multiplier:
    return Multiplier(value.low / WIDER, value.mid, min(1.0, value.high * WIDER))


def _divisor(size: int, units: int) -> int:
    """Return the largest power of two up to `units` that divides `size`."""
    return min(size & -size, units)
