"""What ``--fail-if`` asks: read conditions, and hold them against a run or a comparison.

A condition is ``METRIC RELATION LIMIT``: ``tc_kernel_time_pct<30``, ``step_time>+5%``, ``peak_memory<=30GiB``. A signed
limit asks of the change from the first run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from tcprobe.errors import UsageError
from tcprobe.schema.changes.comparison import Change, ComparedFigure, Comparison, Side
from tcprobe.schema.changes.condition import RELATIONS, Condition, Outcome, Relation, Verdict
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile

SUFFIXES: Final = ("_ns", "_pct", "_bytes", "_per_s", "_count")
_UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "ns": {"": 1.0, "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9},
    "pct": {"": 1.0, "%": 1.0},
    "bytes": {"": 1.0, "bytes": 1.0, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30,
              "kB": 1e3, "MB": 1e6, "GB": 1e9},
}  # fmt: skip
BARE: Final = ("ns", "bytes")
"""Units that nobody thinks of: a bare limit would be taken for ms or GiB."""
_FORM: Final = re.compile(
    r"\s*(?P<metric>\w+)\s*(?P<relation>" + "|".join(map(re.escape, RELATIONS)) + r")\s*"
    r"(?P<sign>[+-]?)\s*(?P<number>\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?)\s*(?P<unit>%|[A-Za-z]{0,5})\s*",
    re.ASCII,
)
EXAMPLES: Final = "as in 'step_time>+5%' or 'tc_kernel_time_pct<30'"
SHOWN: Final = 8
NOT_RECORDED: Final = "the run does not record it"
SPREADS: Final = frozenset({"step_time_ns", "throughput", "epoch_end_ns"})
"""Figures whose range is how steps vary: the median is known, and counts."""
NO_CHANGE: Final = "its change is not compared"
NOISE: Final = "steps vary as much by themselves"


def read_conditions(texts: Sequence[str], compares: bool) -> tuple[Condition, ...]:
    """Read what was typed, before anything is opened.

    Args:
        texts: one condition each.
        compares: whether there is another run, of whose figures changes can be told.

    Raises:
        UsageError: one is no condition, or asks of a change where nothing is compared.
    """
    return tuple(_condition(text, compares) for text in texts)


def _condition(text: str, compares: bool) -> Condition:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UsageError(f"--fail-if {text!r} is no condition", f"METRIC RELATION LIMIT, {EXAMPLES}")
    metric, sign, unit = found["metric"], found["sign"], found["unit"]
    if sign and not compares:
        hint = "compare two runs, or give the other one with --against; without a sign it asks of the figure itself"
        raise UsageError(f"--fail-if {text!r} asks of a change, and there is one run", hint)
    limit = float(found["number"]) * (-1.0 if sign == "-" else 1.0)
    percent = bool(sign) and unit == "%"
    if not math.isfinite(limit):
        raise UsageError(f"--fail-if {text!r}: {found['number']} is no number to compare with", EXAMPLES)
    limit *= 1.0 if percent else _factor(text, metric, unit)
    relation: Relation = found["relation"]  # type: ignore[assignment]
    return Condition(text, metric, relation, limit, bool(sign), percent, unit)


def _factor(text: str, metric: str, unit: str) -> float:
    """Return what a unit multiplies a limit by, for figures of any kind whose name has it or leaves it out."""
    of_metric = [units for suffix, units in _UNITS.items() if metric.endswith(f"_{suffix}")]
    for units in of_metric or _UNITS.values():
        if unit in units:
            return units[unit]
    known = ", ".join(sorted({name for units in of_metric or _UNITS.values() for name in units if name}))
    raise UsageError(f"--fail-if {text!r}: unknown unit {unit!r}", f"there are {known}")


def metric_named(typed: str, known: Iterable[str], text: str) -> str:
    """Return the figure that a condition names, with or without its unit.

    Raises:
        UsageError: there is none of that name, or several.
    """
    names = list(dict.fromkeys(known))
    if typed in names:
        return typed
    fits = [name for name in names if any(name == f"{typed}{suffix}" for suffix in SUFFIXES)]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise UsageError(f"--fail-if {text!r}: {typed} may be {' or '.join(fits)}", "write the whole name")
    near = get_close_matches(typed, [*names, *(_bare(name) for name in names)], n=1)
    some = ", ".join(names[:SHOWN])
    hint = f"did you mean {near[0]}?" if near else f"there are {some}{' and more' * (len(names) > SHOWN)}"
    raise UsageError(f"--fail-if {text!r}: there is no figure {typed}", hint)


def _bare(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def judge_run(profile: Profile, conditions: Sequence[Condition]) -> tuple[Verdict, ...]:
    """Hold conditions against one run.

    Raises:
        UsageError: a condition names no figure.
    """
    sides = {str(row["metric"]): _side(row) for row in profile.require("summary").rows()}
    peaks = [row["peak_memory_bytes"] for row in profile.require("devices").rows()]
    most = max((float(peak) for peak in peaks if peak is not None), default=None)
    wall = profile.metadata.run.get("wall_ns")
    sides.setdefault("peak_memory_bytes", Side(most, reason=NOT_RECORDED))
    sides.setdefault("wall_ns", Side(float(wall) if isinstance(wall, int) else None, reason=NOT_RECORDED))
    named = [(one, _figure_of(one, sides)) for one in conditions]
    return tuple(replace(_of_side(one, sides[name], 0, name in SPREADS), metric=name) for one, name in named)


def _side(row: Row) -> Side:
    value, low, high = (None if row[key] is None else float(row[key] or 0) for key in ("value", "low", "high"))
    return Side(value, low, high, None if row["reason"] is None else str(row["reason"]))


def _figure_of(one: Condition, known: Iterable[str]) -> str:
    """Return the figure that a condition is about, and refuse a limit in another unit."""
    name = metric_named(one.metric, known, one.text)
    kind, units = next(((k, units) for k, units in _UNITS.items() if name.endswith(f"_{k}")), ("", {"": 1.0}))
    known_units = ", ".join(unit for unit in units if unit) or "a bare number"
    if not one.unit and one.limit and kind in BARE and name != one.metric:
        raise UsageError(f"--fail-if {one.text!r}: {abs(one.limit):g} of what?", f"give a unit: {known_units}")
    if one.percent or one.unit in units:
        return name
    raise UsageError(f"--fail-if {one.text!r}: {name} is not given in {one.unit}", f"its limit takes {known_units}")


def judge_comparison(comparison: Comparison, conditions: Sequence[Condition]) -> tuple[Verdict, ...]:
    """Hold conditions against every run but the first: figures as they are, changes as those from the first.

    Raises:
        UsageError: a condition names no figure.
    """
    figures = {figure.metric: figure for figure in comparison.figures}
    more = [str(row["metric"]) for profile in comparison.profiles for row in profile.require("summary").rows()]
    pairs = [(one, _figure_of(one, (*figures, *more))) for one in conditions]
    return tuple(
        replace(_of_comparison(one, figures.get(name), comparison.profiles[run], name, run), metric=name)
        for one, name in pairs
        for run in range(1, len(comparison.names))
    )


def _of_comparison(one: Condition, figure: ComparedFigure | None, profile: Profile, name: str, run: int) -> Verdict:
    """Hold a condition against a run; a figure that the comparison lacks is known of no run, or never compared."""
    spread = name in SPREADS
    if figure is not None:
        return _of_change(one, figure, run) if one.change else _of_side(one, figure.sides[run], run, spread)
    row = profile.figure(name)
    side = Side(None, reason=NOT_RECORDED) if row is None else _side(row)
    if one.change:
        return Verdict(one, "cannot tell", run, why=side.reason or NO_CHANGE)
    return _of_side(one, side, run, spread)


def _of_side(one: Condition, side: Side, run: int, spread: bool = False) -> Verdict:
    """Hold a condition against a figure: met where all of its range is, not met where none of it is.

    With `spread` the range is how steps vary, and the figure itself counts.
    """
    if spread and side.value is not None:
        side = Side(side.value, reason=side.reason)
    ends = [end for end in (side.low, side.value, side.high) if end is not None]
    if not ends:
        return Verdict(one, "cannot tell", run, why=side.reason or "it is not known")
    open_low, open_high = side.value is None and side.low is None, side.value is None and side.high is None
    met = [_holds(one, end) for end in (*ends, *([-math.inf] if open_low else ()), *([math.inf] if open_high else ()))]
    outcome: Outcome = "met" if all(met) else "not met" if not any(met) else "cannot tell"
    why = (side.reason or "the figure is a range") if outcome == "cannot tell" else None
    return Verdict(one, outcome, run, side.value, side.low, side.high, why)


def _of_change(one: Condition, figure: ComparedFigure, run: int) -> Verdict:
    """Hold a condition against a change: met where its likely value is, and noise does not explain it.

    Within noise there is no change: one that asks for a gain (``step_time>-10%``) is met by none.
    """
    change: Change = figure.changes[run - 1]
    value = change.pct if one.percent else change.delta
    interval = change.interval if one.percent else None
    low, high = (None, None) if interval is None else (interval.low_pct, interval.high_pct)
    if change.difference in ("cannot tell", "not known") or value is None:
        return Verdict(one, "cannot tell", run, value, low, high, _why(change, figure, run))
    if change.difference == "within noise":
        return Verdict(one, "met" if _holds(one, 0.0) else "not met", run, value, low, high, NOISE)
    return Verdict(one, "met" if _holds(one, value) else "not met", run, value, low, high)


def _why(change: Change, figure: ComparedFigure, run: int) -> str:
    reasons = (figure.sides[run].reason, figure.sides[0].reason)
    return change.why or next((reason for reason in reasons if reason), "one of the two is not known")


def _holds(one: Condition, value: float) -> bool:
    limit = one.limit
    return {
        "<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit, "==": value == limit,
        "!=": value != limit,
    }[one.relation]  # fmt: skip


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """Return the exit code that verdicts ask for: 1 where one is met, else 2 where one cannot be told, else 0."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return 1 if "met" in outcomes else 2 if "cannot tell" in outcomes else 0
