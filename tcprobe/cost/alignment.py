"""What an unaligned size costs: the rate that such products reach, by GPU, dtype, layout and library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from tcprobe.cost.constants import BYTES, Constants, Multiplier, Rate, RateFamily, RunsThrough, fitted
from tcprobe.gemm.record import ALIGN_BYTES
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.schema.op import Contiguous

Library = Literal["cublas10", "cublas11", "cublas12"]
Misalignment = Literal["odd", "even", "nt_odd", "nt_even"]


WIDER: Final = 1.3
"""Widens the ends of what was measured on another generation: a judgement, not a measurement.

An odd product runs in one kernel on A100 and RTX 4090, CUTLASS's `tensorop_s1688gemm` of alignment 1. It makes 565
FLOP per clock and SM on an A100, 28 % of the peak, 550 and 13 % on an H100, 330-360 and 65-70 % on an RTX 4090 (four
products of 2,055 to 2,073: 106.8-115.6 of 165.2 TFLOP/s, the aligned one of 2,040 155.9; pytorch/pytorch#181718). So
where an SM has a lower peak, the share of the peak that the A100 reaches is the slow end, its rate per clock and SM
the fast one, their geometric mean likely.
"""
LARGE_ERROR: Final = 1.06
"""Each side of an A100's rate: 80 % of products lie within 1.6 times the mean error, here 3.5 % (6,322 products)."""
SMALL_ERROR: Final = 1.18
"""The same where a dimension is below `SMALL`: the mean error is 10-12 %."""
SMALL: Final = 2048


class _Unaligned(Struct, frozen=True):
    """Rates of one class of unaligned products, in TFLOP/s."""

    measured: float  # of large products
    tile: Multiplier  # of the best tile, slowest, likely and fastest: what the tile model starts from


class _Timed(Struct, frozen=True):
    """Public timings of cuBLAS through PyTorch, 2024 (autoheuristic-datasets; six products of `_H100` apart)."""

    gpu: str  # the GPU that was timed
    aligned: dict[RateFamily, float]  # TFLOP/s of large aligned products in the same timings, by family
    rates: dict[str, _Unaligned]  # by family and alignment


def _rate(measured: float, error: float, tile: float | None = None, nt: float = 1.0) -> _Unaligned:
    """Return a class whose best tile's rate is known within a factor; `nt` of 1 or less slows all but the fast end."""
    best = measured if tile is None else tile
    return _Unaligned(measured * nt, Multiplier(best * nt / error, best * nt, best * error))


# A100, 16 bits (float16 and bfloat16 together): medians of 6,103 products of 1,024 and more in every dimension. In NT,
# where both operands are contiguous along the contraction (TensorFlow's transpose_b: a Dense layer's dgrad), any odd
# size has one rate, the result's rows alone too. The best tile's: 0.29, 0.47, 0.25 and 0.45 of the 300 TFLOP/s of an
# aligned product's, fitted to half of these products. Aligned: 211.2 in float16, 222.8 in bfloat16.
# TF32: odd 65.7, even 66.0; a multiple of 4 is aligned.
_A100: Final = _Timed(
    "a100-sxm-80",
    {"tc16": 217.0, "tf32": 108.3},
    {
        "tc16:odd": _rate(86.0, LARGE_ERROR, 0.29 * 300),
        "tc16:even": _rate(136.9, LARGE_ERROR, 0.47 * 300),
        "tc16:nt_odd": _rate(72.8, LARGE_ERROR, 0.25 * 300),
        "tc16:nt_even": _rate(130.0, LARGE_ERROR, 0.45 * 300),
        "tf32:odd": _rate(65.7, LARGE_ERROR),
    },
)
# H100: even 239-273, the middle of five products; odd 132.7, one product; aligned 570-650. All six are TN: NT is as
# fast, or likely slower by as much as on the A100.
_H100: Final = _Timed(
    "h100-sxm",
    {"tc16": 600.0},
    {
        "tc16:odd": _rate(132.7, WIDER),
        "tc16:even": _rate(255.0, SMALL_ERROR),
        "tc16:nt_odd": _rate(132.7, WIDER, nt=72.8 / 86.0),
        "tc16:nt_even": _rate(255.0, SMALL_ERROR, nt=130.0 / 136.9),
    },
)
# How much slower an unaligned product is if memory is its limit (same data): A100 1.7 times, H100 1.5-1.9; at least
# 1.1. The A100's range is a judgement.
_A100_MEMORY: Final = Multiplier(1 / 1.7 / WIDER, 1 / 1.7, WIDER / 1.7)
_H100_MEMORY: Final = Multiplier(1 / 1.9, 1 / 1.7, 1 / 1.1)
_AS_H100: Final = (9, 10, 11)  # 12.x has neither its instructions nor its peak per SM: it is like 8.9
HOPPER_TF32: Final = 1 / 1.36
"""Rate of TF32 on a GPU of compute capability 9.x where neither operand is contiguous along the contraction.

Its `wgmma` reads 32-bit operands along the contraction only (PTX ISA, wgmma: transposed operands are of 16 bits), so
that other kernels run. Median of four products of an H100 with HBM2e, over the other layouts; the other five of the
same timings are 1.26-1.78 times slower, but one that memory bounds. An A100 runs all layouts alike.
"""
NO_SLOWDOWN: Final = Multiplier(1.0, 1.0, 1.0)


class Penalty(Struct, frozen=True):
    """How much alignment slows down one product."""

    compute: Multiplier = NO_SLOWDOWN  # its rate relative to an aligned product, if arithmetic is the limit
    memory: Multiplier = NO_SLOWDOWN  # the same if memory is the limit
    level: Misalignment | None = None  # alignment of its sizes; None if aligned
    # whether `compute` is a rate measured on this GPU: then the error of aligned products is not in it
    is_own: bool = False
    of: str | None = None  # id of the GPU that was timed, if it is not this one


def level_of(sizes: Sequence[int | None], family: RateFamily) -> Literal["odd", "even"] | None:
    """Return how far the worst contiguous size is from whole 16 bytes; None if all fit or all are unknown.

    ``odd`` leaves a single element over, ``even`` more. Source: cuBLAS 12, "Tensor Core Usage".
    """
    units = ALIGN_BYTES // BYTES[family]
    worst = min((size & -size for size in sizes if size), default=units)  # the largest power of two that divides all
    if worst >= units:
        return None
    return "odd" if worst == 1 else "even"


def product_level(contiguous: Sequence[Contiguous], family: RateFamily) -> Misalignment | None:
    """Return the measured class of a product's sizes; None if all are aligned or alignment does not matter here.

    ``nt_`` classes: both operands are contiguous along the contraction (`is_nt`). For TF32, odd and even sizes run
    alike (65.7 and 66.0 TFLOP/s on an A100). On CUDA cores, unaligned float32 is as fast (17.3 and 17.7).
    """
    level = None if family == "fp32" else level_of([c.size for c in contiguous], family)
    if level is None or family != "tc16":
        return "odd" if level == "even" and family == "tf32" else level
    if is_nt(contiguous):
        return "nt_odd" if level == "odd" else "nt_even"
    return level


def is_nt(contiguous: Sequence[Contiguous]) -> bool:
    """Return whether both operands are contiguous along the contraction: A[M,K] B[N,K]^T, row-major.

    A convolution's operands are channels and filters: it has no such layout here, as cuDNN arranges its operands.
    """
    return len(contiguous) >= 2 and all(c.role == "k" for c in contiguous[:2])


def penalty_of(
    contiguous: Sequence[Contiguous],
    family: RateFamily,
    gpu: Gpu,
    rate: Rate,
    constants: Constants | None = None,
    least: int = SMALL,
    through: RunsThrough = "framework",
) -> Penalty:
    """Return the penalty of a matrix multiplication (cuBLAS 11 or later).

    Args:
        contiguous: innermost dimensions of the two operands and, if there are three, of the result, in this order.
        family: family of the operands' dtype; 1-byte types have no penalty here (float8 must be aligned).
        gpu: decides which measurements apply.
        rate: constants of aligned products, to which a penalty of this GPU's is relative. A convolution's and another
            GPU's are relative to aligned products of the same timings, and of that GPU.
        constants: calibrated constants, whose multipliers take precedence.
        least: the product's smallest dimension.
        through: what runs the product.
    """
    level = product_level(contiguous, family)
    if level is None or family not in ("tc16", "tf32"):
        return Penalty()
    timed = _timed(family, gpu.compute_capability[0])
    memory = _H100_MEMORY if gpu.compute_capability[0] in _AS_H100 else _A100_MEMORY
    own = _calibrated(constants, family, level)
    if own is not None:
        return Penalty(own, memory, level)
    rates = timed.rates[f"{family}:{level}"].tile
    if least < SMALL:
        rates = Multiplier(min(rates.low, rates.mid / SMALL_ERROR), rates.mid, max(rates.high, rates.mid * SMALL_ERROR))
    convolution = any(c.role in ("channels", "filters") for c in contiguous)
    known = find_gpu(timed.gpu)
    measured = gpu.compute_capability == known.compute_capability
    aligned = timed.aligned[family]  # in TFLOP/s; that of a product's best tile
    if not convolution:
        best = rate if measured else fitted(known, family, through).rate
        aligned = best.emax * (known.peak_flop_per_s("tf32" if family == "tf32" else "float16") or 0.0) / 1e12
    # an unaligned product has a rate of its own, which hardly depends on how fast a stack runs aligned ones
    compute = Multiplier(*(min(1.0, value / aligned) for value in (rates.low, rates.mid, rates.high)))
    of = None if gpu.id == timed.gpu else timed.gpu
    if measured and timed is _H100:
        return Penalty(compute, memory, level, of=of)  # few sizes of this generation were timed
    if measured:
        # on other boards of the whole chip power should not lower the clock so far below the peak: a judgement; a
        # convolution's own range holds what it borrows
        part = gpu.sm != known.sm and not convolution
        return Penalty(_wide(compute) if part else compute, memory, level, True, of)
    times = _per_clock(known) / _per_clock(gpu)
    if family == "tf32":  # an SM of a later GPU with a higher peak leaves more of it unused
        compute = _down_to(compute, times) if times < 1 else _wide(compute)
    else:
        compute = _up_to(compute, times) if times > 1 else _wide(compute)
    return Penalty(compute, _wide(memory), level, of=of)


def published_pct(size: int, family: RateFamily, compute_capability: tuple[int, int] | None) -> tuple[Gpu, int]:
    """Return the GPU that was timed for a generation, and its rate with an unaligned size over an aligned one, in %."""
    timed = _timed(family, (compute_capability or (0, 0))[0])
    level = product_level([Contiguous("n", size)], family)
    return find_gpu(timed.gpu), round(100 * timed.rates[f"{family}:{level}"].measured / timed.aligned[family])


RATE_FAMILIES: Final[dict[str, RateFamily]] = {"fp16": "tc16", "bf16": "tc16", "tf32": "tf32"}
"""Precisions of kernels whose unaligned products were timed."""


def slowest_published(size: int, family: RateFamily, compute_capability: tuple[int, int] | None) -> tuple[float, Gpu]:
    """Return the lowest rate of large products of such a size over that of aligned ones, 0-1, and the GPU timed.

    The layout is not asked for: where the contraction is contiguous in both operands (nt), they are slower still.
    """
    timed = _timed(family, (compute_capability or (0, 0))[0])
    level = product_level([Contiguous("n", size)], family)
    rates = [
        timed.rates[name].measured for name in (f"{family}:{level}", f"{family}:nt_{level}") if name in timed.rates
    ]
    return min(1.0, min(rates, default=timed.aligned[family]) / timed.aligned[family]), find_gpu(timed.gpu)


def _timed(family: RateFamily, major: int) -> _Timed:
    return _H100 if major in _AS_H100 and family in _H100.aligned else _A100


def _calibrated(constants: Constants | None, family: RateFamily, level: Misalignment) -> Multiplier | None:
    """Return the user's own multiplier; of the layout if it was measured, else of the alignment."""
    found = {} if constants is None else constants.multipliers
    return found.get(f"gemm:{family}:{level}") or found.get(f"gemm:{family}:{level.removeprefix('nt_')}")


def _wide(value: Multiplier) -> Multiplier:
    return Multiplier(value.low / WIDER, value.mid, min(1.0, value.high * WIDER))


def _per_clock(gpu: Gpu) -> float:
    """Return the peak of an SM in 16 bits, in FLOP per clock."""
    return (gpu.peak_flop_per_s("float16") or 0.0) / (gpu.sm * gpu.boost_mhz * 1e6)


def _down_to(share: Multiplier, times: float) -> Multiplier:
    """Return the range from the rate per clock and SM to the share of the aligned rate, geometric mean likely.

    In 16 bits, where both were timed, an H100 reaches the A100's rate per clock with odd sizes, more with even ones.
    """
    low = share.low * times
    return Multiplier(low, math.sqrt(share.mid * times * share.mid), share.high)


def _up_to(share: Multiplier, times: float) -> Multiplier:
    """Return the range from a share of the aligned rate to so many times the likely one, geometric mean likely."""
    high = max(share.high, min(1.0, share.mid * times))
    return Multiplier(share.low, min(high, math.sqrt(share.mid * high)), high)
