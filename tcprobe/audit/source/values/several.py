"""A value of which only one of several will hold: which, under which choices, and how operators go through them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from tcprobe.audit.source.values.kinds import (
    NO_CHOICE,
    Entries,
    Guess,
    Instance,
    Items,
    Named,
    Option,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values.known import either, items_of
from tcprobe.source.values import MOST_LEAVES, Choices, Doubt, Known, identical, same, tuple_of

MOST_VALUES: Final = 64  # values that one expression may have before it counts as unknown
_FORKS = count()


def fork() -> int:
    """Return what tells one choice from every other."""
    return next(_FORKS)


def options_of(value: SourceValue) -> tuple[Option, ...]:
    """Return what a value may be, each under its choices; nothing where that is not known."""
    if isinstance(value, Unknown):
        return value.options
    return _options(value) or ((value, NO_CHOICE),)


def _options(value: SourceValue) -> tuple[Option, ...]:
    """Return what a value may be that is taken for granted; nothing where it is."""
    if isinstance(value, Known):
        return value.options
    found = value.guess if isinstance(value, Items | Entries | Instance) else None
    return found.options if found is not None else ()


def guessed(guess: SourceValue, whole: Unknown, doubts: Iterable[Doubt]) -> SourceValue:
    """Return a value that is taken for granted, with all that it may be and the doubts about it."""
    options = whole.options if whole.complete else ()
    for doubt in doubts:
        guess = doubted(guess, doubt)
    if isinstance(guess, Known):
        known = tuple((k, choices) for option, choices in options if (k := known_of(option, guess.expression)))
        return replace(guess, options=known if len(known) == len(options) else ())
    if isinstance(guess, Items):
        return Items(guess.items, guess.open, Guess(options, tuple(doubts)))
    if isinstance(guess, Entries):
        return Entries(guess.entries, guess.open, guess.keys, Guess(options, tuple(doubts)))
    if isinstance(guess, Instance) and guess.keras is None:
        return replace(guess, guess=Guess(options, tuple(doubts)))
    return guess


def is_open(test: SourceValue) -> bool:
    """Return whether a value may be another one, however its function is called."""
    return any(doubt.function is None and not doubt.hidden for doubt in doubts_of(test))


def through(
    made: SourceValue, values: Sequence[SourceValue], make: Callable[[list[SourceValue]], SourceValue] | None = None
) -> SourceValue:
    """Return what was made of values, with the doubts about them and, where `make` tells, all that it may be."""
    doubts = [doubt for value in values for doubt in _doubts(value)]
    if make is not None and any(map(_options, values)):
        return guessed(made, mapped("", values, make), doubts)
    return guessed(made, Unknown(""), doubts) if doubts else made


def doubts_of(value: SourceValue) -> tuple[Doubt, ...]:
    """Return why a value may be another one."""
    return value.doubts if isinstance(value, Known) else _doubts(value)


def _doubts(value: SourceValue) -> tuple[Doubt, ...]:
    found = value.guess if isinstance(value, Items | Entries | Instance) else None
    return found.doubts if found is not None else ()


def is_whole(value: SourceValue) -> bool:
    """Return whether a value can be nothing but its options."""
    return value.complete if isinstance(value, Unknown) else True


def several(reason: str, parts: Iterable[tuple[SourceValue, Choices]], complete: bool = True) -> Unknown:
    """Return one of several values, each under a choice; `complete` if it can be nothing else."""
    found: list[Option] = []
    for value, choices in parts:
        complete = complete and is_whole(value)
        for option, more in options_of(value):
            both = _merged(choices, more)
            if both is not None:
                found.append((option, both))
        if len(found) > MOST_VALUES:
            return Unknown(reason)
    return Unknown(reason, tuple(found), complete and bool(found))


def one_of(values: Sequence[SourceValue | None], point: int | None = None) -> SourceValue:
    """Return what holds of all values of which one will be taken; None stands for a name that is not set.

    Args:
        values: the values.
        point: the choice between them, where other names hang on the same one.
    """
    first = values[0]
    if first is not None and all(value is first for value in values):
        return first
    there = [value for value in values if value is not None]
    if first is not None and len(there) == len(values):
        common = _common(there)
        if common is not None:
            return common
    where = fork() if point is None else point
    parts = [(value, frozenset({(where, i)})) for i, value in enumerate(values) if value is not None]
    return several("is set under a condition", parts, len(there) == len(values))


def _common(values: list[SourceValue]) -> SourceValue | None:
    """Return what several values agree on; None where it is nothing."""
    known = [v for v in values if isinstance(v, Known)]
    tensors = [v for v in values if isinstance(v, Tensor)]
    lists = [v for v in values if isinstance(v, Items)]
    if len(known) == len(values):
        return same(known, known[0].expression)
    if len(tensors) == len(values):
        both = tensors[0]
        for other in tensors[1:]:
            both = either(both, other)
        return both
    if len(lists) == len(values) and len({len(v.items) for v in lists}) == 1:
        point = fork()
        rows = zip(*(v.items for v in lists), strict=True)
        return Items([one_of(list(row), point) for row in rows], next((v.open for v in lists if v.open), None))
    return values[0] if isinstance(values[0], Named) and all(v == values[0] for v in values) else None


def mapped(reason: str, values: Sequence[SourceValue], make: Callable[[list[SourceValue]], SourceValue]) -> Unknown:
    """Return what `make` makes of every possibility of several values, those that exclude each other left out."""
    if not all(map(options_of, values)):
        return Unknown(reason)
    complete = all(map(is_whole, values))
    parts: list[tuple[SourceValue, Choices]] = []
    for row, choices in _combined(values):
        parts.append((make(row), choices))
        if len(parts) > MOST_VALUES:
            return Unknown(reason)
    return several(reason, parts, complete)


def _combined(values: Sequence[SourceValue]) -> Iterator[tuple[list[SourceValue], Choices]]:
    rows: list[tuple[list[SourceValue], Choices]] = [([], NO_CHOICE)]
    for value in values:
        following: list[tuple[list[SourceValue], Choices]] = []
        for row, choices in rows:
            for option, more in options_of(value):
                both = _merged(choices, more)
                if both is not None:
                    following.append(([*row, option], both))
        rows = following[: MOST_VALUES + 1]
    return iter(rows)


def _merged(a: Choices, b: Choices) -> Choices | None:
    """Return both choices together; None where they exclude each other."""
    if not a or not b:
        return a or b
    both = a | b
    return both if len({point for point, _ in both}) == len(both) else None


def each(of: SourceValue, reason: str) -> Unknown:
    """Return what a loop meets over a list that is one of several, or not known; `reason` where nothing tells."""
    if not isinstance(of, Unknown):
        return Unknown(reason)
    point = fork()
    rows = [(items_of(option), choices) for option, choices in of.options]
    parts = [(item, choices) for row, choices in rows for item in row or ()]
    one_each = ((item, choices | {(point, i)}) for i, (item, choices) in enumerate(parts))
    return several(reason, one_each, of.complete and all(row is not None for row, _ in rows))


def doubted(value: SourceValue, doubt: Doubt | None) -> SourceValue:
    """Return a value with a doubt about its constants; lists and objects, which others share, stay as they are."""
    if doubt is None:
        return value
    if isinstance(value, Known):
        return value.doubted(doubt)
    if isinstance(value, Unknown) and value.options:
        return Unknown(value.reason, tuple((doubted(v, doubt), c) for v, c in value.options), value.complete)
    return value


def resolved(value: SourceValue) -> SourceValue:
    """Return a value; a list or tuple of which elements may be several as several lists."""
    parts: Sequence[SourceValue] = value.items if isinstance(value, Items) and not value.open else ()
    if isinstance(value, Known) and not value.options:
        parts = value.elements
    unknown = next((v for v in parts if isinstance(v, Unknown)), None)
    if unknown is None and not any(map(_options, parts)):
        return value
    return mapped(unknown.reason if unknown is not None else "", parts, Items)


def known_of(value: SourceValue, node: ast.expr, depth: int = 8) -> Known | None:
    """Return the constant that a value is, a list of constants as a tuple; None where it is none."""
    if isinstance(value, Known):
        return value
    if not isinstance(value, Items) or value.open is not None or not depth:
        return None
    parts: list[Known] = []
    leaves = 0
    for item in items_of(value) or ():
        known = known_of(item, node, depth - 1)
        leaves += known.leaves if known is not None else 0
        if known is None or leaves > MOST_LEAVES:
            return None
        parts.append(known)
    whole = tuple_of(parts, node)
    for doubt in _doubts(value):
        whole = whole.doubted(doubt)
    return whole


def shaken(value: SourceValue, reason: str) -> None:
    """Note of a list or dictionary that it may be changed otherwise than was seen."""
    if isinstance(value, Items | Entries):
        value.guess = Guess((), (Doubt(reason),))


def differ(a: Known, b: Known) -> bool:
    """Return whether two constants are different, or not as sure."""
    return not identical(a.value, b.value) or a.abroad is not b.abroad or a.doubts != b.doubts or a.options != b.options
