"""Which regular expressions may take forever on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from tcprobe.errors import UsageError

UNBOUNDED: Final = 1000
"""Repeats of so many and more count as unbounded: {0,40} costs a factor, not a power."""
BACKTRACKS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_ALL: Final = frozenset(map(chr, range(256)))
"""Characters by which classes are compared; what takes others is taken to take all."""
_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def checked(option: str, text: str, example: str) -> re.Pattern[str]:
    """Return the regular expression that an option gives.

    Args:
        option: as typed.
        text: what was given.
        example: says how such an expression looks.

    Raises:
        UsageError: it is none, or one that may take forever.
    """
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} {text!r}: no regular expression: {error}", example) from error
    if nests(pattern):
        raise UsageError(
            f"{option} {text!r}: a repeat without end holds another: one line may take it forever",
            r"write one class instead, as [\w.]+ for (?:\w+\.)+",
        )
    return pattern


def nests(pattern: re.Pattern[str], strict: bool = False) -> bool:
    """Say whether an unbounded repeat that may give back what it took holds another such: (a+)+ takes 2**n steps.

    One whose rounds are told apart by what only one part of them takes, as in (a+,)+, gives back in one way only: it
    counts where `strict`.
    """
    return _nests(_parser.parse(pattern.pattern, pattern.flags), strict)


def _nests(items: Any, strict: bool) -> bool:
    return any(
        (_is_open(op, argument) and _holds_open(argument[2]) and (strict or not _told_apart(argument[2])))
        or any(_nests(body, strict) for body in _bodies(op, argument))
        for op, argument in items
    )


def _is_open(op: Any, argument: Any) -> bool:
    return op in BACKTRACKS and (argument[1] == sre.MAXREPEAT or argument[1] >= UNBOUNDED)


def _holds_open(items: Any) -> bool:
    return any(_is_open(op, argument) or any(map(_holds_open, _bodies(op, argument))) for op, argument in items)


def _bodies(op: Any, argument: Any) -> list[Any]:
    """Return the parts within one part; what a possessive repeat or an atomic group took, it never gives back."""
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op is sre.BRANCH:
        return list(argument[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return [argument[2]] if op in BACKTRACKS else []


def _told_apart(items: Any) -> bool:
    """Say whether each round of a repeat takes exactly one character of a class that no other part of it takes."""
    parts = list(_flat(items))
    taken = [_taken(op, argument) for op, argument in parts]
    return any(
        op in (sre.LITERAL, sre.IN) and all(mine.isdisjoint(other) for k, other in enumerate(taken) if k != at)
        for at, ((op, _), mine) in enumerate(zip(parts, taken, strict=True))
    )


def _flat(items: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts of a sequence, those of its groups in their place."""
    for op, argument in items:
        if op is sre.SUBPATTERN:
            yield from _flat(argument[3])
        else:
            yield op, argument


def _taken(op: Any, argument: Any) -> frozenset[str]:
    """Return the characters that a part may take, of `_ALL`; too many rather than too few."""
    if op is sre.LITERAL:
        return frozenset(chr(argument)) & _ALL or _ALL
    if op is sre.NOT_LITERAL:
        return _ALL - {chr(argument)}
    if op is sre.IN:
        negated = argument[0][0] is sre.NEGATE
        found = frozenset[str]().union(*(_of_class(*one) for one in argument[negated:]))
        return _ALL - found if negated else found
    if op in BACKTRACKS:
        return frozenset[str]().union(*(_taken(*one) for one in _flat(argument[2])))
    return frozenset() if op is sre.AT else _ALL


def _of_class(op: Any, argument: Any) -> frozenset[str]:
    if op is sre.RANGE:
        return _ALL if argument[1] > 255 else frozenset(map(chr, range(argument[0], argument[1] + 1)))
    if op is sre.CATEGORY:
        return frozenset(c for c in _ALL if re.match(_CATEGORIES[argument], c))
    return frozenset(chr(argument)) & _ALL or _ALL
