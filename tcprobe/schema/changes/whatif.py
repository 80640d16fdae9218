"""`WhatIf`: one change of a run, and the step that is predicted with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind, Evidence

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row
    from tcprobe.schema.provenance import Provenance

WhatIfBasis = Literal["measured x predicted", "measured x calibrated"]


@dataclass(frozen=True, slots=True)
class Throughput:
    """What the workload logs of its speed, as it is and as predicted; `unit` is as logged."""

    now: float
    then: Range
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change, and what is predicted of it: measured time times a predicted ratio of times.

    Attributes:
        change: what would change; its meaning is in `tcprobe.schema.kinds.CHANGES`.
        gain_ns: how much shorter a step gets: 0 or more, at most `spent_ns`.
        spent_ns: time in a step of the ops concerned, at most the step.
        ops: how many ops would take another time.
        op_names: their paths and types, for what asks whether two changes concern the same ops.
        unpredicted: how many ops it concerns of which nothing is predicted; they count as unchanged.
        basis: what the ratio rests on.
        evidence: the weakest evidence among its predictions.
        may_cost: whether the range of the prediction holds longer steps too.
        step_ns: length of a step as it is; None where none is known.
        throughput: None where the workload logs none, or no step is known.
        layer, dimension, size, next_size, source: of a change of one layer.
        constants: whose constants it rests on.
        holds: of all changes together each one, as what would change and the layer; a layer of None: all that compute
            so.
    """

    change: ChangeKind
    gain_ns: Range
    spent_ns: float
    ops: int
    basis: WhatIfBasis
    op_names: frozenset[tuple[str, str | None]] = field(default_factory=frozenset)
    unpredicted: int = 0
    evidence: Evidence | None = None
    may_cost: bool = False
    step_ns: float | None = None
    throughput: Throughput | None = None
    layer: str | None = None
    dimension: str | None = None
    size: int | None = None
    next_size: int | None = None
    source: str | None = None
    constants: Provenance | None = None
    holds: tuple[tuple[ChangeKind, str | None], ...] = ()

    @property
    def new_step_ns(self) -> Range | None:
        """Return the length of a step then: shortest, likely, longest; None where none is known."""
        if self.step_ns is None:
            return None
        gain = self.gain_ns
        return Range(self.step_ns - gain.high, self.step_ns - gain.mid, self.step_ns - gain.low)

    def columns(self) -> Row:
        """Return it as a row of `what_ifs`."""
        then, speed, gain = self.new_step_ns, self.throughput, self.gain_ns
        whose: dict[str, Any] = {} if self.constants is None else dict(self.constants.columns())
        return {
            **{name: getattr(self, name) for name in _FIELDS},
            **dict(zip(("gain_low_ns", "gain_ns", "gain_high_ns"), (gain.low, gain.mid, gain.high), strict=True)),
            **dict(zip(("new_step_low_ns", "new_step_ns", "new_step_high_ns"), _ends(then), strict=True)),
            "throughput": None if speed is None else speed.now,
            **dict(zip(_SPEEDS, _ends(None if speed is None else speed.then), strict=True)),
            "holds": json.dumps(self.holds) if self.holds else None,
            "throughput_unit": None if speed is None else speed.unit,
            "predicted_for": None if self.constants is None else self.constants.gpu,
            **whose,
        }


_FIELDS = (
    *("change", "layer", "dimension", "size", "next_size", "ops", "spent_ns", "may_cost", "step_ns", "basis"),
    *("evidence", "unpredicted", "source"),
)
_SPEEDS = ("new_throughput_low", "new_throughput", "new_throughput_high")


def _ends(found: Range | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if found is None else (found.low, found.mid, found.high)
