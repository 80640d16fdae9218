"""Which counters to ask for: those that say whether a kernel executed Tensor Core instructions, by what a chip has.

Nsight Compute names a chip's metrics without roll-up (``sm__inst_executed_pipe_tensor``). Of operations in the tensor
path it has totals by operand type (``sm__ops_path_tensor_src_bf16_dst_fp32``) and parts of them, by instruction and by
sparsity; totals say enough, and few metrics are few passes over a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tcprobe.hardware import Capability

DURATION: Final = "gpu__time_duration.sum"
SHARE: Final = "avg.pct_of_peak_sustained_active"
MOST: Final = 32
CHIPS: Final[dict[Capability, str]] = {
    (7, 0): "gv100", (7, 2): "gv11b", (7, 5): "tu102", (8, 0): "ga100", (8, 6): "ga102", (8, 7): "ga10b",
    (8, 9): "ad102", (9, 0): "gh100", (10, 0): "gb100", (10, 3): "gb110", (12, 0): "gb202", (12, 1): "gb20b",
}  # fmt: skip
"""Compute capability -> a chip that has it, as `ncu --query-metrics --chips` names it."""
_NAME: Final = re.compile(r"(?:sm|gpu)__\w+")
_OPS: Final = re.compile(r"sm__ops_path_(?:tensor|tc)\w*")
_PART: Final = re.compile(r"_sparsity_(?:on|off)$")
_INSTRUCTIONS: Final = re.compile(r"sm__inst_executed_pipe_(?:tensor|tc)(?:_(?:op|type)_\w+|_subpipe_\w+)?")
_ACTIVE: Final = re.compile(r"sm__pipe_(?:tensor|tc)(?:_type_\w+|_op_\w*type_\w+)?_cycles_active")
FALLBACK: Final = ("sm__inst_executed_pipe_tensor", "sm__pipe_tensor_cycles_active")
"""Of every chip since Volta, for where the tool does not say what it has."""


def named(said: str) -> list[str]:
    """Return the names in what `ncu --query-metrics` says, as a table or as CSV; other text holds none."""
    firsts = (line.split(",")[0].strip('"').split(" ")[0] for line in said.splitlines() if line.strip())
    return [first for first in firsts if _NAME.fullmatch(first)]


def choose(names: Iterable[str]) -> tuple[str, ...]:
    """Return what to ask for, time first, then operations, instructions and activity of the tensor pipes.

    Args:
        names: the chip's metrics; none where they are not known.
    """
    known = sorted(set(names)) or list(FALLBACK)
    ops = [name for name in known if _OPS.fullmatch(name) and not _PART.search(name)]
    totals = [name for name in ops if "_op_" not in name]
    counted = [*_whole(ops, totals), *(name for name in known if _INSTRUCTIONS.fullmatch(name))]
    active = [name for name in known if _ACTIVE.fullmatch(name)]
    sums = [f"{name}.sum" for name in counted]
    return (DURATION, *(sums[: MOST - len(active)]), *(f"{name}.{SHARE}" for name in active))


def _whole(ops: Sequence[str], totals: Sequence[str]) -> Sequence[str]:
    """Return totals by operand type, and of operands that have none each instruction's."""
    sources = {source[0] for name in totals if (source := re.search(r"src_[a-z]+\d+", name))}
    return [*totals, *(name for name in ops if name not in totals and not any(source in name for source in sources))]
