"""What each change gives: beside its others, by itself, in the mean over all settings, and in pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from tcprobe.analysis.sweep.speed import Speeds
from tcprobe.schema.changes.sweep import Change, Gain, Plan

Values = tuple[str, ...]


def gains_of(plan: Plan, speeds: Speeds, fastest: int) -> Iterator[Gain]:
    """Yield what every change gives over the baseline's value, as far as what it is held against was run.

    Args:
        plan: of the sweep.
        speeds: of its combinations.
        fastest: number of the fastest combination.
    """
    known = set(speeds.known)
    found = {one.values: one.number for one in plan.combinations if one.number in known}
    base = plan.combination(plan.baseline).values
    changes = [(at, value) for at, factor in enumerate(plan.factors) for value in factor.values if value != base[at]]
    for values, number in found.items():
        mine = [at for at, value in enumerate(values) if value != base[at]]
        for at in mine:
            change = (Change(plan.factors[at].name, values[at], base[at]),)
            if (without := _with(values, at, base[at])) in found:
                yield Gain("beside", change, speeds.over(number, found[without]), number)
            alone = found.get(_with(base, at, values[at]))
            if number == fastest and len(mine) > 1 and alone is not None and base in found:
                yield Gain("alone", change, speeds.over(alone, found[base]), number)
    of_one, of_two = ([*combinations(changes, count)] for count in (1, 2))
    for chosen in (*of_one, *(pair for pair in of_two if pair[0][0] != pair[1][0])):
        if squares := _squares(found, base, dict(chosen)):
            named = tuple(Change(plan.factors[at].name, value, base[at]) for at, value in chosen)
            speedup = speeds.contrast(_mean(squares))
            yield Gain("mean" if len(chosen) == 1 else "pair", named, speedup, contexts=len(squares))


def _with(values: Values, at: int, value: str) -> Values:
    return (*values[:at], value, *values[at + 1 :])


def _squares(found: Mapping[Values, int], base: Values, changed: Mapping[int, str]) -> list[dict[int, float]]:
    """Return, for each setting of the other factors, the combinations with and without some changes, if all were run.

    Those with all changes count 1, those without one of them -1, those without two 1 again.
    """
    squares = []
    for setting in found:
        if all(setting[at] == value for at, value in changed.items()):
            corners = {setting: 1.0}
            for at in changed:
                corners |= {_with(each, at, base[at]): -weight for each, weight in corners.items()}
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
