"""The predicted time of a matrix multiplication or a convolution on a GPU that need not be there."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.cost.alignment import Library
from tcprobe.cost.constants import Basis, Constants, load_constants
from tcprobe.cost.plan import Plan, Target, UsesTc, plan_of
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Limit
from tcprobe.schema.op import OpRecord

__all__ = ["Constants", "Cost", "Library", "Target", "load_constants", "op_cost", "saving"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The predicted time of one execution of an op.

    Attributes:
        low_ns, ns, high_ns: likely time and the span that it may lie in.
        limit: what bounds it.
        uses_tc: whether it runs on Tensor Cores.
        rate_pct: its rate over that of the same product without a penalty, 0-100; None where it has none.
        tile: tile of the costliest part (``128x256``, ``/4`` where the contraction is split in four).
        waves: rounds of its tiles over all SMs.
        basis: predicted, or calibrated on this GPU.
        why: what the figure rests on where that is less than a measurement on this GPU; None otherwise.
    """

    low_ns: float
    ns: float
    high_ns: float
    limit: Limit
    uses_tc: UsesTc
    rate_pct: Range | None = None
    tile: str | None = None
    waves: float | None = None
    basis: Basis = "predicted"
    why: str | None = None


def op_cost(record: OpRecord, target: Target, dtype: str | None = None, compiled: bool | None = None) -> Cost | None:
    """Return the predicted time of one execution of an op.

    Args:
        record: the op, with its shapes and, for a convolution, its strides and padding.
        target: GPU, library, and whether XLA and TF32 are on.
        dtype: of its operands; the record's own where None. float32 runs as TF32 where the target says so.
        compiled: whether XLA compiles it; as the target says where None.

    Returns:
        None where a size is unknown or zero, the dtype is unknown, mixed, or has no rate on this GPU, or the op
        multiplies no matrices (a depthwise convolution, which memory bounds, also one of as many groups as channels).
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
    """Return the predicted nanoseconds that one execution saves if `before` becomes `after`; None where unknown.

    The errors of the model and of the penalties go together: both ops are taken at their least, both at their likely,
    both at their largest time. A gain is negative where the change costs more than it saves.
    """
    first = plan_of(before, target, dtype or before.dtype, compiled)
    second = plan_of(after, target, dtype or after.dtype, compiled)
    if first is None or second is None:
        return None
    gains = [a - b for a, b in zip(first.ends_ns, second.ends_ns, strict=True)]
    return Range(min(gains), gains[1], max(gains))


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
        basis=plan.basis,
        why="; ".join(plan.whys) or None,
    )


def _limit(plan: Plan) -> Limit:
    """Copies are memory's; a kernel that the tile model does not describe is arithmetic's."""
    way = plan.ways[1]
    if not way.parts:
        return "compute"
    if way.launch_ns >= sum(part.ns for part in way.parts) + way.extra_ns:
        return "launch"
    busy = sum(part.compute_ns for part in way.parts)
    return "compute" if busy >= sum(part.memory_ns for part in way.parts) + way.extra_ns else "memory"


def _rate_pct(plan: Plan) -> Range | None:
    if all(way is plan.ideal for way in plan.ways):
        return None
    # the model's error is in both, unless the way is none of the model's
    aligned = plan.ideal.ns
    rates = sorted(
        min(100.0, 100.0 * aligned * (plan.spread[1] if way.measured else 1.0) / way.ns) for way in plan.ways
    )
    return Range(rates[0], rates[1], rates[2])
