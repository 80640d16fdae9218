"""Conditions of `--fail-if`: read them, hold runs against them, and say which exit code follows.

As typed they are ``step_time>+5%`` or ``tc_kernel_time_pct<30``. A figure that is a range meets a condition only if all
of the range does. Of steps a change counts only where their noise does not explain it. What is not known is told so:
docs/compare.md has the rules.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, DecimalException
from difflib import get_close_matches
from typing import Final, NamedTuple, cast

from tcprobe.analysis.compare.figures import NOT_RECORDED, change_of, figures_of
from tcprobe.analysis.compare.rows import losses_of
from tcprobe.analysis.compare.runs import runs_of
from tcprobe.errors import UsageError
from tcprobe.schema.comparison import (
    COMPARED,
    LOGGED,
    OF_ONE_RUN,
    RELATIONS,
    SPREADS,
    Change,
    ComparedFigure,
    Comparison,
    Condition,
    Loss,
    MetricUnit,
    Outcome,
    Relation,
    Side,
    Verdict,
)
from tcprobe.schema.kinds import GROUP_OF
from tcprobe.schema.profile import Profile

OPTION: Final = "--fail-if"
AS_IN: Final = "as in --fail-if 'step_time>+5%' or --fail-if 'tc_kernel_time_pct<30'"
PRECISION: Final = re.compile(r"precision_[a-z0-9_]+_time_pct")
SUFFIXES: Final = ("_tflop_per_s", "_bytes", "_pct", "_ns")
UNITS: Final[Mapping[MetricUnit, Mapping[str, int]]] = {
    "ns": {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9},
    "pct": {"%": 1, "pp": 1},
    "bytes": {
        "bytes": 1,
        "B": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    },
    "tflop_per_s": {},
    "count": {},
    "flops": {},
    "logged": {},
}
"""What a limit may be given in, and how many of the figure's own unit that is."""
BARE: Final = frozenset({"ns", "bytes"})
"""Units of which nobody thinks: a limit that names none would be taken for ms or GiB."""
FIRST_LISTED: Final = ("step_time", "throughput", "tc_kernel_time_pct", "kernel_time", "gpu_busy", "peak_memory")
LONGEST: Final = 200
_RELATION: Final = "|".join(map(re.escape, RELATIONS))
_NAME: Final = rf"{re.escape(LOGGED)}[^<>=!\s](?:[^<>=!]*[^<>=!\s])?|[A-Za-z_]\w*"
_CONDITION: Final = re.compile(
    rf"\s*({_NAME})\s*({_RELATION})\s*([+-]?)\s*([0-9]+\.?[0-9]*|\.[0-9]+)((?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*",
)
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
NOT_LOGGED: Final = "the run logged no such figure"
Ends = tuple[float, float]


def parse_conditions(texts: Sequence[str], changes: bool) -> tuple[Condition, ...]:
    """Read the values of `--fail-if`; the same condition twice counts once.

    Args:
        texts: as typed.
        changes: whether there is a first run, of which a change can be told.

    Raises:
        UsageError: a text is no condition, names no figure, or asks for a change where nothing is compared.
    """
    return tuple(dict.fromkeys(_parsed(text, changes) for text in texts))


def _parsed(text: str, changes: bool) -> Condition:
    found = _CONDITION.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise UsageError(f"{OPTION} {text!r}: {_wrong(text)}", AS_IN)
    name, relation, sign, digits, exponent, unit = found.groups()
    change = bool(sign)
    metric, kind = _metric(text, name, unit, change)
    percent = change and unit == "%"
    _check_change(text, metric, change, changes)
    factor = 1 if percent else _factor(text, name, metric, kind, unit, change)
    limit = _number(text, f"{sign}{digits}{exponent}", factor)
    if limit and not unit and kind in BARE and metric != name:
        hint = f"give a unit: {_listed([*UNITS[kind], *('%' * change)])}"
        raise UsageError(f"{OPTION} {text!r}: {digits}{exponent} of what?", hint)
    return Condition(text, metric, cast("Relation", relation), limit, change, percent)


