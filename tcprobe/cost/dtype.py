"""Which units of a GPU (Tensor Cores or CUDA cores) multiply operands of a dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tcprobe.cost.constants import RateFamily
from tcprobe.hardware import Gpu

_FAMILIES: Final[dict[str, RateFamily]] = {
    "float16": "tc16", "half": "tc16", "bfloat16": "tc16", "float32": "fp32", "float": "fp32", "tf32": "tf32",
    "int8": "int8", "uint8": "int8",
}  # fmt: skip
_PEAKS: Final[dict[RateFamily, str]] = {
    "tc16": "float16",
    "tf32": "tf32",
    "fp32": "float32",
    "fp8": "fp8",
    "int8": "int8",
}


@dataclass(frozen=True, slots=True)
class ComputeUnits:
    """The units that products of a dtype run on if nothing prevents it.

    Attributes:
        family: dtype family in which they compute.
        flop_per_s: their dense peak.
        width: bytes per element in memory.
        tensor_cores: whether they are Tensor Cores.
        emulated: True for a 16-bit dtype on a GPU without Tensor Cores for it.
    """

    family: RateFamily
    flop_per_s: float
    width: int
    tensor_cores: bool
    emulated: bool = False


def compute_units_of(dtype: str | None, gpu: Gpu, tf32: bool) -> ComputeUnits | None:
    """Return the units for a dtype; None if the dtype is unknown, mixed, or has no rate on the GPU.

    float32 runs as TF32 if that is on and the GPU supports it (compute capability 8.0). bfloat16 below 8.0, and 16-bit
    types without Tensor Cores, run at the CUDA cores' float32 rate.
    """
    name = (dtype or "").lower()
    family: RateFamily | None = "fp8" if name.startswith(("float8", "f8")) else _FAMILIES.get(name)
    if family is None:
        return None
    if name in ("float32", "float", "tf32"):
        family = "tf32" if (tf32 or name == "tf32") and _peak(gpu, "tf32") else "fp32"
    width = {"tc16": 2, "tf32": 4, "fp32": 4, "fp8": 1, "int8": 1}[family]
    peak = _peak(gpu, family, name)
    if family == "tc16" and (peak is None or not gpu.tensor_cores):
        plain = gpu.peak_flop_per_s("float32")
        return None if plain is None else ComputeUnits("fp32", plain, width, False, True)
    if peak is None:
        return None
    return ComputeUnits(family, peak, width, gpu.tensor_cores and family != "fp32")


def _peak(gpu: Gpu, family: RateFamily, name: str = "") -> float | None:
    if name == "bfloat16":
        return gpu.peak_flop_per_s("bfloat16")
    return gpu.peak_flop_per_s(_PEAKS[family])
