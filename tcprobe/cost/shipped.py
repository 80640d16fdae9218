"""The constants that tcprobe ships, each with its source, and which GPU takes whose.

`bench/fit_cost.py` prints the table from public measurements, fitted on a part of them; `bench/cost_model.py` tests it
on the rest and docs/cost-model.md holds what came out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from tcprobe.cost.constants import Constants, Rate, RateFamily, Spread
from tcprobe.hardware import Gpu, find_gpu

TILES: Final = (
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128),
    (64, 32), (32, 64), (16, 64),
)  # fmt: skip
_VLLM: Final = "NVIDIA aiconfigurator, vLLM"
_DEEPBENCH: Final = "Baidu DeepBench, cuDNN 7.6"


def _rate(figures: tuple[float, ...], efficiencies: tuple[float, ...], spread: Spread) -> Rate:
    """Return a rate: emax, bwf, t0_ns, split_ns, fill_k, l2_speed, l2_share, quantised, sharp; efficiencies."""
    tiles = tuple((rows, columns, e) for (rows, columns), e in zip(TILES, efficiencies, strict=True))
    emax, bwf, t0_ns, split_ns, fill_k, l2_speed, l2_share, quantised, sharp = figures
    return Rate(emax, bwf, t0_ns, split_ns, fill_k, l2_speed, l2_share, quantised, sharp, tiles, spread)


def _shipped(gpu: str, source: str, rates: dict[RateFamily, Rate], conv: dict[str, Spread] | None = None) -> Constants:
    return Constants(gpu, source, "predicted", rates, conv or {})


SHIPPED: Final[Mapping[str, Constants]] = {
    # 2360 products fitted
    "a100-sxm-80": _shipped(
        "a100-sxm-80",
        _VLLM,
        {
            "tc16": _rate(
                (0.962, 0.772, 2542, 2135, 195, 2.259, 0.05, 0.837, 3.353),
                (1.0, 1.0, 0.786, 0.739, 0.654, 0.577, 0.778, 0.594, 0.71, 0.409, 0.355, 0.308, 0.154),
                (0.868, 1.009, 1.141),
            ),
        },
    ),
    # 6000 products fitted
    "h100-sxm": _shipped(
        "h100-sxm",
        _VLLM,
        {
            "tc16": _rate(
                (0.869, 0.88, 2377, 2581, 195, 1.427, 0.081, 0.515, 4.543),
                (0.991, 0.885, 0.973, 0.978, 0.978, 0.988, 1.0, 0.508, 0.634, 0.398, 0.442, 0.337, 0.163),
                (0.927, 1.01, 1.116),
            ),
            "fp8": _rate(
                (0.566, 0.788, 5368, 10598, 232, 1.0, 0.3, 1.0, 2.444),
                (1.0, 0.658, 0.76, 1.0, 0.569, 0.75, 0.623, 0.355, 0.346, 0.562, 0.196, 0.299, 0.36),
                (0.863, 1.056, 2.017),
            ),
        },
    ),
    # 6000 products fitted
    "h200-sxm": _shipped(
        "h200-sxm",
        _VLLM,
        {
            "tc16": _rate(
                (0.846, 0.834, 2420, 2406, 175, 1.0, 1.0, 0.163, 4.793),
                (0.892, 0.892, 0.847, 0.986, 0.986, 0.996, 1.0, 0.801, 0.848, 0.631, 0.406, 0.353, 0.181),
                (0.925, 1.004, 1.115),
            ),
            "fp8": _rate(
                (0.627, 0.738, 5551, 10598, 220, 1.0, 0.3, 0.856, 2.695),
                (1.0, 0.756, 0.774, 0.775, 0.558, 0.575, 0.581, 0.315, 0.289, 0.481, 0.222, 0.31, 0.308),
                (0.852, 1.066, 2.417),
            ),
        },
    ),
    # 6000 products fitted
    "l40s": _shipped(
        "l40s",
        _VLLM,
        {
            "tc16": _rate(
                (0.719, 0.765, 1512, 1240, 77, 2.646, 0.316, 0.488, 3.701),
                (1.0, 1.0, 0.789, 0.787, 0.739, 0.577, 0.81, 0.604, 0.871, 0.603, 0.35, 0.394, 0.18),
                (0.868, 1.016, 1.354),
            ),
            "fp8": _rate(
                (0.595, 0.736, 2926, 1545, 1000, 1.888, 0.106, 0.745, 2.782),
                (1.0, 1.0, 1.0, 0.85, 0.592, 0.928, 0.577, 0.897, 0.45, 0.446, 0.35, 0.35, 0.18),
                (0.778, 1.031, 1.785),
            ),
        },
    ),
    # 403 products fitted
    "v100-sxm2": _shipped(
        "v100-sxm2",
        _DEEPBENCH,
        {
            "tc16": _rate(
                (0.86, 0.78, 3763, 2300, 40, 1.0, 0.3, 0.58, 2.354),
                (1.0, 1.0, 0.95, 0.85, 0.85, 0.75, 0.75, 0.6, 0.45, 0.45, 0.35, 0.35, 0.18),
                (0.932, 1.0, 1.115),
            ),
            "fp32": _rate(
                (0.908, 1.0, 1500, 223, 42, 6.0, 0.3, 0.078, 16.423),
                (1.0, 1.0, 0.95, 0.85, 0.85, 0.75, 0.75, 0.6, 0.45, 0.45, 0.35, 0.35, 0.18),
                (0.699, 1.009, 1.086),
            ),
        },
        {
            "tc16:wgrad": (1.001, 1.198, 1.994),
            "tc16:dgrad": (1.094, 1.352, 1.777),
            "tc16:forward": (0.936, 1.082, 1.357),
            "fp32:dgrad:winograd": (0.435, 0.559, 0.754),
            "fp32:wgrad": (0.798, 1.338, 1.807),
            "fp32:dgrad": (0.917, 1.483, 2.92),
            "fp32:forward": (0.77, 1.076, 1.43),
            "fp32:forward:winograd": (0.353, 0.534, 0.744),
            "fp32:wgrad:winograd": (0.408, 0.576, 1.108),
        },
    ),
    # 403 products fitted
    "t4": _shipped(
        "t4",
        _DEEPBENCH,
        {
            "tc16": _rate(
                (0.662, 0.838, 4328, 1008, 136, 1.15, 0.129, 0.172, 4.554),
                (1.0, 1.0, 0.95, 0.85, 0.85, 0.75, 0.75, 0.6, 0.45, 0.45, 0.35, 0.35, 0.18),
                (0.928, 1.002, 1.127),
            ),
            "fp32": _rate(
                (0.559, 1.0, 1500, 223, 22, 6.0, 0.507, 0.078, 14.281),
                (1.0, 1.0, 0.95, 0.85, 0.85, 0.75, 0.75, 0.6, 0.45, 0.45, 0.35, 0.35, 0.18),
                (0.72, 1.008, 1.234),
            ),
        },
        {
            "tc16:wgrad": (1.187, 1.701, 4.783),
            "tc16:dgrad": (0.978, 1.202, 1.941),
            "tc16:forward": (0.864, 1.079, 1.308),
            "fp32:dgrad:winograd": (0.414, 0.625, 0.727),
            "fp32:wgrad": (0.892, 1.462, 1.998),
            "fp32:dgrad": (0.888, 1.076, 2.488),
            "fp32:forward": (0.591, 1.014, 1.295),
            "fp32:forward:winograd": (0.384, 0.599, 0.732),
            "fp32:wgrad:winograd": (0.387, 0.646, 1.05),
        },
    ),
    # 209 products fitted
    "p100": _shipped(
        "p100",
        _DEEPBENCH,
        {
            "fp32": _rate(
                (0.98, 0.889, 1500, 223, 36, 3.904, 0.39, 0.091, 11.424),
                (1.0, 1.0, 0.95, 0.85, 0.85, 0.75, 0.75, 0.6, 0.45, 0.45, 0.35, 0.35, 0.18),
                (0.83, 1.006, 1.293),
            ),
        },
        {
            "fp32:dgrad:winograd": (0.24, 0.548, 1.068),
            "fp32:wgrad": (1.18, 1.492, 1.84),
            "fp32:dgrad": (0.743, 1.668, 3.651),
            "fp32:forward:winograd": (0.483, 0.661, 1.001),
            "fp32:forward": (0.571, 1.169, 2.196),
            "fp32:wgrad:winograd": (0.473, 0.761, 1.51),
        },
    ),
}

# How much slower another framework's products run on the same GPU: the best tile's share of the peak is 0.86 through
# vLLM, 0.74 (A100) and 0.62 (H100) through PyTorch of 2024, in fits of a like model to public timings.
_STACK: Final = {"a100-sxm-80": 0.86 / 0.74}
_STACK_ELSEWHERE: Final = 0.86 / 0.62
SAME_CHIP: Final = 1.1  # widens the range of another board of the same chip; a judgement, not a measurement
RELATIVE: Final = 1.3  # of another chip of the generation, or another family of dtypes: likewise
BLACKWELL: Final = 0.74 / 0.86
"""Share of the peak on B200 over that on H200, in fits of a like model to NVIDIA aiconfigurator's sets of both."""
CONV_FROM: Final = "v100-sxm2"
"""The GPU whose measured convolutions stand for those of GPUs where none were measured."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A rate and how near the GPU it was fitted on is.

    Attributes:
        rate: constants of the family; its spread widened for other frameworks, and for another GPU.
        conv: measured over predicted time of a convolution, by pass, widened likewise.
        why: whose they are, None where this GPU's own.
    """

    rate: Rate
    conv: Mapping[str, Spread]
    why: str | None


