"""How a product's grid fills a GPU: the blocks that fit on an SM, the waves that they make, how empty the last is.

A kernel whose blocks stay for all tiles (nvjet, stream-K, the persistent ones of Hopper and later) launches about one
block for each SM whatever it multiplies: its grid tells nothing.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from tcprobe.analysis.context import identified, parse_capability
from tcprobe.analysis.kernels.details import details_of
from tcprobe.hardware import Capability
from tcprobe.jsonfile import whole
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.op import known_size
from tcprobe.schema.profile import Profile

WARP: Final = 32
REGISTERS: Final = 65_536
"""Of an SM, in four parts, since Volta; a warp gets them by 256."""
_PARTS: Final = 4
_REGISTERS_AT_ONCE: Final = 256


class _Limits(NamedTuple):
    """What an SM holds."""

    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int  # of each block, by the system


# CUDA C++ Programming Guide, Technical Specifications per Compute Capability; the reserved 1 KiB: NVIDIA Ampere GPU
# Architecture Tuning Guide, Unified Shared Memory/L1/Texture Cache
_LIMITS: Final[dict[Capability, _Limits]] = {
    (7, 0): _Limits(64, 32, 96 * 1024, 0),
    (7, 5): _Limits(32, 16, 64 * 1024, 0),
    (8, 0): _Limits(64, 32, 164 * 1024, 1024),
    (8, 6): _Limits(48, 16, 100 * 1024, 1024),
    (8, 9): _Limits(48, 24, 100 * 1024, 1024),
    (9, 0): _Limits(64, 32, 228 * 1024, 1024),
    (10, 0): _Limits(64, 32, 228 * 1024, 1024),
    (12, 0): _Limits(48, 24, 100 * 1024, 1024),
}
_STATIC: Final = ("maxwell", "pascal", "volta", "turing")
"""Of these generations the libraries' products hold their tiles in static shared memory."""
_PERSISTS: Final = re.compile(r"(?i)nvjet|stream_?k|persist|segment_k|warpspecialized|warp_?group")


class Waves(NamedTuple):
    """How often the blocks of one launch fill the GPU."""

    blocks: int  # of the grid
    blocks_per_sm: int  # that run on an SM at once
    waves: float  # the grid over all blocks that run at once
    outputs_at_most: int  # elements of the result: blocks x tile

    @property
    def empty(self) -> float:
        """Return the share of all waves that is empty, 0 to below 1."""
        return 1.0 - self.waves / math.ceil(self.waves)


class Sizes(NamedTuple):
    """What is known of a GPU."""

    capability: Capability
    sm: int


def sizes_of(profile: Profile) -> dict[int, Sizes]:
    """Return compute capability and SMs of each GPU of which both are known, by ordinal."""
    found: dict[int, Sizes] = {}
    for row in profile.require("devices").rows():
        gpu = identified(row).gpu if row["vendor"] in (None, "Nvidia") else None
        capability = parse_capability(row["compute_capability"]) or (gpu and gpu.compute_capability)
        sm = row["sm_count"] or (gpu and gpu.sm)
        if capability in _LIMITS and sm:
            found[int(row["device"] or 0)] = Sizes(capability, int(sm))
    return found


def waves_of(kernel: str, config: Row, sizes: Sizes) -> Waves | None:
    """Return the waves of a launch; None where its tile, configuration or SMs are unknown, or its blocks persist.

    Args:
        kernel: its name, which tells the tile.
        config: a row with the columns of `launch_configs`.
        sizes: of the GPU.
    """
    told = details_of(kernel)
    grid, block = (_size(config[name]) for name in ("grid", "block"))
    if told.tile is None or told.generation in ("hopper", "blackwell") or _PERSISTS.search(kernel):
        return None
    if config["dynamic_shared_bytes"] is None and told.generation not in _STATIC:
        return None
    fit = None if block is None else blocks_per_sm(block, config, sizes.capability)
    if not grid or not fit or grid == sizes.sm:
        return None
    rows, columns = (int(size) for size in told.tile.split("x"))
    return Waves(grid, fit, grid / (fit * sizes.sm), grid * rows * columns)


def blocks_per_sm(threads: int, config: Row, capability: Capability) -> int | None:
    """Return how many blocks of a kernel an SM runs at once; None where a limit of it is not known, or none fits.

    Args:
        threads: of a block.
        config: a row with registers (of a thread) and shared memory (of a block).
        capability: of the GPU.
    """
    registers, static, dynamic = (config[name] for name in ("registers", "static_shared_bytes", "dynamic_shared_bytes"))
    limits = _LIMITS.get(capability)
    if limits is None or registers is None or (static is None and dynamic is None) or threads < 1:
        return None
    warps = -(-threads // WARP)
    a_warp = max(1, -(-int(registers) * WARP // _REGISTERS_AT_ONCE)) * _REGISTERS_AT_ONCE
    by_registers = REGISTERS // _PARTS // a_warp * _PARTS // warps
    shared = int(static or 0) + int(dynamic or 0) + limits.reserved_bytes
    by_shared = limits.shared_bytes // shared if shared else limits.blocks
    return min(limits.warps // warps, by_registers, by_shared, limits.blocks) or None


def _size(text: Value) -> int | None:
    """Return the blocks of a grid, or the threads of a block; None where it is no sizes, or more than any has."""
    sizes = [whole(part) for part in str(text).split(",")]
    return known_size(math.prod(size for size in sizes if size is not None)) if None not in sizes else None