def _wrong(text: str) -> str:
    """Say what a text lacks to be a condition."""
    if not text.strip():
        return "is empty"
    if len(text) > LONGEST:
        return f"has {len(text):,} characters, and no condition has more than {LONGEST}"
    relation = re.search(_RELATION, text)
    if relation is None:
        return f"holds none of {', '.join(RELATIONS)}"
    if not re.fullmatch(rf"\s*(?:{_NAME})\s*", text[: relation.start()]):
        return f"{text[: relation.start()].strip()!r} is no name of a figure"
    return f"{text[relation.end() :].strip()!r} is no number"


def _metric(text: str, name: str, unit: str, change: bool) -> tuple[str, MetricUnit]:
    """Return the figure that a name stands for, whole or without the suffix of its unit.

    Raises:
        UsageError: there is none, or several among which the limit's unit does not choose.
    """
    if name.startswith(LOGGED):
        return name, "logged"
    known: dict[str, MetricUnit] = {**COMPARED, **OF_ONE_RUN}
    known.update({each: "pct" for each in (name, f"{name}_pct") if PRECISION.fullmatch(each)})
    if name in known:
        return name, known[name]
    meant = [name + suffix for suffix in SUFFIXES if name + suffix in known]
    anything = len(meant) == 1 or (change and unit == "%")
    fitting = [metric for metric in meant if anything or unit in UNITS[known[metric]]]
    if len(fitting) == 1:
        return fitting[0], known[fitting[0]]
    if meant:
        raise UsageError(f"{OPTION} {text!r}: {name} may be {' or '.join(meant)}", "name the one that is meant")
    raise UsageError(f"{OPTION} {text!r}: there is no figure {name}", _near(name, known))


def _near(name: str, known: Mapping[str, MetricUnit]) -> str:
    """Say which figure is meant, and name a few."""
    spoken = {_spoken(metric): metric for metric in known}
    near = get_close_matches(name.lower(), [*spoken, *known], n=1)
    few = ", ".join(FIRST_LISTED)
    return f"did you mean {near[0]}? others: {few}" if near else f"there are {few} and others: docs/figures.md"


def _spoken(metric: str) -> str:
    return next((metric.removesuffix(suffix) for suffix in SUFFIXES if metric.endswith(suffix)), metric)


def _check_change(text: str, metric: str, change: bool, changes: bool) -> None:
    if change and not changes:
        said = "a limit with a sign is of a change, and nothing is compared"
        hint = "tcprobe compare A B, or tcprobe report RUN --against OTHER; without + or - it is of the run itself"
        raise UsageError(f"{OPTION} {text!r}: {said}", hint)
    if change and metric not in COMPARED and not metric.startswith(LOGGED):
        hint = f"changes are told of {', '.join(FIRST_LISTED)} and others: docs/compare.md"
        raise UsageError(f"{OPTION} {text!r}: {metric} is not compared", hint)


def _factor(text: str, name: str, metric: str, kind: MetricUnit, unit: str, change: bool) -> int:
    """Return how many of the figure's unit are one of the limit's."""
    units = UNITS[kind]
    if not unit:
        return 1
    if unit in units and not (unit == "pp" and not change):
        return units[unit]
    if unit == "%":
        raise UsageError(f"{OPTION} {text!r}: {metric} is no percentage", f"a sign makes it a change: {_signed(text)}")
    allowed = [u for u in units if u.isascii() and (change or u != "pp")]
    hint = f"units of {name} are {_listed(allowed)}" if allowed else f"a limit of {name} has no unit"
    raise UsageError(f"{OPTION} {text!r}: {metric} is not in {unit}", hint)


def _signed(text: str) -> str:
    """Return the condition with a sign before its limit."""
    relation = next(r for r in RELATIONS if r in text)
    before, _, after = text.partition(relation)
    return f"{before.strip()}{relation}{'-' if '<' in relation else '+'}{after.strip()}"