@lru_cache(maxsize=256)
def fitted(gpu: Gpu, family: RateFamily) -> Fitted:
    """Return the shipped constants nearest to a GPU and a family of dtypes.

    Where the GPU's own family was not measured, those of the nearest relative stand in: the same generation, else the
    one whose SMs are most alike; 16-bit constants for TF32 and 1-byte types, V100's for float32.
    """
    owner, measured = _nearest(gpu, family)
    rate = SHIPPED[owner].rates[measured]
    if gpu.compute_capability[0] == 10:
        rate = replace(rate, emax=rate.emax * BLACKWELL)
    wider = _wider(gpu, owner) if measured == family else RELATIVE
    why = None if owner == gpu.id and measured == family else f"constants of {owner} in {_NAMES[measured]}"
    kind = "fp32" if family == "fp32" else "tc16"
    conv_owner = owner if any(key.startswith(kind) for key in SHIPPED[owner].conv) else CONV_FROM
    conv_wider = wider if conv_owner == gpu.id else RELATIVE
    conv = {
        key.partition(":")[2]: widened(spread, conv_wider, conv_wider)
        for key, spread in SHIPPED[conv_owner].conv.items()
        if key.startswith(kind)
    }
    stack = _STACK.get(owner, _STACK_ELSEWHERE)
    return Fitted(replace(rate, spread=widened(rate.spread, wider, wider * stack)), conv, why)


