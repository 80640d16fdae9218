"""Build what the rules on runs read: ops off the Tensor Cores, badly sized layers, gaps, steps."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tcprobe.rules.registry import RUN_RULES, Rule
from tcprobe.rules.run.base import Facts, OffOp, Run
from tcprobe.schema.advice import Advice
from tcprobe.schema.columns import Row
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Blocker, BlockerKind, ChangeKind, SizeAdviceKind
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import BAD_SIZES, GAPS, WAITS
from tcprobe.schema.waits import HostWork, StepLength, Waiting
from tcprobe.schema.whatif import WhatIf

MS = 1_000_000


def rule(code: str) -> Rule:
    """Return the rule with a code."""
    return next(rule for rule in RUN_RULES if rule.code == code)


def off(kind: BlockerKind, ms: float, layer: str = "conv", op_type: str = "Conv2D", **more: Any) -> OffOp:
    """Return an op off the Tensor Cores whose kernels ran so long in the window."""
    row: Row = {"op": f"{layer}/{op_type}", "op_type": op_type, "layer": layer, "pass": "forward", "source": None}
    return OffOp(row, Blocker(kind, **more), ms * MS)


def size(layer: str, kind: SizeAdviceKind, now: int = 63, ms: float | None = None, **more: Any) -> Row:
    """Return a row of `bad_sizes`; measured if `ms` is given, as a share of 100 ms."""
    row: Row = {c.name: None for c in BAD_SIZES.columns}
    measured = {} if ms is None else {"kernel_ns": round(ms * MS), "share_pct": ms}
    told: Row = {"layer": layer, "layer_class": "Conv2D", "dimension": "filters", "size": now,
                 "next_size": now // 8 * 8 + 8, "dtype": "float16", "advice_kind": kind}  # fmt: skip
    return {**row, **told, **measured, **more}


def saved(low: float, likely: float, high: float, pct: float, basis: str = "measured x predicted") -> dict[str, Any]:
    """Return the columns of `bad_sizes` on what the next size saves, in ms."""
    return {"saving_low_ns": low * MS, "saving_ns": likely * MS, "saving_high_ns": high * MS, "saving_pct": pct,
            "saving_basis": basis}  # fmt: skip


def gap(ms: float, work: HostWork = "input", op: str | None = "IteratorGetNext", **more: Any) -> Row:
    """Return a row of `gaps`: the host does one thing all the time."""
    row: Row = {c.name: None for c in GAPS.columns}
    told: Row = {"device": 0, "start_ns": 0, "duration_ns": round(ms * MS), "share_pct": 1.0, "host_work": work}
    known: Row = {"host_op": op, "host_ns": round(ms * MS) if op else None, "before": "MemcpyH2D 4096 B"}
    return {**row, **told, **known, **more}


def waited(ms: float, work: HostWork = "input", op: str | None = "IteratorGetNext", **more: Any) -> Row:
    """Return a row of `waits`."""
    row: Row = {c.name: None for c in WAITS.columns}
    told: Row = {"device": 0, "short": False, "host_work": work, "host_op": op, "idle_ns": round(ms * MS)}
    return {**row, **told, **more}


def waits(step_ms: float, busy_ms: float, length: StepLength = "between steps") -> Waiting:
    """Return a step of which the GPU is busy for so long."""
    return Waiting(step_ms * MS, length, busy_ms * MS, (step_ms - busy_ms) * MS)


def what_if(change: ChangeKind, low: float, likely: float, high: float, **more: Any) -> WhatIf:
    """Return a prediction for a step of 100 ms, in ms."""
    known = {"spent_ns": 40.0 * MS, "ops": 1, "basis": "measured x predicted", "step_ns": 100.0 * MS}
    return WhatIf(change, Range(low * MS, likely * MS, high * MS), **{**known, **more})


def subject(*ops: OffOp, **more: Any) -> Run:
    """Return a run of one step of 100 ms on one GPU that is always busy."""
    known = {"total": 100.0 * MS, "measured": True, "waiting": waits(100, 100), "steps": 1.0, "step_ns": 100.0 * MS,
             "off": ops, **more}  # fmt: skip
    recorded = {name: known.pop(name) for name in ("waiting", "tuning", "what_ifs") if name in known}
    told = {name: known.pop(name) for name in Facts.__struct_fields__ if name in known}
    run = Run(Profile(Metadata("xplane"), **recorded), replace(known.pop("facts", Facts()), **told))
    vars(run).update(known)
    return run


def found(given: Run) -> list[Advice]:
    """Return what all rules say."""
    return [item for rule in RUN_RULES for item in rule.check(given)]
