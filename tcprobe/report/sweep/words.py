"""The words of a sweep: what combinations are called, the verdict in sentences, speeds and curves as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tcprobe import formatting as f
from tcprobe.rules.words import listed
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.finding import Range
from tcprobe.schema.sweep import Combination, Factor, Gain, Plan, Speedup, SweepResult, SweepRow

BARS: Final = "▁▂▃▄▅▆▇█"
ODD: Final = "!"
"""What stands in a curve for values that are not finite."""
NAMED: Final = 3
"""Runs and pairs that the verdict names; the tables have all."""
WORTH: Final = 0.05
"""By how much two changes do more or less together before the verdict says so; the table has all."""
ON_CPU: Final = "No GPU ran: these times are of a CPU, and say nothing of one."
BY_THROUGHPUT: Final = "Steps do other work, so throughput is compared, not their length."
BY_LENGTH: Final = "Steps do other work, and not all runs log a throughput: their lengths are compared as they are."
ONCE: Final = "Each ran once: a machine that drifts makes differences too, which --repeat 3 tells apart."
WHY: Final = {
    "no repeats": "--repeat 3 tells it from noise",
    "few steps": "too few steps: 8 of each combination are needed",
    "one figure": "a single length is known of one of them",
    "not measured": "not measured",
}


def setting(factor: Factor, value: str) -> str:
    """Return a value of a factor as sentences have it."""
    if factor.kind == "option":
        return value if factor.key != "xla" else "XLA" if value == "on" else "no XLA"
    return f"{factor.name}={value}"


def name_of(plan: Plan, combination: Combination, other: Combination | None = None) -> str:
    """Return what a combination is called, by what is varied, or differs from another: ``tf32 with sizes=good``."""
    varied = [at for at, factor in enumerate(plan.factors) if len(factor.values) > 1]
    if other is not None:
        varied = [at for at in varied if combination.values[at] != other.values[at]]
    said = [setting(plan.factors[at], combination.values[at]) for at in varied]
    first, rest = "".join(said[:1]) or plan.workload, ", ".join(said[1:])
    return f"{first} with {rest}" if rest else first


def plan_text(plan: Plan) -> str:
    """Return how many runs a plan has, and what of it is left out."""
    varied = listed(factor.name for factor in plan.factors if len(factor.values) > 1)
    what = f"{f.many(len(plan.combinations), 'combination')}{f' of {varied}' if varied else ''}"
    left = ((plan.excluded, "--exclude"), (plan.limited, "--limit"))
    out = [f"{count} left out by {by}" for count, by in left if count]
    base = f"baseline: {name_of(plan, plan.combination(plan.baseline))}"
    return "; ".join((f"{f.many(len(plan.runs), 'run')}: {what}", *out, base))


def times(ratio: float | None) -> str:
    """Return a ratio of speeds: ``2.2``, ``1.003``, ``0.8``, ``12``; close to 1 with a digit more."""
    if ratio is None:
        return f.NA
    if ratio >= 9.95:
        return f"{ratio:,.0f}"
    if ratio < 0.095:
        return f"{ratio:.2g}"
    return f"{ratio:.{3 if abs(ratio - 1.0) < 0.095 else 2}f}".rstrip("0").rstrip(".")


def span(speedup: Speedup) -> str:
    """Return the 95 % interval of a ratio."""
    known = speedup.low is not None and speedup.difference != "same"
    return f"{times(speedup.low)} to {times(speedup.high)}" if known else f.NA


def judged(speedup: Speedup) -> str:
    """Return a ratio with what can be said of it, for a table."""
    match speedup.difference:
        case "same":
            return "1 (baseline)"
        case "within noise":
            return f"{times(speedup.ratio)} (noise)"
        case "cannot tell" | "not known":
            return f.NA if speedup.ratio is None else f"{times(speedup.ratio)} (?)"
    return times(speedup.ratio)


def answer(result: SweepResult) -> list[str]:
    """Return the verdict: which is fastest, by how much, what each change gives; then what limits that."""
    said = [*_fastest(result), *_pairs(result), *_strays(result), *_failed(result)]
    if result.other_work:
        said.append(BY_THROUGHPUT if result.measure == "throughput" else BY_LENGTH)
    once = len(result.fastest) > 0 and max(run.repeat for run in result.plan.runs) == 1
    return [*said, *([ONCE] if once else []), *([ON_CPU] if result.gpu_used is False else [])]


def _fastest(result: SweepResult) -> Iterator[str]:
    plan, rows = result.plan, {row.combination.number: row for row in result.rows}
    if not result.fastest:
        yield "Nothing was measured: no run is whole, or none has steps."
        return
    best, *tied = (rows[number] for number in result.fastest)
    name, base = name_of(plan, best.combination), name_of(plan, plan.combination(plan.baseline), best.combination)
    known = [row for row in result.rows if row.runs]
    if len(known) == 1:
        yield f"{name} alone was measured: there is nothing to hold it against."
        return
    is_base = best.combination.number == plan.baseline
    against = "" if is_base or best.speedup.ratio is None else f"{times(best.speedup.ratio)} times {base}"
    if not tied:
        sure = f" (95 %: {span(best.speedup)})" if best.speedup.low is not None and against else ""
        yield f"{name} is fastest{f': {against}{sure}' if against else ', the baseline'}{_alone(result)}."
        return
    others = [name_of(plan, row.combination) for row in tied[:NAMED]]
    others += [f"{len(tied) - NAMED} more"] if len(tied) > NAMED else []
    why = best.speedup.why or next((row.speedup.why for row in tied if row.speedup.why), None)
    told = f"nothing tells it from {listed(others)} ({WHY[why]})" if why else f"noise hides whether {listed(others)}"
    told += "" if why else f" {'is' if len(tied) == 1 else 'are'} slower"
    yield f"{name} looks fastest{f', {against}' if against else ''}; {told}{_alone(result)}."


def changes_text(plan: Plan, gain: Gain) -> str:
    """Return what was changed."""
    factors = {factor.name: factor for factor in plan.factors}
    return listed(setting(factors[change.factor], change.value) for change in gain.changes)


def _alone(result: SweepResult) -> str:
    """Say what each change of the fastest gives by itself."""
    said = [
        f"{changes_text(result.plan, gain)} alone gives {times(gain.speedup.ratio)}"
        + (" (noise)" if gain.speedup.difference == "within noise" else "")
        for gain in result.gains
        if gain.kind == "alone"
    ]
    return f"; {', '.join(said)}" if said else ""


def _pairs(result: SweepResult) -> Iterator[str]:
    """Say which changes do more, or less, together than each by itself."""
    real = [one for one in result.gains if one.kind == "pair" and one.speedup.difference in ("faster", "slower")]
    sizes = [(abs(math.log(one.speedup.ratio or 1.0)), one) for one in real]
    for size, gain in sorted(sizes, key=lambda pair: -pair[0])[:NAMED]:
        if size >= WORTH:
            much = f"{times(gain.speedup.ratio)} times the product of what each gives (95 %: {span(gain.speedup)})"
            yield f"Together {changes_text(result.plan, gain)} give {much}."


def run_name(result: SweepResult, number: int) -> str:
    """Return what a run is called: its combination, and which of several it is."""
    planned = result.runs[number].planned
    several = sum(run.planned.combination == planned.combination for run in result.runs) > 1
    name = name_of(result.plan, result.plan.combination(planned.combination))
    return f"{name} (run {planned.repeat})" if several else name


def _strays(result: SweepResult) -> Iterator[str]:
    """Say which losses of which runs end as no number, or leave those of the others, and since which step."""
    alike: dict[tuple[str, str], list[int]] = {}
    for stray in result.strays:
        since = "from the start" if stray.step is None else f"since step {stray.step:,}"
        odd = str(stray.value).replace("nan", "NaN").replace("inf", "infinite")
        what = f"is {odd} {since}" if stray.kind == "not finite" else f"is apart from the other runs' {since}"
        alike.setdefault((stray.name, what), []).append(stray.run)
    groups = [f"{name} {what} in {_runs_text(result, runs)}" for (name, what), runs in alike.items()]
    more = [f"{len(groups) - NAMED} more are in the table of strays"] if len(groups) > NAMED else []
    if groups:
        yield f"{'; '.join([*groups[:NAMED], *more])}."


def _runs_text(result: SweepResult, runs: Sequence[int]) -> str:
    """Return what several runs are called: their combinations, where these runs are all of theirs."""
    names: dict[str, None] = {}
    for number in runs:
        combination = result.runs[number].planned.combination
        every = {at for at, run in enumerate(result.runs) if run.planned.combination == combination and run.figures}
        both = name_of(result.plan, result.plan.combination(combination))
        names |= {both if every <= set(runs) else run_name(result, number): None}
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return listed([*list(names)[:NAMED], *more])


def _failed(result: SweepResult) -> Iterator[str]:
    lacking = [run for run in result.runs if run.figures is None]
    for state, what in (
        ("failed", "failed"),
        ("interrupted", "cut off"),
        ("missing", "not made yet"),
        ("whole", "without a report"),
    ):
        mine = [run for run in lacking if run.state == state]
        if mine:
            named = (
                "; ".join(f"{run.planned.folder}: {run.why}" for run in mine[:NAMED])
                if state in ("failed", "whole")
                else ""
            )
            yield f"{len(mine)} of {f.many(len(result.runs), 'run')} {what}{f' ({named})' if named else ''}."


def sparkline(values: Sequence[float], low: float, high: float, width: int) -> str:
    """Return a curve in so many characters at most, between two values that it shares with others."""
    bins = np.array_split(np.array(values, dtype=np.float64), min(width, len(values)))
    return "".join(_bar(part, low, high) for part in bins)


def _bar(part: FloatArray, low: float, high: float) -> str:
    if not np.isfinite(part).all():
        return ODD
    share = (float(part.mean()) - low) / (high - low) if high > low else 0.5
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]


def step_range(row: SweepRow) -> str:
    """Return where the steps of a row lie."""
    low, high = row.step.low, row.step.high
    return f.NA if low is None or high is None else f.range_text(Range(low, low, high), 3)
