"""Which regular expressions may take forever on one line."""

from __future__ import annotations

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

UNBOUNDED: Final = 1000
"""Repeats of so many and more count as unbounded: {0,40} costs a factor, not a power."""
BACKTRACKS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def nests(pattern: re.Pattern[str]) -> bool:
    """Say whether an unbounded repeat that may give back what it took holds another such: (a+)+ takes 2**n steps."""
    return _nests(_parser.parse(pattern.pattern, pattern.flags), False)


def _nests(items: Any, inside: bool) -> bool:
    for op, argument in items:
        if op in BACKTRACKS:
            _, most, body = argument
            open_ = most == sre.MAXREPEAT or most >= UNBOUNDED
            if (open_ and inside) or _nests(body, inside or open_):
                return True
        elif any(_nests(body, inside) for body in _bodies(op, argument)):
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
    return []
