"""`op_cost` and `saving`: the predicted time of a matrix multiplication or convolution on any known GPU."""

from __future__ import annotations

import math

from msgspec import Struct

from tcprobe.cost.alignment import Library
from tcprobe.cost.constants import Basis, Constants, load_constants
from tcprobe.cost.plan import Plan, Target, padded_plan_of, plan_of
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Evidence, Limit, UsesTc
from tcprobe.schema.op import OpRecord
from tcprobe.schema.provenance import Provenance

__all__ = ["Constants", "Cost", "Library", "Target", "gains", "load_constants", "op_cost", "padding", "saving"]


class Cost(Struct, frozen=True):
    """The predicted time of one execution of an op: of its kernels, and of their launch."""

    # low_ns, ns, high_ns: likely time of its kernels, and the span that it may lie in.
    low_ns: float
    ns: float
    high_ns: float
    limit: Limit  # what limits its speed
    uses_tc: UsesTc  # whether it runs on Tensor Cores
    # its rate relative to the same product without a penalty, 0-100; None if it has no penalty
    rate_pct: Range | None = None
    # tile of the costliest part (``128x256``, with ``/4`` if the contraction is split in four)
    tile: str | None = None
    waves: float | None = None  # rounds of its tiles over all SMs
    # what launching them adds to a step, if the GPU waits for it; not part of a kernel's measured time
    launch_ns: float = 0.0
    basis: Basis = "predicted"  # predicted, or calibrated on this GPU
    constants: Provenance | None = None  # whose constants the figures rest on
    why: str | None = None  # what makes the figure less sure than a product that was measured on this GPU; else None
    # whether arithmetic runs at a rate measured for an unaligned size, with an error of its own
    own_rate: bool = False
    evidence: Evidence = "timed"  # what the figures rest on, besides the model

    @property
    def timed_ns(self) -> float:
        """Likely time with the launch, as the stack itself times one call."""
        return self.ns + self.launch_ns


def op_cost(record: OpRecord, target: Target, dtype: str | None = None, compiled: bool | None = None) -> Cost | None:
    """Return the predicted time of one execution of an op.

    Args:
        record: the op, with its shapes and, for a convolution, its strides and padding.
        target: GPU, library, and whether XLA and TF32 are on.
        dtype: dtype of its operands, the record's by default. float32 runs as TF32 if the target says so.
        compiled: whether XLA compiles it; None leaves it to the target.

    Returns:
        None if a size is unknown or zero, if the dtype is unknown, mixed, or has no rate on this GPU, or if the op
        multiplies no matrices (a depthwise convolution, or one with as many groups as channels: both are memory-bound).
    """
    plan = plan_of(record, target, dtype or record.dtype, compiled)
    return None if plan is None else _cost(plan)


def saving(
    before: OpRecord,
    after: OpRecord,
    target: Target,
    dtype: str | None = None,
    compiled: bool | None = None,
) -> Range | None:
    """Return how many ns the kernels of one execution save if `before` becomes `after`, as predicted; None if unknown.

    A saving is negative if the change costs more than it saves; `gains` tells how its range follows.
    """
    first, second = op_cost(before, target, dtype, compiled), op_cost(after, target, dtype, compiled)
    if first is None or second is None:
        return None
    found = gains(first, second)
    return Range(min(found), found[1], max(found))


def gains(before: Cost, after: Cost, apart: bool = False) -> tuple[float, float, float]:
    """Return how many ns a change saves: at the least times of both, at the likely and at the largest ones.

    The model's errors apply to both alike, so the ends are compared with each other. The measured rate of an unaligned
    size has an error of its own: it and the aligned product's add up as independent ones, least saving first.

    Args:
        before: as it is.
        after: as it would be.
        apart: whether the errors of both are independent, as those of other units and algorithms are.
    """
    likely = before.ns - after.ns
    if before.own_rate == after.own_rate and not apart:
        return before.low_ns - after.low_ns, likely, before.high_ns - after.high_ns
    less = math.hypot(before.ns - before.low_ns, after.high_ns - after.ns)
    more = math.hypot(before.high_ns - before.ns, after.ns - after.low_ns)
    return likely - less, likely, likely + more


def padding(record: OpRecord, target: Target, dtype: str | None = None) -> Range | None:
    """Return how many ns padding an op's operands with zeros at run time saves, copies counted, as predicted.

    None where nothing is to be padded or a time is unknown. An unaligned product's error has nothing to do with that of
    the padded one: the least that padding saves is the least time without it less the largest with it. Where that is 0
    or below, padding may lose.
    """
    before = plan_of(record, target, dtype or record.dtype, False)
    after = padded_plan_of(record, target, dtype or record.dtype)
    if before is None or after is None:
        return None
    (low, likely, high), (least, padded, most) = before.ends_ns, after.ends_ns
    return Range(low - most, likely - padded, high - least)


def _cost(plan: Plan) -> Cost:
    low, likely, high = plan.ends_ns
    main = max(plan.ways[1].parts, key=lambda part: part.ns, default=None)
    return Cost(
        low_ns=low,
        ns=likely,
        high_ns=high,
        limit=_limit(plan),
        uses_tc=plan.uses_tc,
        rate_pct=_rate_pct(plan),
        tile=main.tile if main else None,
        waves=main.waves if main else None,
        launch_ns=plan.launch_ns,
        basis=plan.basis,
        constants=plan.constants,
        why="; ".join(plan.whys) or None,
        own_rate=plan.own_rate,
        evidence=plan.evidence,
    )


def _limit(plan: Plan) -> Limit:
    """Count copies as memory, and kernels that the tile model does not describe as compute."""
    way = plan.ways[1]
    if not way.parts:
        return "compute"
    if way.empty_ns + way.launch_ns >= sum(part.ns for part in way.parts) + way.extra_ns:
        return "launch"
    busy = sum(part.compute_ns for part in way.parts)
    return "compute" if busy >= sum(part.memory_ns for part in way.parts) + way.extra_ns else "memory"


def _rate_pct(plan: Plan) -> Range | None:
    if all(way is plan.ideal for way in plan.ways):
        return None
    # the model's error is in both, unless the way is not from the model
    aligned = plan.ideal.ns
    rates = sorted(
        min(100.0, 100.0 * aligned * (plan.spread[1] if way.measured else 1.0) / way.ns) for way in plan.ways
    )
    return Range(rates[0], rates[1], rates[2])
