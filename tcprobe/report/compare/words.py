"""The words of a comparison. No code parses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tcprobe.report import formatting as f
from tcprobe.report.run.causes.words import GROUP_WORDS
from tcprobe.schema.changes.comparison import (
    FEWEST_STEPS,
    Change,
    ComparedFigure,
    Comparison,
    DifferenceKind,
    Side,
    Why,
)
from tcprobe.schema.changes.condition import Outcome, Verdict
from tcprobe.schema.kinds import CAUSE_GROUPS

LABELS: Final[Mapping[str, str]] = {
    "step_time_ns": "step time",
    "throughput": "throughput",
    "wall_ns": "wall time of the run",
    "gpu_busy_pct": "GPU busy",
    "idle_ns": "time that the GPU waits",
    "idle_pct": "GPU waits",
    "peak_memory_bytes": "peak memory",
    "tc_kernel_time_pct": "TC share of kernel time",
    "tc_capable_time_pct": "TC share within capable ops",
    "coverage_pct": "kernel time of known class",
    "kernel_time_ns": "kernel time",
    "tc_time_ns": "time of TC kernels",
    "communication_kernel_time_ns": "time of communication kernels",
    "memory_time_ns": "time of copies and sets",
    "kernels": "kernels",
    "copies": "copies and sets",
    "achieved_tflop_per_s": "achieved TFLOP/s",
    "peak_pct": "share of the GPU's peak",
    "flops_per_step": "FLOP in a step",
    "bad_size_count": "bad sizes",
    **{f"cause_{group}_ns": GROUP_WORDS[group] for group in CAUSE_GROUPS},
}
PER_STEP: Final = frozenset(
    {"kernel_time_ns", "tc_time_ns", "communication_kernel_time_ns", "memory_time_ns", "kernels", "copies"}
)
DIFFERENCE_WORDS: Final[Mapping[DifferenceKind, str]] = {
    "faster": "faster",
    "slower": "slower",
    "more": "",
    "less": "",
    "same": "the same",
    "within noise": "within noise",
    "cannot tell": "cannot tell",
    "not known": "-",
}
WHY_WORDS: Final[Mapping[Why, str]] = {
    "few steps": f"of one run fewer than {FEWEST_STEPS} steps are known",
    "no steps": "of one run no step's length is known",
    "ranges overlap": "the ranges overlap, for the class of some kernels is unknown",
    "steps differ": "one figure is of steps under the profiler, the other of steps outside it",
    "one figure": "of one run a single length is known",
}
OUTCOME_WORDS: Final[Mapping[Outcome, str]] = {"met": "failed", "not met": "passed", "cannot tell": "cannot tell"}
MORE_STEPS: Final = f"profile more steps: at least {FEWEST_STEPS} outside the profiled window on both sides"


SHORT: Final = 20
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def called(comparison: Comparison) -> tuple[str, ...]:
    """Return what each run is called in tables and sentences: its name, or a letter where names are long."""
    names = comparison.names
    if all(len(name) <= SHORT for name in names) or len(names) > len(LETTERS):
        return names
    return tuple(LETTERS[: len(names)])


def label(figure: ComparedFigure, comparison: Comparison) -> str:
    """Return what a figure is called; sums say that they are of a step."""
    name = LABELS.get(figure.metric, figure.metric)
    of_step = figure.metric in PER_STEP or figure.metric.startswith("cause_")
    return f"{name}, a step" if of_step and comparison.per_step else name


def value_text(metric: str, unit: str, value: float | None) -> str:
    """Return a figure in its unit."""
    if value is None:
        return f.NA
    if metric == "throughput":
        return f"{f.full_number(value, 4)}{f' {unit}' if unit else ''}"
    if metric.startswith("flops_per"):
        return f.flops(value)
    return f.FORMATTERS[unit](value) if unit in f.FORMATTERS else _number(value)


def _number(value: float) -> str:
    return f.count(value) if value.is_integer() else f.full_number(value, 4)


def side_text(figure: ComparedFigure, side: Side) -> str:
    """Return a figure of one run, with its range where it is one."""
    shown = [value_text(figure.metric, figure.unit, end) for end in (side.low, side.high)]
    middle = value_text(figure.metric, figure.unit, side.value)
    if side.low is None and side.high is None:
        return middle
    if figure.unit == "pct":
        return f.percents(side.low, side.high) if side.high is not None else f"at least {shown[0]}"
    if side.value is None:
        return f"at least {shown[0]}" if side.high is None else f"{shown[0]} to {shown[1]}"
    return middle if shown[0] == shown[1] or f.NA in shown else f"{middle} ({shown[0]} to {shown[1]})"


def change_text(figure: ComparedFigure, change: Change) -> str:
    """Return how a figure changed: ``-38.1 % faster (-40.2 to -36.0 %)``, ``+12 points``, ``within noise``."""
    said = DIFFERENCE_WORDS[change.difference]
    if change.difference == "not known":
        return f.NA
    if change.difference == "same":
        return said
    amount = _amount(figure, change)
    words = " ".join(part for part in (amount, said) if part)
    if change.interval is not None:
        words += f" (95 %: {_signed(change.interval.low_pct)} to {_signed(change.interval.high_pct)} %)"
    return words


def _amount(figure: ComparedFigure, change: Change) -> str:
    if figure.unit == "pct":
        return "" if change.delta is None else f"{_signed(change.delta)} points"
    if change.pct is not None:
        return f"{_signed(change.pct)} %"
    if change.delta is None:
        return ""
    text = value_text(figure.metric, figure.unit, abs(change.delta))
    return f"{'-' if change.delta < 0 else '+'}{text}"


def _signed(value: float) -> str:
    if value == 0:
        return "0"
    places = 1 if abs(value) < 100 else 0
    return f"{value:+.{places}f}" if abs(value) >= 0.05 else ("+" if value > 0 else "-") + "<0.1"


def answer(comparison: Comparison, run: int) -> tuple[str, str | None]:
    """Return what a run's step time is against the first one's, and what to do where that cannot be told."""
    figure = next((one for one in comparison.figures if one.metric == "step_time_ns"), None)
    names = called(comparison)
    first, other = names[0], names[run]
    if figure is None or figure.sides[run].value is None or figure.sides[0].value is None:
        return f"How long a step takes is not known of both {first} and {other}: the figures below tell what is.", None
    change, ns = figure.changes[run - 1], [f.duration(side.value) for side in figure.sides]
    lengths = f"{ns[run]} against {ns[0]} a step"
    if change.difference == "cannot tell":
        why = "" if change.why is None else f": {WHY_WORDS[change.why]}"
        return f"Cannot tell whether {other} is faster or slower than {first} ({lengths}){why}.", MORE_STEPS
    if change.difference == "within noise":
        return f"{other} is neither faster nor slower than {first}: {lengths}, within noise{_interval(change)}.", None
    if change.difference == "same" or change.pct is None:
        return f"{other} takes as long as {first}: {lengths}.", None
    much = f.percent(abs(change.pct))
    return (
        f"{other} takes {much} {'less' if change.pct < 0 else 'more'} than {first}: {lengths}{_interval(change)}.",
        None,
    )


def _interval(change: Change) -> str:
    if change.interval is None:
        return ""
    one = change.interval
    counts = f"{one.samples[1]} and {one.samples[0]} steps {one.steps}"
    return f" (95 %: {_signed(one.low_pct)} to {_signed(one.high_pct)} %, from {counts})"


def verdict_text(verdict: Verdict, names: tuple[str, ...]) -> str:
    """Return what became of a condition, as one line."""
    whose = f" of {names[verdict.run]}" if len(names) > 1 else ""
    limit = verdict.condition
    found = "" if verdict.value is None else f": it is {_change(verdict) if limit.change else _plain(verdict)}"
    why = f" ({WHY_WORDS.get(verdict.why, verdict.why)})" if verdict.why else ""  # type: ignore[call-overload]
    return f"{OUTCOME_WORDS[verdict.outcome]}: --fail-if '{limit.text}'{whose}{found}{why}"


def _change(verdict: Verdict) -> str:
    value = 0.0 if verdict.value is None else verdict.value
    if verdict.condition.percent:
        return f"{_signed(value)} %"
    return f"{'-' if value < 0 else '+'}{f.metric_text(verdict.metric, abs(value))}"


def _plain(verdict: Verdict) -> str:
    ends = sorted({end for end in (verdict.value, verdict.low, verdict.high) if end is not None})
    return " to ".join(dict.fromkeys(f.metric_text(verdict.metric, end) for end in (ends[0], ends[-1])))
