"""Plan a sweep: what is varied, in which combinations, in which order; nothing is started."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.capture import CAPTURES, ncu
from tcprobe.errors import UsageError
from tcprobe.flows.profile import PRECISIONS, ProfileOptions, changed_source
from tcprobe.flows.workloads import find_workload
from tcprobe.masking import mask_text, mask_words
from tcprobe.schema.sweep import Combination, Factor, FactorKind, Plan, PlannedRun

SWITCH: Final = ("on", "off")
CHOICES: Final = {
    "precision": PRECISIONS,
    "xla": SWITCH,
    "profiler": ("auto", *(capture.NAME for capture in CAPTURES if capture is not ncu)),  # whose times are of no step
}
"""The options of tcprobe that take lists, besides --python, and what each may be."""
OPTIONS: Final[dict[FactorKind, str]] = {
    "argument": "--vary",
    "environment": "--vary-env",
    "constant": "--vary-constant",
}
NAMES: Final[dict[FactorKind, tuple[re.Pattern[str], str]]] = {
    "argument": (re.compile(r"-{0,2}[^\W\d][\w.:/-]*"), '--vary "--sizes=good,bad"'),
    "environment": (re.compile(r"[A-Za-z_]\w*"), "--vary-env NAME=a,b"),
    "constant": (re.compile(r"[^\W\d]\w*"), "--vary-constant NAME=True,False"),
}
MOST: Final = 1000
"""Combinations that nobody means to run."""


class SweepOptions(Struct, frozen=True):
    """What the user asked to vary, and how to run each; every list as it was typed."""

    base: ProfileOptions  # what all runs share; its words name the workload
    lists: Mapping[str, str]  # values of tcprobe's own options, by name
    vary: Sequence[str] = ()
    vary_env: Sequence[str] = ()
    vary_constant: Sequence[str] = ()
    exclude: Sequence[str] = ()
    baseline: str | None = None
    limit: int | None = None
    repeat: int = 1
    pause_s: float = 0.0


def plan_of(options: SweepOptions) -> Plan:
    """Return what is to be run: all combinations that are not excluded, then all again for each repeat.

    Raises:
        UsageError: the workload, a list, or what is to be excluded makes no sense.
        InputError: the script cannot be used.
    """
    target, workload = find_workload(options.base.words)
    factors = _factors(options)
    for factor in factors:
        own = factor.kind == "argument" or (factor.kind == "option" and workload is not None)
        key = factor.key if factor.kind == "argument" else f"--{factor.key}"
        if own and any(word == key or word.startswith(f"{key}=") for word in options.base.words[1:]):
            raise UsageError(f"{key} is varied, and the workload's own arguments set it", "leave one of them out")
        for value in factor.values if factor.kind == "constant" else ():
            changed_source(target, [(factor.key, value)])
    combinations = [
        Combination(number, values) for number, values in enumerate(product(*(f.values for f in factors)), 1)
    ]
    out = [_conditions("--exclude", text, factors) for text in options.exclude]
    kept = [one for one in combinations if not any(_holds(factors, one, wanted) for wanted in out)]
    if not kept:
        raise UsageError("--exclude leaves no combination", "exclude fewer")
    chosen = tuple(kept[: options.limit])
    return Plan(
        mask_text(target.label),
        factors,
        chosen,
        tuple(_runs(factors, chosen, options.repeat)),
        _baseline(options.baseline, factors, chosen),
        len(combinations) - len(kept),
        len(kept) - len(chosen),
    )


def _factors(options: SweepOptions) -> tuple[Factor, ...]:
    own = [Factor(name, "option", name, _chosen(name, text)) for name, text in options.lists.items()]
    given: dict[FactorKind, Sequence[str]] = {
        "argument": options.vary,
        "environment": options.vary_env,
        "constant": options.vary_constant,
    }
    factors = (*own, *(_factor(kind, text) for kind, texts in given.items() for text in texts))
    names = [factor.name for factor in factors]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{twice} is varied twice", "give its values in one list")
    size = 1
    for factor in factors:
        size *= len(factor.values)
    if size == 1 and options.repeat == 1:
        raise UsageError(
            "nothing is varied: a sweep takes two values of something, or more",
            'as in --precision float32,mixed_float16, or --vary "--batch-size=64,128"',
        )
    if size > MOST:
        raise UsageError(f"these are {size:,} combinations, and at most {MOST:,} are run", "vary less at a time")
    return factors


def _chosen(name: str, text: str) -> tuple[str, ...]:
    values = _values(f"--{name}", text)
    choices = CHOICES.get(name, values)
    if odd := [value for value in values if value not in choices]:
        raise UsageError(f"--{name}: {odd[0]!r} is none of its values", f"there are {', '.join(choices)}")
    return values


def _factor(kind: FactorKind, text: str) -> Factor:
    option, (pattern, example) = OPTIONS[kind], NAMES[kind]
    key, given, values = text.partition("=")
    if not pattern.fullmatch(key) or (not given and kind != "argument"):
        raise UsageError(f"{option} {text!r}: expected a name and its values", f"as in {example}")
    name = key.lstrip("-")
    if not given:
        return Factor(name, kind, key, SWITCH, switch=True)
    return Factor(name, kind, key, _values(f"{option} {key}", values))


def _values(of: str, text: str) -> tuple[str, ...]:
    """Return the values of a list; one with a comma stands in double quotes."""
    try:
        values = tuple(next(csv.reader([text], skipinitialspace=True, strict=True), ()))
    except csv.Error as error:  # a quote that is not closed, a line that ends
        raise UsageError(f"{of}: {text!r} is no list of values: {error}", "put commas between values") from error
    if not all(value.strip() for value in values) or not values:
        what = "an empty list" if not text.strip() else f"an empty value in {text!r}"
        raise UsageError(f"{of}: {what}", "name values, with commas between them")
    if len(set(values)) < len(values):
        raise UsageError(f"{of}: a value stands twice in {text!r}", "--repeat runs each combination several times")
    return values


def _conditions(option: str, text: str, factors: Sequence[Factor]) -> dict[str, str]:
    """Return what ``precision=float32,loss-scale=dynamic`` asks of a combination: factor -> value."""
    named = {factor.name: factor for factor in factors}
    wanted = {}
    for part in _values(option, text):
        name, given, value = part.partition("=")
        name = name.strip().lstrip("-")
        if not given or name not in named:
            near = get_close_matches(name, named, n=1)
            hint = f"did you mean {near[0]}?" if near else f"varied are {', '.join(named)}"
            raise UsageError(f"{option} {text!r}: {part!r} names nothing that is varied", hint)
        if value not in named[name].values:
            raise UsageError(f"{option} {text!r}: {name} is never {value}", f"it is {', '.join(named[name].values)}")
        wanted[name] = value
    return wanted


def _holds(factors: Sequence[Factor], one: Combination, wanted: Mapping[str, str]) -> bool:
    return all(wanted.get(factor.name, value) == value for factor, value in zip(factors, one.values, strict=True))


def _baseline(text: str | None, factors: Sequence[Factor], chosen: Sequence[Combination]) -> int:
    wanted = {} if text is None else _conditions("--baseline", text, factors)
    found = next((one for one in chosen if _holds(factors, one, wanted)), None)
    if found is None:
        raise UsageError(f"--baseline {text!r}: no combination that is run has these values", "--dry-run lists them")
    return found.number


def _masked(factor: Factor, value: str) -> str:
    (word,) = mask_words([f"{factor.key}={value}"])
    return word.removeprefix(f"{factor.key}=")


def masked(plan: Plan) -> Plan:
    """Return a plan as people and files see it: without secrets among its values."""
    factors = tuple(replace(one, values=tuple(_masked(one, value) for value in one.values)) for one in plan.factors)
    combinations = tuple(
        replace(one, values=tuple(map(_masked, plan.factors, one.values))) for one in plan.combinations
    )
    return replace(plan, factors=factors, combinations=combinations)


def _runs(factors: Sequence[Factor], chosen: Iterable[Combination], repeat: int) -> Iterator[PlannedRun]:
    """Yield the runs, one of each combination before the second of any: what drifts hits all alike."""
    for turn in range(1, repeat + 1):
        for one in chosen:
            name = f"c{one.number:02}-r{turn}-{'-'.join(map(_masked, factors, one.values))}"[:80]
            yield PlannedRun(re.sub(r"[^A-Za-z0-9._-]+", "_", name), one.number, turn)


def options_of(options: ProfileOptions, plan: Plan, run: PlannedRun, home: Path) -> ProfileOptions:
    """Return how one run is profiled; what it has of the environment is for `environment_of` to say."""
    words, constants, own = list(options.words), [], {}
    for factor, value in zip(plan.factors, plan.combination(run.combination).values, strict=True):
        if factor.kind == "option":
            own[factor.key] = value == "on" if factor.key == "xla" else value
        elif factor.kind == "constant":
            constants.append((factor.key, value))
        elif factor.kind == "argument":
            words += _words(factor, value)
    launcher, variables = options.launcher, environment_of(plan, run)
    if launcher and variables:  # it may start what it runs with a clean environment
        launcher = (*launcher, "env", *(f"{name}={value}" for name, value in variables.items()))
    changed = {**own, "words": tuple(words), "constants": tuple(constants), "launcher": launcher}
    return replace(options, output=home / run.folder, force=False, **changed)


def _words(factor: Factor, value: str) -> list[str]:
    if factor.switch:
        return [factor.key] if value == "on" else []
    short = factor.key.startswith("-") and not factor.key.startswith("--")
    return [factor.key, value] if short else [f"{factor.key}={value}"]


def environment_of(plan: Plan, run: PlannedRun) -> dict[str, str]:
    """Return the variables that one run has."""
    pairs = zip(plan.factors, plan.combination(run.combination).values, strict=True)
    return {factor.key: value for factor, value in pairs if factor.kind == "environment"}