def _number(text: str, digits: str, factor: int) -> float:
    """Return the limit, exactly rounded.

    Raises:
        UsageError: it is too large for a number of 64 bits.
    """
    try:
        value = float(Decimal(digits) * factor)
    except (DecimalException, OverflowError):
        value = math.inf
    if not math.isfinite(value):
        raise UsageError(f"{OPTION} {text!r}: {digits} is too large a number", AS_IN)
    return value + 0.0  # no -0.0


def _listed(names: Iterable[str]) -> str:
    *others, last = [name for name in names if name.isascii()]
    return f"{', '.join(others)} or {last}" if others else last


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
    if against is None:
        alone = runs_of([profile])[0]
        runs = _Runs(_by_metric(figures_of(alone), losses_of(alone)), (profile,), of_summary=True)
    else:
        runs = _Runs(_by_metric(against.figures, against.losses), against.profiles, of_summary=True)
    return tuple(_judged(one, len(runs.profiles) - 1, runs) for one in conditions)


def judge_comparison(conditions: Sequence[Condition], comparison: Comparison) -> tuple[Verdict, ...]:
    """Hold each run but the first against conditions: of itself, as compared, or of its change from the first."""
    runs = _Runs(_by_metric(comparison.figures, comparison.losses), comparison.profiles, of_summary=False)
    return tuple(_judged(one, run, runs) for one in conditions for run in range(1, len(comparison.profiles)))


def _by_metric(figures: Iterable[ComparedFigure], losses: Iterable[Loss]) -> dict[str, ComparedFigure]:
    """Return the figures of runs by name, and what they logged last as figures beside them."""
    named = {one.metric: one for one in figures}
    for loss in losses:
        sides = tuple(_last(value) for value in loss.last)
        changes = tuple(change_of(sides[0], side) for side in sides[1:])
        named[LOGGED + loss.name] = ComparedFigure(LOGGED + loss.name, "", sides, changes)
    return named


def _last(value: float | None) -> Side:
    """Return what a run logged last; nothing stands in a relation to what is no number."""
    if value is not None and not math.isfinite(value):
        return Side(None, reason=f"the last value logged is {value}")
    return Side(value, reason=NOT_LOGGED if value is None else None)


class _Runs(NamedTuple):
    """The figures of runs."""

    figures: Mapping[str, ComparedFigure]  # as they are compared
    profiles: Sequence[Profile]
    of_summary: bool  # whether a figure is taken as the run's summary has it, before as it is compared

    def side(self, metric: str, run: int) -> Side:
        """Return a figure of a run; 0 where there is none of what others of its kind tell."""
        figure, profile = self.figures.get(metric), self.profiles[run]
        sides = [_of_summary(profile, metric), figure.sides[run] if figure else None]
        return next(filter(None, sides if self.of_summary else reversed(sides)), None) or _absent(profile, metric)


def _of_summary(profile: Profile, metric: str) -> Side | None:
    row = profile.figure(metric)
    return None if row is None else Side.of(row)


def _absent(profile: Profile, metric: str) -> Side:
    """Return a figure that the run has no row of: 0 where there is none of what others of its kind tell."""
    if metric.startswith(LOGGED):
        return Side(None, reason=NOT_LOGGED)
    if metric.startswith("cause_"):
        causes = {GROUP_OF[cause] for cause in profile.require("causes").values("cause")}  # type: ignore[index]
        none_of_it = bool(causes) and metric[6:-3] not in causes
    else:
        metrics = [str(row["metric"]) for row in profile.require("summary").rows()]
        none_of_it = metric.startswith("precision_") and any(m.startswith("precision_") for m in metrics)
    return Side(0.0) if none_of_it else Side(None, reason=NOT_RECORDED)


