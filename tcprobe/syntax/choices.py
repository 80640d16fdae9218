"""What an expression may be: several things, each under the choices that lead to it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from tcprobe.syntax.values import Known

MOST: Final = 64  # values that one expression may have before it counts as unknown
Choices: TypeAlias = frozenset[tuple[int, int]]
NOTHING: Final[Choices] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopRow:
    """Several values side by side, as `zip` and `enumerate` yield them."""

    things: tuple[Thing, ...]


Thing: TypeAlias = "ast.expr | ast.ClassDef | Known | LoopRow"


@dataclass(frozen=True, slots=True)
class Found:
    """What an expression may be, each with the choices behind it, and why it may be something else; None if not."""

    options: tuple[tuple[Thing, Choices], ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The constants that an expression may be, each with the choices behind it, and why it may be another."""

    options: tuple[tuple[Known, Choices], ...] = ()
    reason: str | None = None


Evaluate: TypeAlias = Callable[[ast.expr], Outcome]


def merged(a: Choices, b: Choices) -> Choices | None:
    """Return both choices together; None where they exclude each other."""
    if not a or not b:
        return a or b
    both = a | b
    return both if len({point for point, _ in both}) == len(both) else None


def union(parts: Iterable[tuple[Found, Choices]]) -> Found:
    """Return all that several findings may be, each under its own choices and those given with it."""
    options: dict[tuple[int, Choices], tuple[Thing, Choices]] = {}
    reason: str | None = None
    for found, choices in parts:
        reason = reason or found.reason
        for thing, more in found.options:
            both = merged(choices, more)
            if both is not None:
                options.setdefault((id(thing), both), (thing, both))
    return Found(tuple(options.values()), reason)


def capped(found: Found) -> Found:
    """Return a finding; unknown where it may be too much."""
    return found if len(found.options) <= MOST else Found((), "has too many values")
