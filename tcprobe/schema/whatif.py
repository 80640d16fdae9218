"""`WhatIf`: one change of a run, and the step that is predicted with it.

Order of the rows of `bad_sizes` by cost, the saving of one row, and which rows of `gemms` are lower bounds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tcprobe.schema.columns import Row, Table
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import ChangeKind, Evidence

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row
    from tcprobe.schema.provenance import Provenance


def worst_first(bad_sizes: Table) -> Table:
    """Return the rows of `bad_sizes`, costliest first: by kernel time, then by saving, then by FLOPs."""
    time, flops = (np.nan_to_num(bad_sizes.numbers(c), nan=-1.0) for c in ("kernel_ns", "flops_pct"))
    saved = np.nan_to_num(bad_sizes.numbers("saving_ns"))
    return bad_sizes.take(np.lexsort((-flops, -saved, -time)))


def saving_of(row: Row) -> Range | None:
    """Return what the next size saves, in ns per step, from a row of `bad_sizes`; None if unknown."""
    low, likely, high = (row[f"saving_{end}ns"] for end in ("low_", "", "high_"))
    return None if low is None or likely is None or high is None else Range(float(low), float(likely), float(high))


def is_bounded(row: Row) -> bool:
    """Return whether a row of `gemms` may run more often in a step than it says, or nobody knows how often."""
    return row["calls_per_step"] is None or row["at_least"] is True


def bounded_rows(gemms: Table) -> NDArray[np.bool_]:
    """Return which rows of `gemms` are such."""
    found: NDArray[np.bool_] = np.isnan(gemms.numbers("calls_per_step")) | (gemms.numbers("at_least") == 1)
    return found


WhatIfBasis = Literal["measured x predicted", "measured x calibrated", "tile rates"]


class Throughput(Struct, frozen=True):
    """What the workload logs of its speed, as it is and as predicted; `unit` is as logged."""

    now: float
    then: Range
    unit: str | None = None


class WhatIf(Struct, frozen=True):
    """One change, and what is predicted of it: measured time times a predicted ratio of times."""

    change: ChangeKind  # what would change; its meaning is in `tcprobe.schema.kinds.CHANGES`
    gain_ns: Range  # how much shorter a step gets: 0 or more, at most `spent_ns`
    spent_ns: float  # time in a step of the ops concerned, at most the step
    ops: int  # how many ops would take another time
    basis: WhatIfBasis  # what the ratio rests on
    # their paths and types, for what asks whether two changes concern the same ops
    op_names: frozenset[tuple[str, str | None]] = field(default_factory=frozenset)
    unpredicted: int = 0  # how many ops it concerns of which nothing is predicted; they count as unchanged
    evidence: Evidence | None = None  # the weakest evidence among its predictions
    may_cost: bool = False  # whether the range of the prediction holds longer steps too
    step_ns: float | None = None  # length of a step as it is; None where none is known
    throughput: Throughput | None = None  # None where the workload logs none, or no step is known
    # layer, dimension, size, next_size, source: of a change of one layer.
    layer: str | None = None
    dimension: str | None = None
    size: int | None = None
    next_size: int | None = None
    source: str | None = None
    constants: Provenance | None = None  # whose constants it rests on
    # of all changes together each one, as what would change and the layer; a layer of None: all that compute so
    holds: tuple[tuple[ChangeKind, str | None], ...] = ()
    # whether only the most is told, by rates of tiles: nobody knows the shapes, and a likely gain stands for nothing
    bound: bool = False

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
        row: Row = {
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
        return {**row, "gain_ns": None, "new_step_ns": None} if self.bound else row


_FIELDS = (
    *("change", "layer", "dimension", "size", "next_size", "ops", "spent_ns", "may_cost", "step_ns", "basis"),
    *("evidence", "unpredicted", "source", "bound"),
)
_SPEEDS = ("new_throughput_low", "new_throughput", "new_throughput_high")


def _ends(found: Range | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if found is None else (found.low, found.mid, found.high)
