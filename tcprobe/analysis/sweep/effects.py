"""What each change gives: beside its others, by itself, in the mean over all settings, and in pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from tcprobe.analysis.sweep.speed import Speeds
from tcprobe.schema.changes.sweep import Effect, Gain, PairEffect, Plan

Values = tuple[str, ...]


def with_value(values: Values, at: int, value: str) -> Values:
    """Return values of factors with another one at a place."""
    return (*values[:at], value, *values[at + 1 :])


def numbers_of(plan: Plan, speeds: Speeds) -> dict[Values, int]:
    """Return the numbers of the combinations that have figures."""
    known = set(speeds.known)
    return {one.values: one.number for one in plan.combinations if one.number in known}


def gains_of(plan: Plan, speeds: Speeds, number: int) -> tuple[Gain, ...]:
    """Return what each change of a combination gives that its others do not: against it without that change."""
    found, base, mine = numbers_of(plan, speeds), plan.combination(plan.baseline), plan.combination(number)
    return tuple(
        Gain(plan.factors[at].name, mine.values[at], base.values[at], speeds.over(number, found[without]))
        for at in _changed(mine.values, base.values)
        if (without := with_value(mine.values, at, base.values[at])) in found
    )


def alone_of(plan: Plan, speeds: Speeds, number: int) -> tuple[Gain, ...]:
    """Return what each change of a combination with several gives by itself, over the baseline."""
    found, base, mine = numbers_of(plan, speeds), plan.combination(plan.baseline), plan.combination(number)
    changed = _changed(mine.values, base.values)
    return tuple(
        Gain(plan.factors[at].name, mine.values[at], base.values[at], speeds.over(found[only], base.number))
        for at in changed
        if len(changed) > 1 and base.values in found and (only := with_value(base.values, at, mine.values[at])) in found
    )


def _changed(mine: Values, base: Values) -> list[int]:
    return [at for at, pair in enumerate(zip(mine, base, strict=True)) if pair[0] != pair[1]]


def effects_of(plan: Plan, speeds: Speeds) -> tuple[Effect, ...]:
    """Return what each value gives instead of the baseline's, over the settings of the others that have both."""
    return tuple(
        Effect(plan.factors[at].name, value, plan.combination(plan.baseline).values[at], speedup, contexts)
        for at, value in _changes(plan)
        if (contexts := len(by := _squares(plan, speeds, {at: value})))
        for speedup in [speeds.contrast(_mean(by))]
    )


def pairs_of(plan: Plan, speeds: Speeds) -> tuple[PairEffect, ...]:
    """Return what two changes give together beyond the product of both, over the settings that have all four."""
    return tuple(
        PairEffect((plan.factors[one].name, plan.factors[two].name), (first, second), speedup, contexts)
        for (one, first), (two, second) in combinations(_changes(plan), 2)
        if one != two and (contexts := len(by := _squares(plan, speeds, {one: first, two: second})))
        for speedup in [speeds.contrast(_mean(by))]
    )


def _changes(plan: Plan) -> list[tuple[int, str]]:
    base = plan.combination(plan.baseline).values
    return [(at, value) for at, factor in enumerate(plan.factors) for value in factor.values if value != base[at]]


def _squares(plan: Plan, speeds: Speeds, changed: Mapping[int, str]) -> list[dict[int, float]]:
    """Return, for each setting of the other factors, the combinations with and without some changes, if all were run.

    Those with all changes count 1, those without one of them -1, those without two 1 again.
    """
    found, base = numbers_of(plan, speeds), plan.combination(plan.baseline).values
    squares = []
    for setting in found:
        if all(setting[at] == value for at, value in changed.items()):
            corners = {setting: 1.0}
            for at in changed:
                corners |= {with_value(each, at, base[at]): -weight for each, weight in corners.items()}
            if corners.keys() <= found.keys():
                squares.append({found[each]: weight for each, weight in corners.items()})
    return squares


def _mean(squares: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the weights of the mean of contrasts."""
    weights: dict[int, float] = {}
    for square in squares:
        for number, weight in square.items():
            weights[number] = weights.get(number, 0.0) + weight / len(squares)
    return weights
