"""Changes as people read them: signed, in the unit of the figure, with the percentage."""

from __future__ import annotations

from typing import Final

from tcprobe.report import formatting as f
from tcprobe.schema.changes.comparison import Change, Interval, Why
from tcprobe.schema.changes.condition import MetricUnit

WHY: Final[dict[Why, str]] = {
    "few steps": "too few steps",
    "no steps": "no step is known",
    "ranges overlap": "the ranges overlap",
    "steps differ": "not of the same kind of steps",
    "one figure": "one length alone is known",
    "no ratio": "some steps have a length of 0",
}
"""What keeps a difference from being told, in a table."""


def signed_percent(pct: float) -> str:
    """Return a change in percent with its sign: ``+38 %``, ``-1.2 %``; two digits at least."""
    return f"{_signed(pct)} %"


def plain_percent(pct: float) -> str:
    """Return a share of change without a sign: ``38 %``."""
    return f"{_signed(abs(pct)).lstrip('+')} %"


def _signed(value: float) -> str:
    size = abs(value)
    if size == 0.0:
        return "0"
    if size < 0.095:
        return f"{'-' if value < 0 else '+'}{f.full_number(size, 1)}"
    if size < 9.95:
        return f"{value:+.1f}"
    whole = f"{value:+,.0f}"
    return whole if whole != "-100" or value == -100.0 else f"{value:.1f}" if value > -99.95 else "<-99.9"


def signed(metric: str, delta: float) -> str:
    """Return a change of a figure in its unit: ``-38.6 ms``, ``+1.7 points`` of a percentage, ``+12``."""
    if metric.endswith("_pct"):
        return f"{_signed(delta)} points"
    sign = "" if delta == 0.0 else "-" if delta < 0 else "+"
    return sign + f.metric_text(metric, abs(delta))


def in_unit(unit: MetricUnit, percent: bool, value: float, change: bool) -> str:
    """Return a figure, or its change, that a condition asks of."""
    if percent:
        return signed_percent(value)
    metric = {"flops": "flops_per", "tflop_per_s": "rate", "count": "count", "logged": "rate"}.get(unit, f"x_{unit}")
    return signed(metric, value) if change else f.metric_text(metric, value)


def exactly(unit: MetricUnit, percent: bool, value: float) -> str:
    """Return a figure with so many digits that it can be told from a limit close to it."""
    named = {"pct": "%", "ns": "ns", "bytes": "bytes"}.get("pct" if percent else unit, "")
    return f"{f.full_number(value, 10)} {named}".rstrip()


def span(interval: Interval) -> str:
    """Return a 95 % interval: ``36 to 40 % less``, ``1.2 % less to 2.1 % more``."""
    low, high = interval.low_pct, interval.high_pct
    if low < 0.0 < high:
        return f"{plain_percent(low)} less to {plain_percent(high)} more"
    near, far = sorted((abs(low), abs(high)))
    return f"{plain_percent(near).removesuffix(' %')} to {plain_percent(far)} {'less' if high <= 0.0 else 'more'}"


def change_text(metric: str, change: Change) -> str:
    """Return what became of a figure: the amount, its percentage, and what can be said of it."""
    match change.difference:
        case "not known":
            return f.NA
        case "same":
            return "same"
        case "cannot tell":
            why = f"cannot tell: {WHY[change.why]}" if change.why else "cannot tell"
            return ", ".join(part for part in (_amount(metric, change), why) if part)
        case "more" | "less" if change.interval is None:
            return _amount(metric, change) or change.difference
        case _:
            amount = _amount(metric, change)
            return f"{amount}, {change.difference}" if amount else change.difference


def _amount(metric: str, change: Change) -> str:
    if change.delta is None:
        return ""
    amount = signed(metric, change.delta)
    return amount if change.pct is None or metric.endswith("_pct") else f"{amount} ({signed_percent(change.pct)})"


def time_change(first: float | None, other: float | None, delta: float | None) -> str:
    """Return how a time of a layer, op or kernel differs: ``-3.39 ms (-8.9 %)``, ``+4 us (new)``, ``(gone)``."""
    if delta is None:
        return f.NA
    if delta == 0.0:
        return "same"
    more = "new" if not first else "gone" if not other else signed_percent(100.0 * delta / first)
    return f"{signed('x_ns', delta)} ({more})"
