"""The units of a GPU for a dtype, and the time of a matrix multiplication on them: tiles, waves, split-K, roofline.

A library cuts C into tiles and gives each to a streaming multiprocessor (SM); the last wave of tiles takes as long
as a full one (tile and wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide; CUTLASS,
"Efficient GEMM in CUDA"). The library chooses the tile and how often the contraction is split; the model takes the
fastest choice.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from tcprobe.cost.constants import BYTES, Rate, RateFamily
from tcprobe.hardware import Gpu

SPLITS: Final = (1, 2, 4, 8, 16, 32, 64)
SPLIT_WAVES: Final = 4  # a contraction is not split further if its tiles already make this many waves
SPLIT_K: Final = 64  # least part of a split contraction that is worth a kernel's start, twice over
PARTIAL_BYTES: Final = 8  # a partial sum in float32, written and read again


class Work(Struct, frozen=True):
    """The multiplication of one kernel; all sizes are 1 or more."""

    # m, n, k, batch: C[M,N] = A[M,K] B[K,N], `batch` times.
    m: int
    n: int
    k: int
    batch: int
    moved_bytes: float  # bytes read from and written to memory, for the whole of `batch`


class Chip(Struct, frozen=True):
    """A GPU as the cost model sees it, for one dtype family."""

    rate: Rate  # how well this family of dtypes runs
    flop_per_ns: float  # dense peak
    bytes_per_ns: float  # peak memory bandwidth
    sm: int  # streaming multiprocessors
    l2_bytes: int  # second-level cache
    # rate of arithmetic on aligned operands that lie as a task's do, over that of the best layout
    layout: float = 1.0


def chip_of(gpu: Gpu, rate: Rate, flop_per_s: float) -> Chip:
    """Return a GPU that runs a dtype family at this rate, of this dense peak."""
    return Chip(rate, flop_per_s / 1e9, gpu.bandwidth_bytes_per_s / 1e9, gpu.sm, gpu.l2_bytes)


class Estimate(Struct, frozen=True):
    """The fastest way to run a `Work`."""

    ns: float  # total time, without the launch
    # compute_ns, memory_ns: time that each would take alone.
    compute_ns: float
    memory_ns: float
    tile: str  # such as ``128x256``, with ``/4`` if the contraction is split in four
    waves: float  # rounds of tiles over all SMs, not rounded


def compute_bound(work: Work, chip: Chip) -> float:
    """Return how far arithmetic rather than memory limits a multiplication at the peak rates: 0 to 1.

    0 below half the arithmetic intensity at which both take equally long, 1 from that intensity on. PyTorch's Inductor
    pads no product below the same half (torch/_inductor/fx_passes/pad_mm.py).
    """
    busy = 2.0 * work.m * work.n * work.k * work.batch / chip.flop_per_ns
    return min(1.0, max(0.0, 2 * busy * chip.bytes_per_ns / work.moved_bytes - 1))


def estimate(work: Work, chip: Chip, compute: float = 1.0, memory: float = 1.0) -> Estimate:
    """Return the time of one multiplication, without the launch.

    Args:
        work: sizes and bytes.
        chip: the GPU.
        compute: rate relative to an aligned multiplication, 0-1.
        memory: the same for its loads and stores.
    """
    rate = chip.rate
    per_sm = chip.flop_per_ns * rate.emax * compute / chip.sm
    moved = _memory_ns(work, chip) / memory
    least = rate.batched_k if work.batch > 1 else 0.0
    best = (math.inf, 0.0, 0, 0, 1, 0.0)
    for rows, columns, efficiency in rate.tiles:
        cells = -(-work.m // rows) * -(-work.n // columns) * work.batch
        area = 2 * rows * columns / (per_sm * efficiency)
        for split in SPLITS:
            if split > 1 and (work.k < split * 2 * SPLIT_K or cells * split > SPLIT_WAVES * chip.sm):
                break
            depth = max(least, -(-work.k // (split * rate.step_k)) * rate.step_k + rate.fill_k)
            busy = _rounds(cells * split / chip.sm, rate.quantised) * area * depth
            extra = 0.0 if split == 1 else rate.split_ns + _partial_ns(work, chip, split)
            ns = _joined(busy, moved, rate.sharp) + extra
            if ns < best[0]:
                best = (ns, busy, rows, columns, split, cells * split / chip.sm)
    ns, busy, rows, columns, split, waves = best
    return Estimate(ns, busy, moved, f"{rows}x{columns}" + (f"/{split}" if split > 1 else ""), waves)


def _rounds(waves: float, quantised: float) -> float:
    """Return the time in whole waves; part of the last wave's idleness is hidden."""
    return 1.0 if waves <= 1 else quantised * math.ceil(waves) + (1 - quantised) * waves


def _memory_ns(work: Work, chip: Chip) -> float:
    """Return the time to move the bytes: from the cache if they fit its usable part, not at all from twice that on."""
    rate = chip.rate
    usable = chip.l2_bytes * rate.l2_share
    resident = min(1.0, max(0.0, 2 - work.moved_bytes / usable))
    return work.moved_bytes * (1 - resident + resident / rate.l2_speed) / (chip.bytes_per_ns * rate.bwf)


def _partial_ns(work: Work, chip: Chip, split: int) -> float:
    partial = float(work.m) * work.n * work.batch * split * PARTIAL_BYTES
    return partial / (chip.bytes_per_ns * chip.rate.bwf * chip.rate.l2_speed)


def _joined(busy: float, moved: float, sharp: float) -> float:
    """Return a smooth maximum: compute and memory overlap, but never completely."""
    high, low = (busy, moved) if busy >= moved else (moved, busy)
    return high * (1 + (low / high) ** sharp) ** (1 / sharp) if high > 0 else 0.0


_FAMILIES: Final[dict[str, RateFamily]] = {
    "float16": "tc16", "half": "tc16", "bfloat16": "tc16", "float32": "fp32", "float": "fp32", "tf32": "tf32",
    "int8": "int8", "uint8": "int8",
}  # fmt: skip
_PEAKS: Final[dict[RateFamily, str]] = {"tc16": "float16", "fp32": "float32"}  # others go by their own names


class ComputeUnits(Struct, frozen=True):
    """The units that products of a dtype run on if nothing prevents it."""

    family: RateFamily  # dtype family in which they compute
    flop_per_s: float  # their dense peak
    width: int  # bytes per element in memory
    tensor_cores: bool  # whether they are Tensor Cores
    emulated: bool = False  # True for a 16-bit dtype on a GPU without Tensor Cores for it


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
        family = "tf32" if (tf32 or name == "tf32") and gpu.peak_flop_per_s("tf32") else "fp32"
    width = BYTES[family]
    peak = gpu.peak_flop_per_s(name if name == "bfloat16" else _PEAKS.get(family, family))
    if family == "tc16" and (peak is None or not gpu.tensor_cores):
        plain = gpu.peak_flop_per_s("float32")
        return None if plain is None else ComputeUnits("fp32", plain, width, False, True)
    if peak is None:
        return None
    return ComputeUnits(family, peak, width, gpu.tensor_cores and family != "fp32")
