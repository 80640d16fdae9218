"""`Condition`: what `--fail-if` asks of a run, or of two, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Relation = Literal["<", "<=", ">", ">=", "==", "!="]
RELATIONS: Final[tuple[Relation, ...]] = ("<=", ">=", "==", "!=", "<", ">")
"""As they are looked for in a text: the longer ones first."""
Outcome = Literal["met", "not met", "cannot tell"]
"""What became of a condition: it holds (the command fails), it does not, or what it asks of is not known."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition under which a command fails: ``step_time>+5%``, ``tc_kernel_time_pct<30``.

    Attributes:
        text: as typed.
        metric: name of a figure of `summary`, unit suffix and all; what was typed may leave the suffix out.
        relation: between the figure, or its change, and the limit.
        limit: in the unit of the figure; of a change in percent of the first run's figure, or in the figure's unit.
        change: whether it asks of the change from the first run rather than of the figure itself.
        percent: whether `limit` is a percentage of the first run's figure; only of a change.
        unit: as typed behind the limit; empty for a bare number, which is in the figure's own unit.
    """

    text: str
    metric: str
    relation: Relation
    limit: float
    change: bool = False
    percent: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a condition.

    Attributes:
        condition: the condition.
        outcome: `met` makes the command end with exit code 1, `cannot tell` with 2.
        run: number of the run that it was held against, from 0; 1 and later are held against run 0 where it asks of
            a change.
        value: the figure, or the change in the unit of the limit; None where unknown.
        low, high: range of the figure where kernels of unknown class, or the spread of steps, make it one.
        metric: the figure's whole name.
        why: why it cannot be told: the reason of the missing figure, or that the difference may be noise.
    """

    condition: Condition
    outcome: Outcome
    run: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    metric: str = ""
