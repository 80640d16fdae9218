"""The user's own functions, entered where they are called."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from tcprobe.audit.source.state import Interpreter, State
from tcprobe.audit.source.values.kinds import (
    NOTHING,
    Arguments,
    Entries,
    Env,
    Guess,
    Items,
    Keywords,
    Named,
    Routine,
    SourceValue,
    Unknown,
)
from tcprobe.audit.source.values.parts import marked
from tcprobe.audit.source.values.several import doubted, one_of
from tcprobe.source.enclosing import all_parameters
from tcprobe.source.names import PASSED
from tcprobe.source.values import Doubt

MOST_DEEP: Final = 24


class Functions:
    """Follows the functions of the file with what they are handed.

    Attributes:
        entered: functions that were followed at least once.
    """

    def __init__(self, state: State, interpreter: Interpreter) -> None:
        self.entered: set[ast.AST] = set()
        self._state = state
        self._interpreter = interpreter

    def enter(self, routine: Routine, given: Arguments) -> SourceValue:
        """Follow a function; return what it returns."""
        self.entered.add(routine.node)
        frames, calling = self._state.frames, self._state.calling
        own = self._state.is_own(routine.env)
        if not own and calling:
            self._state.seen.unsure.add(calling[-1])
        if not own and self._state.abroad > self._state.most_abroad:
            return Unknown("is computed in another file")
        deep = sum(frame.node is routine.node for frame in frames)
        if deep > 1 or len(frames) > MOST_DEEP:
            self._state.seen.unsure.update(calling[-1:])
            return Unknown("calls itself")
        self._state.step()
        handed = self._handed(routine, given)
        with self._state.frame(routine, Env(routine.env, handed)) as returned:
            if isinstance(routine.node, ast.Lambda):
                returned.append(self._interpreter.value(routine.node.body))
            else:
                self._interpreter.run(routine.node.body)
        return one_of(returned) if returned else NOTHING

    def _handed(self, routine: Routine, given: Arguments) -> dict[str, SourceValue]:
        """Return a function's parameters by name, as a call binds them."""
        arguments = routine.node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        bound = routine.bound if not marked(routine, "staticmethod") else None
        args = [bound, *given.args] if bound is not None else given.args
        known = {a.arg for a in all_parameters(arguments)}
        values: dict[str, SourceValue] = dict(zip(names, args, strict=False))
        values.update({k: v for k, v in given.keywords.items() if k in known})
        values.update(_not_passed(routine, known - set(values), given.lacking))
        bare = isinstance(routine.node, ast.Lambda)
        for name, value in values.items():
            about = Doubt(f"{name} comes from a function argument", None if bare else routine.node)
            values[name] = doubted(value, about)
        if arguments.vararg is not None:
            about = Doubt(f"{arguments.vararg.arg} comes from a function argument")
            values[arguments.vararg.arg] = Items(args[len(names) :], None, Guess((), (about,)))
        if arguments.kwarg is not None:
            values[arguments.kwarg.arg] = Entries({k: v for k, v in given.keywords.items() if k not in known})
        passed = [n for n, v in values.items() if n in PASSED and isinstance(v, Unknown)]
        return {**values, **{name: Named(PASSED[name]) for name in passed}}


def defaults_of(arguments: ast.arguments, value: Callable[[ast.expr], SourceValue]) -> Keywords:
    """Return the defaults of a function's parameters by name, `value` evaluating them where it is defined."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = zip(reversed(positional), reversed(arguments.defaults), strict=False)
    found = {arg.arg: value(default) for arg, default in pairs}
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {**found, **{arg.arg: value(default) for arg, default in named if default is not None}}


def _not_passed(routine: Routine, names: set[str], lacking: bool) -> Keywords:
    """Return what parameters are that a call does not pass."""
    found: Keywords = {}
    for name in names:
        reason = f"{name} comes from a function argument"
        value = routine.defaults.get(name, Unknown(reason))
        found[name] = doubted(value, Doubt(reason)) if lacking else value
    return found
