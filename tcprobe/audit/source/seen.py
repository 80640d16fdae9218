"""What is seen while a file is followed: values of expressions, what is left out."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Final

from tcprobe.audit.source.values.kinds import Env, Items, SourceValue, Unknown
from tcprobe.audit.source.values.several import MOST_VALUES, differ
from tcprobe.source.values import Known

_LONGEST: Final = 64  # elements of a list that is kept as it was when it was read


@dataclass(slots=True, eq=False)
class Skipped:
    """Statements that were not followed, and the variables at that point; `dead` where they never run."""

    body: list[ast.stmt]
    env: Env
    dead: bool


@dataclass(slots=True, eq=False)
class Seen:
    """What was seen of one file.

    Attributes:
        values: every value of each expression that was evaluated; more than `MOST_VALUES` where there are too many.
        reached: the statements that were followed.
        skipped: what was not followed where it stood, by its first statement.
        calls: every call that was evaluated.
        unsure: the calls that may enter other functions, or a function in another way.
        cut: why the file was not followed to its end.
        unfinished: the functions and the statement of the module that ran then.
    """

    values: dict[ast.expr, list[SourceValue]] = field(default_factory=dict)
    reached: set[ast.stmt] = field(default_factory=set)
    skipped: dict[ast.stmt, Skipped] = field(default_factory=dict)
    calls: set[ast.Call] = field(default_factory=set)
    unsure: set[ast.Call] = field(default_factory=set)
    cut: str | None = None
    unfinished: set[ast.AST] = field(default_factory=set)

    def note(self, node: ast.expr, value: SourceValue) -> None:
        """Note that an expression had a value."""
        if type(value) is Items and len(value.items) <= _LONGEST:
            value = Items(list(value.items), value.open, value.guess)  # others may change it later on
        values = self.values.setdefault(node, [])
        if len(values) <= MOST_VALUES and not any(_same(value, other) for other in values):
            values.append(value)

    def skip(self, body: list[ast.stmt], env: Env, dead: bool) -> None:
        """Note that statements were not followed."""
        if body and body[0] not in self.reached:
            found = self.skipped.setdefault(body[0], Skipped(body, env, dead))
            if found.env is env:
                found.env = env.with_vars(dict(env.vars))
            found.dead = found.dead and dead


def _same(a: SourceValue, b: SourceValue) -> bool:
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        alike = a.reason == b.reason and a.complete == b.complete and len(a.options) == len(b.options)
        return alike and all(_same(x, y) for (x, _), (y, _) in zip(a.options, b.options, strict=True))
    return a is b or (isinstance(a, Known) and isinstance(b, Known) and not differ(a, b))
