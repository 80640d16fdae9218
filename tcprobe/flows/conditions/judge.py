"""Hold runs against conditions: what became of each, and the exit code that follows.

A figure that is a range meets a condition only if all of the range does. Of steps a change counts only where their
noise does not explain it. What is not known is told so: docs/compare.md has the rules.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tcprobe.analysis.compare.basis import runs_of
from tcprobe.analysis.compare.figures import NOT_RECORDED, figures_of
from tcprobe.schema.changes.comparison import Change, ComparedFigure, Comparison, Side
from tcprobe.schema.changes.condition import (
    COMPARED,
    OF_ONE_RUN,
    SPREADS,
    Condition,
    MetricUnit,
    Outcome,
    Relation,
    Verdict,
)
from tcprobe.schema.kinds import GROUP_OF
from tcprobe.schema.profile import Profile

NOISY: Final = frozenset({"step_time_ns", "throughput"})
"""Figures of which a comparison tells noise from change."""
HOLDS: Final[Mapping[Relation, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
OF_ZERO: Final = "of zero"
Ends = tuple[float, float]


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 1 if a condition is met, else 2 if one cannot be told, else 0."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return 1 if "met" in outcomes else 2 if "cannot tell" in outcomes else 0


def judge_run(
    conditions: Sequence[Condition], profile: Profile, against: Comparison | None = None
) -> tuple[Verdict, ...]:
    """Hold one run against conditions.

    Args:
        conditions: of the run itself, and of its change if it is compared.
        profile: the run, analysed.
        against: another run and this one, in this order, where there is one to compare it with.
    """
    figures = None if against else {one.metric: one for one in figures_of(runs_of([profile])[0])}
    return tuple(_judged_one(one, profile, against, figures or {}) for one in conditions)


def _judged_one(
    condition: Condition, profile: Profile, against: Comparison | None, figures: Mapping[str, ComparedFigure]
) -> Verdict:
    if condition.change and against is not None:
        return _of_change(condition, against, 1)
    run = 0 if against is None else 1
    side = _of_summary(profile, condition.metric)
    if side is None:
        shown = _figure(against, condition.metric) if against else figures.get(condition.metric)
        side = shown.sides[run] if shown else _absent(profile, condition.metric)
    return _of_side(condition, run, side)


def judge_comparison(conditions: Sequence[Condition], comparison: Comparison) -> tuple[Verdict, ...]:
    """Hold each run but the first against conditions: of itself, as compared, or of its change from the first."""
    runs = range(1, len(comparison.profiles))
    return tuple(_compared(one, comparison, run) for one in conditions for run in runs)


def _compared(condition: Condition, comparison: Comparison, run: int) -> Verdict:
    if condition.change:
        return _of_change(condition, comparison, run)
    return _of_side(condition, run, _side(comparison, condition.metric, run))


def _figure(comparison: Comparison | None, metric: str) -> ComparedFigure | None:
    figures = comparison.figures if comparison else ()
    return next((figure for figure in figures if figure.metric == metric), None)


def _side(comparison: Comparison, metric: str, run: int) -> Side:
    """Return a figure of a run as it is compared; one that is not, as the run's summary has it."""
    found = _figure(comparison, metric)
    if found is not None:
        return found.sides[run]
    profile = comparison.profiles[run]
    return _of_summary(profile, metric) or _absent(profile, metric)


def _of_summary(profile: Profile, metric: str) -> Side | None:
    row = profile.figure(metric)
    if row is None:
        return None
    value, low, high = (None if row[key] is None else float(row[key] or 0) for key in ("value", "low", "high"))
    return Side(value, low, high, None if row["reason"] is None else str(row["reason"]))


def _absent(profile: Profile, metric: str) -> Side:
    """Return a figure that the run has no row of: 0 where there is none of what others of its kind tell."""
    if metric.startswith("cause_"):
        causes = {GROUP_OF[cause] for cause in profile.require("causes").values("cause")}  # type: ignore[index]
        return Side(0.0) if causes and metric[6:-3] not in causes else Side(None, reason=NOT_RECORDED)
    metrics = [str(row["metric"]) for row in profile.require("summary").rows()]
    kinds = ("precision_",) if metric.startswith("precision_") else ()
    return Side(0.0) if kinds and any(m.startswith(kinds) for m in metrics) else Side(None, reason=NOT_RECORDED)


def _of_side(condition: Condition, run: int, side: Side) -> Verdict:
    """Hold a figure against a limit: all of its range, where it is one."""
    ends = _ends(side, condition.metric)
    unit = _unit(condition)
    if ends is None:
        return Verdict(condition, "cannot tell", run, why=side.reason or NOT_RECORDED, unit=unit)
    why = "ranges overlap" if (outcome := _outcome(condition, ends)) == "cannot tell" else None
    return _verdict(condition, outcome, run, side.value, ends, why)


def _ends(side: Side, metric: str) -> Ends | None:
    """Return what is known of a figure; the spread of steps is no doubt about the middle one."""
    if metric in SPREADS or (side.low is None and side.high is None):
        return None if side.value is None else (side.value, side.value)
    return (-math.inf if side.low is None else side.low, math.inf if side.high is None else side.high)


