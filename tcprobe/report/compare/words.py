"""The words of a comparison: its answer in sentences, and changes, signed, in the unit of the figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tcprobe import formatting as f
from tcprobe.rules.words import listed
from tcprobe.schema.comparison import (
    COMPARED,
    FEWEST_STEPS,
    OTHER_WORK_PCT,
    Change,
    ComparedFigure,
    Comparison,
    Interval,
    MetricUnit,
    Verdict,
    Why,
)

ON_CPUS: Final = "No GPU ran in these runs: of one, and of a precision on one, this says nothing."
OTHER_LOAD: Final = "The steps differ, though settings do not: the code, or other load on the machine. Run both again."
OTHER_CLOCKS: Final = "The clocks of their GPUs differ, and the difference in time may come of that."
MORE_STEPS: Final = "Run each for more steps, and compare again."
SLOWED: Final = "all under the profiler, which slows them"
UNTOLD: Final = {
    "one figure": "a single length is known of one of them: that of one step, or a mean",
    "steps differ": "the steps of one were timed under the profiler, those of the other outside it",
    "ranges overlap": "their ranges overlap",
    "no ratio": "some steps of one of them have no length",
}
REASONS: Final = {
    "few steps": f"too few steps: at least {FEWEST_STEPS} of each run are needed",
    "no steps": "no length of a step is known",
    "one figure": UNTOLD["one figure"],
    "steps differ": "the figures are not of the same kind of steps",
    "ranges overlap": "part of the range meets it, and part does not",
    "no ratio": "some steps of one of the runs have a length, or a throughput, of 0",
    "of zero": "the first run has 0, of which there is no percentage",
    "within noise": "within noise",
}
"""Why a condition cannot be told, or is not met, as a kind."""
WHY: Final[dict[Why, str]] = {
    "few steps": "too few steps",
    "no steps": "no step is known",
    "ranges overlap": "the ranges overlap",
    "steps differ": "not of the same kind of steps",
    "one figure": "one length alone is known",
    "no ratio": "some steps have a length of 0",
}
"""What keeps a difference from being told, in a table."""


def letters(count: int) -> tuple[str, ...]:
    """Return what so many runs are called in tables and sentences: A, B, ..., Z, AA, AB, ..."""
    return tuple(_letter(number) for number in range(count))


def _letter(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letter(more - 1) if more else "") + chr(ord("A") + last)


def answer(comparison: Comparison, labels: Sequence[str]) -> list[str]:
    """Return one sentence, or a few, for each run but the first; `labels` are what the runs are called."""
    sentences = [said for run in range(1, len(comparison.profiles)) for said in _of_run(comparison, labels, run)]
    on_cpus = all(profile.metadata.gpu_used is False for profile in comparison.profiles)
    return [*sentences, *([ON_CPUS] if on_cpus else [])]


def _of_run(comparison: Comparison, labels: Sequence[str], run: int) -> Iterator[str]:
    step = _figure(comparison, "step_time_ns")
    change = Change("not known") if step is None else step.changes[run - 1]
    if step is None or change.delta is None:
        yield from _without_steps(comparison, step, labels, run)
        return
    work = _other_work(comparison, run)
    if work is not None:  # then a longer step may still be the better one
        yield from _throughput(comparison, labels, run) or _work_rate(change, work, labels, run)
    sentence = _of_step(step, change, labels, run)
    yield sentence[:1].upper() + sentence[1:]
    if change.why == "few steps":
        yield MORE_STEPS
    if change.difference in ("faster", "slower") and not comparison.settings and work is None:
        yield OTHER_LOAD
    if change.difference in ("faster", "slower") and any(note.code == "clocks-differ" for note in comparison.notes):
        yield OTHER_CLOCKS


def _other_work(comparison: Comparison, run: int) -> float | None:
    """Return by how many percent more a step of a run multiplies than one of the first run; None if as much."""
    flops = _figure(comparison, "flops_per_step")
    pct = None if flops is None else flops.changes[run - 1].pct
    return None if pct is None or abs(pct) <= OTHER_WORK_PCT else pct


def _work_rate(change: Change, work: float, labels: Sequence[str], run: int) -> list[str]:
    """Say how much of its products a run does in a second, where the length of its steps can be told from noise."""
    if change.interval is None or work <= -100.0:
        return []
    ends = (change.interval.low_pct, change.interval.likely_pct, change.interval.high_pct)
    high, likely, low = (100.0 * ((100.0 + work) / (100.0 + end) - 1.0) for end in ends)
    rate = replace(change.interval, low_pct=low, likely_pct=likely, high_pct=high)
    other = f"A step of {labels[run]} does other work ({signed_percent(work)} FLOPs)"
    if low <= 0.0 <= high:
        return [f"{other}; in a second as many as {labels[0]} within noise ({_sure(rate)})."]
    more = f"{plain_percent(likely)} {'less' if likely < 0 else 'more'}"
    return [f"{other}; of these {labels[run]} does {more} in a second than {labels[0]} ({_sure(rate)})."]


def _figure(comparison: Comparison, metric: str) -> ComparedFigure | None:
    return next((one for one in comparison.figures if one.metric == metric), None)


def _of_step(step: ComparedFigure, change: Change, labels: Sequence[str], run: int) -> str:
    first, other = labels[0], labels[run]
    mine, base = f.duration(step.sides[run].value), f.duration(step.sides[0].value)
    interval, pct = change.interval, change.pct or 0.0
    if interval is None:
        why = _untold(change, labels, run)
        return f"{other} takes {mine} a step and {first} {base}; cannot tell whether that is noise: {why}."
    of = f"from {interval.samples[0]:,} steps of {first} and {interval.samples[1]:,} of {other}"
    of += f", {SLOWED}" * (interval.steps == "under the profiler")
    if change.difference == "within noise":
        return (
            f"{other} takes {mine} a step and {first} {base}: the difference is within noise ({_sure(interval)}), {of}."
        )
    than = f"{plain_percent(pct)} {'less' if pct < 0 else 'more'} than {first} with {base}"
    return f"{other} takes {mine} a step, {than} ({_sure(interval)}), {of}."


def _sure(interval: Interval) -> str:
    return f"95 %: {span(interval)}"


def _untold(change: Change, labels: Sequence[str], run: int) -> str:
    """Say what keeps a difference of steps from being told."""
    if change.steps is not None:
        one, two = (f.many(count, "step") for count in change.steps)
        return (
            f"of {labels[0]} the length of {one} is known and of {labels[run]} of {two}, "
            f"and at least {FEWEST_STEPS} of each are needed"
        )
    if change.why in ("few steps", "no steps") or change.why is None:
        return f"at least {FEWEST_STEPS} steps of each are needed"
    return UNTOLD[change.why]


def _without_steps(
    comparison: Comparison, step: ComparedFigure | None, labels: Sequence[str], run: int
) -> Iterator[str]:
    """Say of which run no step is known, and what its kernels take."""
    pair = (0, run)
    lacking = [labels[n] for n in pair if step is None or step.sides[n].value is None]
    yield (
        f"Cannot tell whether {labels[run]} takes shorter steps than {labels[0]}: no length of a step is known of "
        f"{listed(lacking)}."
    )
    kernels = _figure(comparison, "kernel_time_ns")
    if kernels is None or None in (kernels.sides[0].value, kernels.sides[run].value):
        return
    pct = kernels.changes[run - 1].pct
    more = "" if not pct else f", {plain_percent(pct)} {'less' if pct < 0 else 'more'}"
    whole = "in a step" if comparison.per_step else "in the whole capture, which may hold other work"
    base, mine = (f.duration(kernels.sides[n].value) for n in pair)
    yield f"Kernels take {base} of {labels[0]} and {mine} of {labels[run]}{more}, {whole}."


def _throughput(comparison: Comparison, labels: Sequence[str], run: int) -> list[str]:
    """Say how the throughput differs, where a step does other work."""
    found = _figure(comparison, "throughput")
    if found is None or found.changes[run - 1].pct is None:
        return []
    change, unit = found.changes[run - 1], f" {found.unit}" if found.unit else ""
    mine, base = (f.metric_text("throughput", found.sides[n].value) for n in (run, 0))
    pct = change.pct or 0.0
    said = (
        f"A step of {labels[run]} does other work; its throughput is {mine}{unit} and that of {labels[0]} {base}{unit}"
    )
    if change.interval is None:
        return [f"{said} ({signed_percent(pct)}); cannot tell whether that is noise."]
    if change.difference == "within noise":
        return [f"{said}: the difference is within noise ({_sure(change.interval)})."]
    return [f"{said}: {plain_percent(pct)} {'less' if pct < 0 else 'more'} ({_sure(change.interval)})."]


def outcome(verdict: Verdict, names: Sequence[str]) -> str:
    """Return what became of a condition in one line; `names` are those of the runs, empty of a single one."""
    whose = f"{names[verdict.run]}: " if names else ""
    return f"{verdict.condition.text.strip()}: {verdict.outcome}: {whose}{grounds(verdict)}"


def _beside_limit(verdict: Verdict, unit: MetricUnit) -> str:
    """Return the figure; with all its digits where it would print as the limit that it is not."""
    asked, value = verdict.condition, verdict.value or 0.0
    text, limit = (in_unit(unit, asked.percent, number, asked.change) for number in (value, asked.limit))
    return exactly(unit, asked.percent, value) if text == limit and value != asked.limit else text


def grounds(verdict: Verdict) -> str:
    """Return the figure that a condition was held against, its range, and why it cannot be told."""
    asked = verdict.condition
    change, unit = asked.change, verdict.unit if asked.percent else COMPARED.get(asked.metric, verdict.unit)
    shown = [None if v is None else in_unit(unit, asked.percent, v, change) for v in (verdict.low, verdict.high)]
    value = None if verdict.value is None else _beside_limit(verdict, unit)
    low, high = shown
    between = f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}" if high else None
    sure = "95 %: " if between and change and asked.metric in ("step_time_ns", "throughput") else ""
    figure = f"{value} ({sure}{between})" if value and between else value or between
    why = None if verdict.why is None else REASONS.get(verdict.why, verdict.why)
    return "; ".join(part for part in (figure, why) if part)


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
    metric = {"flops": "flops_per", "tflop_per_s": "number", "count": "count", "logged": "number"}.get(
        unit, f"x_{unit}"
    )
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
