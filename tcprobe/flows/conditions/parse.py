"""Read conditions as they are typed: ``step_time>+5%``, ``tc_kernel_time_pct<30``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, DecimalException
from difflib import get_close_matches
from typing import Final, cast

from tcprobe.errors import UsageError
from tcprobe.schema.changes.condition import COMPARED, OF_ONE_RUN, RELATIONS, Condition, MetricUnit, Relation

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
_CONDITION: Final = re.compile(
    rf"\s*([A-Za-z_]\w*)\s*({_RELATION})\s*([+-]?)\s*([0-9]+\.?[0-9]*|\.[0-9]+)((?:[eE][+-]?[0-9]+)?)\s*(\S*)\s*",
)


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
    if not re.fullmatch(r"\s*[A-Za-z_]\w*\s*", text[: relation.start()]):
        return f"{text[: relation.start()].strip()!r} is no name of a figure"
    return f"{text[relation.end() :].strip()!r} is no number"


def _metric(text: str, name: str, unit: str, change: bool) -> tuple[str, MetricUnit]:
    """Return the figure that a name stands for, whole or without the suffix of its unit.

    Raises:
        UsageError: there is none, or several among which the limit's unit does not choose.
    """
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
    if change and metric not in COMPARED:
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
