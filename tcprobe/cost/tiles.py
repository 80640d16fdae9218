"""The time of a matrix multiplication by the tile model: tiles, waves, split-K, roofline.

A library cuts C into tiles and gives each to a streaming multiprocessor (SM); the last wave of tiles takes as long
as a full one (tile and wave quantisation: NVIDIA, Matrix Multiplication Background User's Guide; CUTLASS,
"Efficient GEMM in CUDA"). The library chooses the tile and how often the contraction is split; the model takes the
fastest choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tcprobe.cost.constants import Rate

SPLITS: Final = (1, 2, 4, 8, 16, 32, 64)
SPLIT_WAVES: Final = 4  # a contraction is not split further if its tiles already make this many waves
STEP_K: Final = 64  # elements of the contraction per round of a kernel's main loop: 128 bytes of a 16-bit type
PARTIAL_BYTES: Final = 8  # a partial sum in float32, written and read again


@dataclass(frozen=True, slots=True)
class Work:
    """The multiplication of one kernel; all sizes are 1 or more.

    Attributes:
        m, n, k, batch: C[M,N] = A[M,K] B[K,N], `batch` times.
        moved_bytes: bytes read from and written to memory, for the whole of `batch`.
    """

    m: int
    n: int
    k: int
    batch: int
    moved_bytes: float


@dataclass(frozen=True, slots=True)
class Chip:
    """A GPU as the cost model sees it, for one dtype family.

    Attributes:
        rate: how well this family of dtypes runs.
        flop_per_ns: dense peak.
        bytes_per_ns: peak memory bandwidth.
        sm: streaming multiprocessors.
        l2_bytes: second-level cache.
    """

    rate: Rate
    flop_per_ns: float
    bytes_per_ns: float
    sm: int
    l2_bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The fastest way to run a `Work`.

    Attributes:
        ns: total time, without the launch.
        compute_ns, memory_ns: time that each would take alone.
        tile: such as ``128x256``, with ``/4`` if the contraction is split in four.
        waves: rounds of tiles over all SMs, not rounded.
    """

    ns: float
    compute_ns: float
    memory_ns: float
    tile: str
    waves: float


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
    best = (math.inf, 0.0, 0, 0, 1, 0.0)
    for rows, columns, efficiency in rate.tiles:
        cells = -(-work.m // rows) * -(-work.n // columns) * work.batch
        area = 2 * rows * columns / (per_sm * efficiency)
        for split in SPLITS:
            if split > 1 and (work.k < split * 2 * STEP_K or cells * split > SPLIT_WAVES * chip.sm):
                break
            depth = -(-work.k // (split * STEP_K)) * STEP_K + rate.fill_k
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
