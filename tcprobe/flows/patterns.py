"""Which regular expressions may take forever on one line."""

from __future__ import annotations

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from tcprobe.errors import UsageError

UNBOUNDED: Final = 1000
"""Repeats of so many and more count as unbounded: {0,40} costs a factor, not a power."""
BACKTRACKS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT)


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


def nests(pattern: re.Pattern[str]) -> bool:
    """Say whether an unbounded repeat that may give back what it took holds another such: (a+)+ takes 2**n steps."""
    return _nests(_parser.parse(pattern.pattern, pattern.flags))


def _nests(items: Any, within: bool = False) -> bool:
    for op, argument in items:
        is_open = op in BACKTRACKS and (argument[1] == sre.MAXREPEAT or argument[1] >= UNBOUNDED)
        if (within and is_open) or any(_nests(body, within or is_open) for body in _bodies(op, argument)):
            return True
    return False


def _bodies(op: Any, argument: Any) -> list[Any]:
    """Return the parts within one part; what a possessive repeat or an atomic group took, it never gives back."""
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op is sre.BRANCH:
        return list(argument[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return [argument[2]] if op in BACKTRACKS else []
