"""The part of a step that each product takes on the GPU that runs most, and what its kernels ran on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from tcprobe.analysis.ops.table import OpIdentity, Ops
from tcprobe.analysis.sizes.run import RecordedStep, RunProduct
from tcprobe.analysis.summary.rates import not_of_steps
from tcprobe.analysis.summary.waiting import busiest_gpu, kernel_steps
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.kinds import BlockerKind, UsesTc
from tcprobe.schema.profile import Profile

Keys: TypeAlias = frozenset[OpIdentity]
_TIMES: Final = ("split_ns", "union_ns", "sum_ns")
"""An op's part of the window, best first: overlapping kernels share the time, count once an op, count twice."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one product takes of a step.

    Attributes:
        ns: on the GPU that runs most, kernels that change layout apart; 0 where it was not measured.
        uses_tc: whether its kernels use Tensor Cores; unknown too where others share its name and differ.
        ops: the ops of the profile that it is.
        blockers: what keeps these off the Tensor Cores.
    """

    ns: float
    uses_tc: UsesTc
    ops: Keys
    blockers: frozenset[BlockerKind]


@dataclass(frozen=True, slots=True)
class StepParts:
    """A step in parts.

    Attributes:
        products: of each product of `RecordedStep.every`.
        step_ns: length of the step; None where none is known, and all is of the capture.
        whole_ns: what shares are taken of: the step, else all kernel time.
        others: dtype of each capable op of the profile that took time and is none of the products.
    """

    products: Sequence[Part]
    step_ns: float | None
    whole_ns: float
    others: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class _Op:
    """One op of the profile, in ns of the window.

    Attributes:
        sum_ns: its kernels added up.
        part_ns: its part of the window, by the best of `_TIMES` that is known, kernels that change layout apart.
        tc_ns, unknown_ns: of kernels that use Tensor Cores, or of which nobody knows; None where that is not told.
        row: of `ops`.
    """

    sum_ns: float
    part_ns: float
    tc_ns: float | None
    unknown_ns: float | None
    row: Row


def parts_of(profile: Profile, run: RecordedStep, ops: Ops) -> StepParts:
    """Return what each product takes of a step.

    Times under the profiler are scaled down where the GPU is busy for less in the step that is shown: no part is more
    than its share of that.

    Args:
        profile: with its summary and `waiting`.
        run: the products.
        ops: tells which op of the profile each is.
    """
    found = _ops(profile)
    known = _step_of(profile)
    steps = 1.0 if known is None else known[1]
    busiest = busiest_gpu(profile)[1]
    ran = sum(_whole_part(op.row) for op in found.values()) * busiest / steps
    step_ns = None if known is None else known[0]
    scale = min(1.0, _busy_ns(profile, step_ns) / ran) if ran > 0 else 0.0
    owners = _owners(run.every, ops, run.basis)
    shared = Counter(key for keys in owners for key in keys)
    parts = [
        _part(
            timed, [(key, found[key]) for key in sorted(keys, key=str) if key in found], shared, scale * busiest / steps
        )
        for timed, keys in zip(run.every, owners, strict=True)
    ]
    others = [_text(op.row["dtype"]) for key, op in found.items() if key not in shared and _counts(op)]
    return StepParts(parts, step_ns, step_ns or ran * scale, others)


def _counts(op: _Op) -> bool:
    return op.row["tc_capable"] == "yes" and op.sum_ns > 0


def _step_of(profile: Profile) -> tuple[float, float] | None:
    """Return the length of a step, and how many the kernel times are of; None where one of these is not known."""
    steps, waiting = kernel_steps(profile), profile.waiting
    if not steps or not_of_steps(profile) is not None or (waiting and waiting.length == "capture"):
        return None
    row = profile.figure("step_time_ns")
    length = waiting.step_ns if waiting else None if row is None else row["value"]
    return None if not length else (float(length), steps)


def _busy_ns(profile: Profile, step_ns: float | None) -> float:
    """Return how long the GPU that runs most is busy in a step, or in the capture; endless where no clock tells."""
    if profile.waiting is None:
        return math.inf if step_ns is None else step_ns
    if step_ns is None and profile.waiting.length != "capture":
        return math.inf
    return profile.waiting.busiest_ns(*busiest_gpu(profile))


def _ops(profile: Profile) -> dict[OpIdentity, _Op]:
    layout = _layout(profile)
    return {key: _op(row, layout.get(key, 0.0)) for row in profile.require("ops").rows() if (key := _key(row))}


def _key(row: Row) -> OpIdentity:
    return str(row["op"]), _text(row["op_type"])


def _text(value: Value) -> str | None:
    return None if value is None else str(value)


def _op(row: Row, layout: float) -> _Op:
    spent = _number(row["sum_ns"]) or 0.0
    multiplies = max(0.0, 1.0 - layout / spent) if spent else 0.0
    return _Op(spent, _whole_part(row) * multiplies, _number(row["tc_ns"]), _number(row["unknown_ns"]), row)


def _number(value: Value) -> float | None:
    return None if value is None else float(value)


def _whole_part(row: Row) -> float:
    return next((ns for column in _TIMES if (ns := _number(row[column])) is not None), 0.0)


def _layout(profile: Profile) -> dict[OpIdentity, float]:
    """Return the time of kernels that change layout or type for an op that could use Tensor Cores, by op."""
    kernels = profile.require("kernels")
    chosen = kernels.take(np.flatnonzero(kernels.names("cause").among("layout")))
    found: dict[OpIdentity, float] = {}
    for row in chosen.rows():
        found[_key(row)] = found.get(_key(row), 0.0) + (_number(row["sum_ns"]) or 0.0)
    return found


def _owners(every: Sequence[RunProduct], ops: Ops, basis: str) -> list[Keys]:
    """Return which ops of the profile each product is, or may be."""
    if basis != "graph":
        return [frozenset([_key(timed.row)]) for timed in every]
    found: dict[int, set[OpIdentity]] = {}
    for key, rows in ops.rows_of.items():
        for number in rows:
            found.setdefault(number, set()).add(key)
    return [frozenset(found.get(timed.number, ())) for timed in every]


def _part(timed: RunProduct, ops: list[tuple[OpIdentity, _Op]], shared: Mapping[OpIdentity, int], scale: float) -> Part:
    spent = sum(op.sum_ns for _, op in ops)
    each = sum(op.part_ns for _, op in ops) / spent if spent else 0.0
    alone = all(shared[key] == 1 for key, _ in ops)
    kinds: Any = frozenset(op.row["tc_blocker_kind"] for _, op in ops) - {None}
    ns = (timed.spent or 0) * min(1.0, each) * scale
    return Part(ns, _class([op for _, op in ops], alone), frozenset(key for key, _ in ops), kinds)


def _class(ops: list[_Op], alone: bool) -> UsesTc:
    """Return whether the kernels of ops use Tensor Cores: a product does that has one such kernel beside helpers."""
    on, unclear = ([op.tc_ns for op in ops], [op.unknown_ns for op in ops])
    if not ops or None in on or None in unclear:
        return "unknown"
    used, unknown, spent = (math.fsum(ns or 0 for ns in times) for times in (on, unclear, [op.sum_ns for op in ops]))
    if used <= 0:
        return "unknown" if unknown > 0 else "no"
    return "yes" if alone or used >= spent else "unknown"
