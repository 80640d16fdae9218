"""What products without known shapes could gain on Tensor Cores: a bound by the rates that tiles like theirs reach.

The time of a kernel and its tile are measured; how much it multiplies is not, for of K nothing tells. If it ran at the
rate that its tile reaches on the units that it used, the Tensor Cores take the ratio of the rates of its time. It may
as well be bound by memory or its launch: then it gains nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from tcprobe.analysis.ops.table import identity_of
from tcprobe.cost.constants import Rate, RateFamily
from tcprobe.cost.shipped import fitted
from tcprobe.hardware import Gpu
from tcprobe.schema.columns import Row
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import CauseKind
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.whatif import WhatIf

Units: TypeAlias = Literal["mixed_float16", "mixed_bfloat16", "allow_tf32", "tensor_cores"]
_LOWERED: Final[tuple[Units, ...]] = ("mixed_float16", "mixed_bfloat16")
CHANGES_OF: Final[dict[CauseKind, tuple[Units, ...]]] = {
    "dtype": _LOWERED,
    "tf32": ("allow_tf32", *_LOWERED),
    "tf32_unknown": ("allow_tf32", *_LOWERED),
    "library": ("tensor_cores",),
    "shape": ("tensor_cores",),
    "channels": ("tensor_cores",),
}
"""What would bring a kernel that is off the Tensor Cores for this cause onto them."""
_KINDS: Final = ("matmul", "convolution", "helper")
_OF_FLOAT32: Final = ("fp32", "tf32", None)
_FAMILIES: Final[dict[Units, tuple[str, RateFamily]]] = {
    "mixed_float16": ("float16", "tc16"),
    "mixed_bfloat16": ("bfloat16", "tc16"),
    "allow_tf32": ("tf32", "tf32"),
    "tensor_cores": ("float16", "tc16"),
}


class _Concerned(Struct):
    """What one change concerns, in ns of the window over all GPUs."""

    spent_ns: float = 0.0
    at_most_ns: float = 0.0
    kernels: int = 0
    ops: frozenset[tuple[str, str | None]] = frozenset()


def kernel_what_ifs(profile: Profile, gpu: Gpu, smallest_pct: float) -> Iterator[WhatIf]:
    """Yield what each change saves at most of products off the Tensor Cores whose shapes nobody knows.

    Args:
        profile: with causes of its kernels.
        gpu: that ran.
        smallest_pct: of the step, else of all kernel time; what saves less at most is left out.
    """
    shaped = {(row["op"], row["op_type"]) for row in profile.require("ops").rows() if row["flops"] is not None}
    found = defaultdict[Units, _Concerned](_Concerned)
    total = 0.0
    for row in profile.require("kernels").rows():
        ns = float(row["sum_ns"] or 0)
        total += ns
        if (row["op"], row["op_type"]) in shaped or row["kind"] not in _KINDS or not ns:
            continue
        for change in _changes(row):
            if (ratio := _ratio(gpu, change, row)) is not None:
                gone = row["kind"] == "helper"  # im2col, Winograd's transforms: another kernel may need none
                _add(found[change], row, ns, ns * (1.0 - (0.0 if gone else ratio)))
    waiting, steps = profile.waiting, profile.kernel_steps
    known = waiting is not None and waiting.length != "capture" and steps
    step_ns = waiting.step_ns if known and waiting else None
    each = profile.busiest_gpu[1] / (steps if known and steps else 1.0)
    busy = waiting.busiest_ns(*profile.busiest_gpu) if waiting else total * each
    for change, one in sorted(found.items(), key=lambda item: (-item[1].at_most_ns, item[0])):
        spent = min(one.spent_ns * each, busy)
        high = spent * one.at_most_ns / one.spent_ns
        if 100.0 * high >= smallest_pct * (step_ns or total * each):
            own = fitted(gpu, _FAMILIES[change][1]).provenance
            gain = Range(0.0, 0.0, high)
            yield WhatIf(
                change, gain, spent, one.kernels, "tile rates", one.ops, step_ns=step_ns, constants=own, bound=True
            )


def _changes(row: Row) -> tuple[Units, ...]:
    """Return the changes that concern a kernel: a library's choice of 16 bits, or another precision of float32."""
    cause: CauseKind = row["cause"]  # type: ignore[assignment]
    changes = CHANGES_OF.get(cause, ()) if row["uses_tc"] == "no" else ()
    wanted = ("fp16", "bf16") if "tensor_cores" in changes else _OF_FLOAT32
    return changes if row["precision"] in wanted or (row["kind"] == "helper" and row["precision"] is None) else ()


def _ratio(gpu: Gpu, change: Units, row: Row) -> float | None:
    """Return the rate of a kernel's tile on CUDA cores over that on Tensor Cores; None where these are no faster."""
    dtype, family = _FAMILIES[change]
    slow, fast = gpu.peak_flop_per_s("float32"), gpu.peak_flop_per_s(dtype)
    if slow is None or fast is None or not gpu.tensor_cores:
        return None
    tile = text_of(row["tile"])
    now = slow * _reached(fitted(gpu, "fp32").rate, tile)
    then = fast * _reached(fitted(gpu, family).rate, tile)
    return now / then if now < then else None


def _reached(rate: Rate, tile: str | None) -> float:
    """Return the share of the peak that a tile of this area reaches at best; the best tile's where it is unknown."""
    if tile is None:
        return rate.emax * max(efficiency for _, _, efficiency in rate.tiles)
    rows, columns = (int(size) for size in tile.split("x"))
    nearest = min(rate.tiles, key=lambda one: (abs(one[0] * one[1] - rows * columns), -one[2]))
    return rate.emax * nearest[2]


def _add(one: _Concerned, row: Row, ns: float, at_most_ns: float) -> None:
    one.spent_ns += ns
    one.at_most_ns += at_most_ns
    one.kernels += 1
    if row["op"] is not None:
        one.ops |= {identity_of(row)}