def _judged(condition: Condition, run: int, runs: _Runs) -> Verdict:
    metric = condition.metric
    figure, side = runs.figures.get(metric), runs.side(metric, run)
    if not condition.change:
        found = _of_range(condition, side.value, _ends(side, metric), side.reason)
    elif figure is None:
        found = _of_ranges(condition, runs.side(metric, 0), side)
    else:
        found = _of_change(condition, figure.changes[run - 1], figure.sides[0], figure.sides[run])
    value, low, high = found.value, None, None
    if found.ends is not None and found.ends[0] == found.ends[1]:
        value = found.ends[0] if value is None else value
    elif found.ends is not None:  # an open end is unknown
        low, high = (end if math.isfinite(end) else None for end in found.ends)
    unit: MetricUnit = "logged" if metric.startswith(LOGGED) else {**OF_ONE_RUN, **COMPARED}.get(metric, "pct")
    return Verdict(condition, found.outcome, run, value, low, high, found.why, "pct" if condition.percent else unit)


class _Held(NamedTuple):
    """What comes of holding a figure, or its change, against a limit."""

    outcome: Outcome
    value: float | None = None
    ends: Ends | None = None
    why: str | None = None


def _unknown(reason: str | None) -> _Held:
    return _Held("cannot tell", why=reason or NOT_RECORDED)


def _ends(side: Side, metric: str) -> Ends | None:
    """Return what is known of a figure; the spread of steps is no doubt about the middle one."""
    if (metric in SPREADS and side.value is not None) or (side.low is None and side.high is None):
        return None if side.value is None else (side.value, side.value)
    return (-math.inf if side.low is None else side.low, math.inf if side.high is None else side.high)


def _of_range(condition: Condition, value: float | None, ends: Ends | None, reason: str | None = None) -> _Held:
    """Say whether all of a range, or none of it, stands in the relation to the limit."""
    if ends is None:
        return _unknown(reason)
    held = {HOLDS[condition.relation](end, condition.limit) for end in ends}
    if condition.relation in ("==", "!=") and ends[0] < condition.limit < ends[1]:
        held = {True, False}
    if len(held) > 1:
        return _Held("cannot tell", value, ends, "ranges overlap")
    return _Held("met" if held == {True} else "not met", value, ends)


def _of_change(condition: Condition, change: Change, first: Side, other: Side) -> _Held:
    """Hold the change from the first run against a limit."""
    if change.difference == "not known":
        reason = next((s.reason for s in (first, other) if _ends(s, condition.metric) is None), None)
        return _unknown(reason or change.why)
    likely = change.pct if condition.percent else change.delta
    if condition.metric in NOISY:
        return _of_noisy(condition, change, likely, first)
    if change.difference == "cannot tell" and change.why != "ranges overlap":
        return _Held("cannot tell", likely, why=change.why)
    return _of_ranges(condition, first, other)


def _of_noisy(condition: Condition, change: Change, likely: float | None, first: Side) -> _Held:
    """Hold the change of what varies from step to step against a limit.

    It is met if the likely change is beyond the limit, and noise does not explain that: where the steps are alike
    within noise, a condition that no change at all would not meet is not met.
    """
    ends = None
    if change.interval is not None:  # of 95 %, in percent
        scale = 1.0 if condition.percent else (first.value or 0.0) / 100.0
        ends = change.interval.low_pct * scale, change.interval.high_pct * scale
    if change.difference == "cannot tell" or likely is None:
        return _Held("cannot tell", likely, ends, change.why or OF_ZERO)
    holds = HOLDS[condition.relation]
    met = holds(likely, condition.limit)
    noise = met and change.difference == "within noise" and not holds(0.0, condition.limit)
    return _Held("met" if met and not noise else "not met", likely, ends, "within noise" if noise else None)


def _of_ranges(condition: Condition, first: Side, other: Side) -> _Held:
    """Hold the change between two figures that are what they are: of ranges, from the least change to the most."""
    ends, others = _ends(first, condition.metric), _ends(other, condition.metric)
    if ends is None or others is None:
        return _unknown(first.reason if ends is None else other.reason)
    found = _change(ends, others, condition.percent)
    if found is None:
        return _unknown(OF_ZERO)
    likely = None
    if first.value is not None and other.value is not None and (first.value or not condition.percent):
        likely = other.value - first.value
        likely = 100.0 * likely / first.value if condition.percent else likely
    return _of_range(condition, likely, found)


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
