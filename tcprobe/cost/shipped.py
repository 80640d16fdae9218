"""The constants that tcprobe ships, and which of them stand in for a GPU that was not measured.

``rates.json`` holds them as `bench/fit_cost.py` prints them: a calibration file per GPU, with the source of its
measurements and how many products were fitted. `bench/cost_model.py` tests them on the other products;
docs/cost-model.md gives the results.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from tcprobe.cost.constants import Constants, Rate, RateFamily, TimeFactors
from tcprobe.hardware import Gpu, find_gpu

# How much slower another framework runs products on the same GPU: the best tile's share of the peak is 0.86 through
# vLLM, 0.74 (A100) and 0.62 (H100) through PyTorch of 2024, in fits of a similar model to public timings.
_STACK: Final = {"a100-sxm-80": 0.86 / 0.74}
_STACK_ELSEWHERE: Final = 0.86 / 0.62
SAME_CHIP: Final = 1.1  # widens the range for another board with the same chip; a judgement, not a measurement
RELATIVE: Final = 1.3  # for another chip of the generation, or another dtype family: likewise a judgement
BLACKWELL: Final = 0.74 / 0.86
"""Share of the peak on B200 over that on H200, in fits of a similar model to NVIDIA aiconfigurator's sets of both."""
CONV_FROM: Final = "v100-sxm2"
"""The GPU whose measured convolutions stand in for GPUs without any."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The constants for one GPU and dtype family, its own or those of a similar GPU.

    Attributes:
        rate: rate of the family; its spread is widened for other frameworks and for another GPU.
        conv: measured over predicted time of a convolution by pass, widened in the same way.
        why: whose constants they are; None if this GPU's own.
    """

    rate: Rate
    conv: Mapping[str, TimeFactors]
    why: str | None


@cache
def shipped() -> Mapping[str, Constants]:
    """Return the shipped constants, by GPU id."""
    body = json.loads(pkgutil.get_data("tcprobe.cost", "rates.json") or b"")
    found = [Constants.from_body(gpu, "rates.json") for gpu in body["gpus"]]
    return {constants.gpu: constants for constants in found}


@lru_cache(maxsize=256)
def fitted(gpu: Gpu, family: RateFamily) -> Fitted:
    """Return the shipped constants nearest to a GPU and a dtype family.

    If the family was not measured on this GPU, the nearest relative stands in: a GPU of the same generation, else the
    one with the most similar SMs; 16-bit constants stand in for TF32 and 1-byte types, V100's for float32.
    """
    owner, measured = _nearest(gpu, family)
    known = shipped()
    rate = known[owner].rates[measured]
    if gpu.compute_capability[0] == 10:
        rate = replace(rate, emax=rate.emax * BLACKWELL)
    wider = _wider(gpu, owner) if measured == family else RELATIVE
    why = None if owner == gpu.id and measured == family else f"constants of {owner} in {_NAMES[measured]}"
    kind = "fp32" if family == "fp32" else "tc16"
    conv_owner = owner if any(key.startswith(kind) for key in known[owner].conv) else CONV_FROM
    conv_wider = wider if conv_owner == gpu.id else RELATIVE
    conv = {
        key.partition(":")[2]: widened(spread, conv_wider, conv_wider)
        for key, spread in known[conv_owner].conv.items()
        if key.startswith(kind)
    }
    stack = _STACK.get(owner, _STACK_ELSEWHERE)
    return Fitted(replace(rate, spread=widened(rate.spread, wider, wider * stack)), conv, why)


def widened(spread: TimeFactors, down: float, up: float) -> TimeFactors:
    """Return a spread whose ends are moved apart by factors of 1 or more."""
    low, mid, high = spread
    return low / down, mid, high * up


_NAMES: Final[Mapping[RateFamily, str]] = {
    "tc16": "16 bits", "tf32": "TF32", "fp32": "float32", "fp8": "float8", "int8": "int8",
}  # fmt: skip


def _nearest(gpu: Gpu, family: RateFamily) -> tuple[str, RateFamily]:
    relative = _relative(gpu)
    rates = shipped()[relative].rates
    if family in rates:
        return relative, family
    if family == "fp32":
        return "v100-sxm2", "fp32"
    if family == "int8" and "fp8" in rates:
        return relative, "fp8"
    return (relative, "tc16") if "tc16" in rates else ("v100-sxm2", "tc16")


def _relative(gpu: Gpu) -> str:
    if gpu.id in shipped():
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
