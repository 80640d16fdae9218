"""The constants that tcprobe ships, each with its source, and which GPU takes whose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcprobe.gemm.cost_constants import Constants, Family, Rate
from tcprobe.hardware import Gpu

TILES: Final = (
    (256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (256, 64, 0.85), (64, 256, 0.85), (128, 64, 0.75),
    (64, 128, 0.75), (64, 64, 0.6), (128, 32, 0.45), (32, 128, 0.45), (64, 32, 0.35), (32, 64, 0.35), (16, 64, 0.18),
)  # fmt: skip
_AI: Final = "NVIDIA aiconfigurator, torch.nn.functional.linear"


def _rate(emax: float, bwf: float, t0_us: float, spread: tuple[float, float, float]) -> Rate:
    return Rate(emax, bwf, t0_us * 1e3, 2000.0, 0.0, 1.0, 20.0, TILES, spread)


SHIPPED: Final[dict[str, Constants]] = {
    "a100-sxm-80": Constants("a100-sxm-80", _AI, "predicted", {"tc16": _rate(0.86, 0.7, 4.0, (0.8, 1.0, 1.25))}),
    "h100-sxm": Constants("h100-sxm", _AI, "predicted", {"tc16": _rate(0.86, 0.9, 2.5, (0.85, 1.0, 1.2))}),
    "h200-sxm": Constants("h200-sxm", _AI, "predicted", {"tc16": _rate(0.86, 0.8, 2.5, (0.85, 1.0, 1.2))}),
    "l40s": Constants("l40s", _AI, "predicted", {"tc16": _rate(0.68, 0.8, 1.5, (0.7, 1.0, 1.4))}),
    "v100-sxm2": Constants(
        "v100-sxm2",
        "Baidu DeepBench",
        "predicted",
        {"tc16": _rate(0.8, 0.9, 9.0, (0.8, 1.0, 1.3)), "fp32": _rate(0.9, 0.8, 9.0, (0.8, 1.0, 1.3))},
    ),
    "t4": Constants(
        "t4",
        "Baidu DeepBench",
        "predicted",
        {"tc16": _rate(0.6, 0.9, 9.0, (0.8, 1.0, 1.3)), "fp32": _rate(0.9, 0.8, 9.0, (0.8, 1.0, 1.3))},
    ),
}


@dataclass(frozen=True, slots=True)
class Fitted:
    """A rate and how near the GPU it was fitted on is.

    Attributes:
        rate: constants of the family.
        wider: factor by which the range is widened on each side, 1 where it was fitted on this GPU.
        why: whose they are, None where this GPU's own.
    """

    rate: Rate
    wider: float
    why: str | None


def fitted(gpu: Gpu, family: Family) -> Fitted:
    """Return the shipped constants nearest to a GPU and a family of dtypes."""
    relative = _relative(gpu)
    constants = SHIPPED[relative]
    own = family in constants.rates
    rate = constants.rates[family] if own else constants.rates["tc16"]
    if relative == gpu.id and own:
        return Fitted(rate, 1.0, None)
    return Fitted(rate, 1.3, f"constants of {relative}, {family if own else 'tc16'}")


def _relative(gpu: Gpu) -> str:
    if gpu.id in SHIPPED:
        return gpu.id
    major, minor = gpu.compute_capability
    if (major, minor) >= (9, 0) and major < 12:
        return "h100-sxm"
    if (major, minor) == (8, 0):
        return "a100-sxm-80"
    if major >= 8:
        return "l40s"
    return "t4" if (major, minor) == (7, 5) else "v100-sxm2"
