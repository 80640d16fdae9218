"""Comprehensions of the user's program: run through where what they run over is known."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import Entries, Env, Items, SourceValue, Unknown
from tcprobe.audit.source.values.parts import elements, truth, unparsed
from tcprobe.audit.source.values.several import doubted, doubts_of, each, through
from tcprobe.source.values import Known

Comprehension: TypeAlias = ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp


@dataclass(slots=True)
class _Made:
    """What a comprehension has made so far.

    Attributes:
        is_dict: whether it makes a dictionary.
        outer: how many doubts are from outside of it.
        items, entries, keys: what it has made.
        reason: why there may be more.
        over: what it runs over.
    """

    is_dict: bool
    outer: int
    items: list[SourceValue] = field(default_factory=list)
    entries: dict[Any, SourceValue] = field(default_factory=dict)
    keys: dict[Any, Known] = field(default_factory=dict)
    reason: str | None = None
    over: list[SourceValue] = field(default_factory=list)


class Comprehensions:
    """Evaluates comprehensions; `value` evaluates their parts, `bind` gives targets their values."""

    def __init__(
        self, state: State, value: Callable[[ast.expr], SourceValue], bind: Callable[[ast.AST, SourceValue], None]
    ) -> None:
        self._state = state
        self._value = value
        self._bind = bind

    def value(self, node: Comprehension) -> SourceValue:
        """Return what a comprehension makes."""
        made = _Made(isinstance(node, ast.DictComp), len(self._state.doubts))
        with self._state.within(Env(self._state.env)):
            made.reason = self._each(node.generators, made, lambda: self._collect(node, made)) or made.reason
        whole = Entries(made.entries, made.reason, made.keys) if made.is_dict else Items(made.items, made.reason)
        return through(whole, made.over)

    def _each(self, generators: list[ast.comprehension], made: _Made, collect: Callable[[], None]) -> str | None:
        """Run through all that generators yield; return why there may be more or less of it."""
        generator, *rest = generators
        of = self._value(generator.iter)
        found = elements(of)
        made.over.append(of)
        reason: str | None = None
        if found is None:
            reason = of.reason if isinstance(of, Unknown) else f"{unparsed(generator.iter)} is not known"
        doubt = self._state.here.doubts.of_part(generator.iter)
        for element in found if found is not None else [each(of, reason or "")]:
            self._bind(generator.target, doubted(element, doubt))
            tests = [self._value(test) for test in generator.ifs]
            chosen = [truth(test) for test in tests]
            if False in chosen:
                continue
            reason = reason or ("is chosen by a condition" if None in chosen else None)
            with self._state.doubting(doubt for test in tests for doubt in doubts_of(test)):
                if rest:
                    self._state.step()
                    reason = self._each(rest, made, collect) or reason
                else:
                    collect()
        return reason

    def _collect(self, node: Comprehension, made: _Made) -> None:
        """Add what a comprehension makes of the elements that are bound now."""
        if not isinstance(node, ast.DictComp):
            made.items.append(self._state.doubted(self._value(node.elt), made.outer))
            return
        key, value = self._value(node.key), self._state.doubted(self._value(node.value), made.outer)
        if isinstance(key, Known):
            made.entries[key.value], made.keys[key.value] = value, key
        else:
            made.reason = made.reason or "has a key that is not known"