def _outcome(condition: Condition, ends: Ends) -> Outcome:
    """Return whether all of a range, or none of it, stands in the relation to the limit."""
    low, high = ends
    if condition.relation in ("==", "!="):
        if low <= condition.limit <= high and low != high:
            return "cannot tell"
        return "met" if HOLDS[condition.relation](low, condition.limit) else "not met"
    held = {HOLDS[condition.relation](end, condition.limit) for end in ends}
    return "cannot tell" if len(held) > 1 else "met" if held == {True} else "not met"


def _verdict(
    condition: Condition, outcome: Outcome, run: int, value: float | None, ends: Ends | None, why: str | None
) -> Verdict:
    """Return a verdict; a range of one value is none, and an open end is unknown."""
    low, high = (None, None) if ends is None or ends[0] == ends[1] else ends
    shown = [None if end is None or not math.isfinite(end) else end for end in (low, high)]
    value = ends[0] if value is None and ends is not None and ends[0] == ends[1] else value
    return Verdict(condition, outcome, run, value, shown[0], shown[1], why, _unit(condition))


def _unit(condition: Condition) -> MetricUnit:
    if condition.percent:
        return "pct"
    return COMPARED.get(condition.metric) or OF_ONE_RUN.get(condition.metric, "pct")


def _of_change(condition: Condition, comparison: Comparison, run: int) -> Verdict:
    """Hold the change from the first run against a limit."""
    figure = _figure(comparison, condition.metric)
    if figure is None:
        sides = tuple(_side(comparison, condition.metric, number) for number in (0, run))
        return _of_ranges(condition, run, *sides)
    change, first, other = figure.changes[run - 1], figure.sides[0], figure.sides[run]
    if change.difference == "not known":
        reason = next((s.reason for s in (first, other) if _ends(s, condition.metric) is None), None)
        return Verdict(condition, "cannot tell", run, why=reason or change.why or NOT_RECORDED, unit=_unit(condition))
    if condition.metric in NOISY:
        return _of_noisy(condition, run, change, first)
    if change.difference == "cannot tell" and change.why != "ranges overlap":
        return _verdict(condition, "cannot tell", run, _amount(condition, change), None, change.why)
    return _of_ranges(condition, run, first, other)


def _amount(condition: Condition, change: Change) -> float | None:
    return change.pct if condition.percent else change.delta


def _of_noisy(condition: Condition, run: int, change: Change, first: Side) -> Verdict:
    """Hold the change of what varies from step to step against a limit.

    It is met if the likely change is beyond the limit, and noise does not explain that: where the steps are alike
    within noise, a condition that no change at all would not meet is not met.
    """
    likely, ends = _amount(condition, change), _interval(condition, change, first)
    if change.difference == "cannot tell" or likely is None:
        return _verdict(condition, "cannot tell", run, likely, ends, change.why or OF_ZERO)
    holds = HOLDS[condition.relation]
    met = holds(likely, condition.limit)
    noise = met and change.difference == "within noise" and not holds(0.0, condition.limit)
    return _verdict(
        condition, "met" if met and not noise else "not met", run, likely, ends, "within noise" if noise else None
    )


def _interval(condition: Condition, change: Change, first: Side) -> Ends | None:
    """Return the 95 % interval of a change, in the unit of the limit."""
    if change.interval is None:
        return None
    scale = 1.0 if condition.percent else (first.value or 0.0) / 100.0
    return change.interval.low_pct * scale, change.interval.high_pct * scale


def _of_ranges(condition: Condition, run: int, first: Side, other: Side) -> Verdict:
    """Hold the change between two figures that are what they are: of ranges, from the least change to the most."""
    ends, others = _ends(first, condition.metric), _ends(other, condition.metric)
    if ends is None or others is None:
        reason = first.reason if ends is None else other.reason
        return Verdict(condition, "cannot tell", run, why=reason or NOT_RECORDED, unit=_unit(condition))
    found = _change(ends, others, condition.percent)
    if found is None:
        return Verdict(condition, "cannot tell", run, why=OF_ZERO, unit="pct")
    outcome = _outcome(condition, found)
    return _verdict(
        condition, outcome, run, _likely(condition, first, other), found,
        "ranges overlap" if outcome == "cannot tell" else None,
    )  # fmt: skip


def _change(ends: Ends, others: Ends, percent: bool) -> Ends | None:
    """Return the least and the most that a figure changed; None for a percentage of what may be 0."""
    if percent and ends == others and ends[0] == ends[1]:
        return 0.0, 0.0
    if not percent:
        return others[0] - ends[1], others[1] - ends[0]
    if ends[0] <= 0.0:
        return None
    found = sorted(100.0 * (other / end - 1.0) for end, other in zip(reversed(ends), others, strict=True))
    return found[0], found[1]


def _likely(condition: Condition, first: Side, other: Side) -> float | None:
    if first.value is None or other.value is None or (condition.percent and not first.value):
        return None
    delta = other.value - first.value
    return 100.0 * delta / first.value if condition.percent else delta