def widened(spread: Spread, down: float, up: float) -> Spread:
    """Return a spread with its ends moved apart by factors of 1 or more."""
    low, mid, high = spread
    return low / down, mid, high * up


_NAMES: Final[Mapping[RateFamily, str]] = {
    "tc16": "16 bits", "tf32": "TF32", "fp32": "float32", "fp8": "float8", "int8": "int8",
}  # fmt: skip


def _nearest(gpu: Gpu, family: RateFamily) -> tuple[str, RateFamily]:
    relative = _relative(gpu)
    rates = SHIPPED[relative].rates
    if family in rates:
        return relative, family
    if family == "fp32":
        return "v100-sxm2", "fp32"
    if family == "int8" and "fp8" in rates:
        return relative, "fp8"
    return (relative, "tc16") if "tc16" in rates else ("v100-sxm2", "tc16")


def _relative(gpu: Gpu) -> str:
    if gpu.id in SHIPPED:
        return gpu.id
    capability = gpu.compute_capability
    if (9, 0) <= capability < (12, 0):
        return "h100-sxm" if gpu.id.startswith("h100") else "h200-sxm"
    if capability == (8, 0):
        return "a100-sxm-80"
    if capability >= (8, 6):
        return "l40s"
    if capability >= (7, 5):
        return "t4"
    return "v100-sxm2" if capability >= (7, 0) else "p100"


def _wider(gpu: Gpu, owner: str) -> float:
    if gpu.id == owner:
        return 1.0
    known = find_gpu(owner)
    return SAME_CHIP if (known.compute_capability, known.sm) == (gpu.compute_capability, gpu.sm) else RELATIVE
