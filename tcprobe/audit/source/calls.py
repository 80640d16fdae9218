"""Calls: their arguments evaluated, then whatever is called."""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.source.classes import Classes
from tcprobe.audit.source.functions import Functions
from tcprobe.audit.source.outside.methods import Methods
from tcprobe.audit.source.outside.models import Models
from tcprobe.audit.source.outside.modules import Modules
from tcprobe.audit.source.state import Interpreter, State
from tcprobe.audit.source.values.computed import FUNCTIONS
from tcprobe.audit.source.values.containers import READS
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Bound,
    Class,
    DataSet,
    Draft,
    Entries,
    Graph,
    Instance,
    Keywords,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values.known import items_of, tensors_of
from tcprobe.audit.source.values.parts import elements, result_of

_NO_INPUT: Final = ("mask", "training", "initial_state", "attention_mask")


class Calls:
    """Follows calls: of the user's functions and classes, of layers and models, of other modules' names."""

    def __init__(
        self, state: State, interpreter: Interpreter, functions: Functions, classes: Classes, models: Models
    ) -> None:
        self._state = state
        self._interpreter = interpreter
        self._functions = functions
        self._classes = classes
        self._models = models
        self._modules = Modules(state, models)
        self._methods = Methods(state, models)

    def call(self, node: ast.Call) -> SourceValue:
        """Return what a call is, its arguments evaluated first."""
        self._state.step()
        if isinstance(node.func, ast.Name) and node.func.id == "super" and self._state.frames:
            frame = self._state.frames[-1]
            return Bound(frame.bound, "super", [frame.holder]) if frame.bound and frame.holder else Unknown("super()")
        func = self._interpreter.value(node.func)
        args, lacks_args = self._positional(node)
        keywords, lacks_keywords = self._keywords(node)
        given = Arguments(args, keywords, lacks_args or lacks_keywords)
        seen = self._state.seen
        seen.calls.add(node)
        if isinstance(func, Unknown) or (isinstance(func, Named) and _is_of_unknown(func.name)):
            seen.unsure.add(node)
        if self._state.aside:
            return self._look(func, given, node)
        self._state.calling.append(node)
        made = self._invoke(func, given, node)
        self._state.calling.pop()
        return made

    def _look(self, func: SourceValue, given: Arguments, node: ast.Call) -> SourceValue:
        """Return the result of a call that does not run here: only of what computes with constants."""
        if isinstance(func, Named) and (func.name.startswith("builtins.") or func.name in FUNCTIONS):
            return self._modules.call(func.name, given, node)
        if isinstance(func, Bound) and isinstance(func.target, Entries) and func.name in READS:
            return self._methods.call(func, given, node)
        if isinstance(func, Routine | Class | Instance) or (isinstance(func, Bound) and func.name == "partial"):
            self._state.seen.unsure.add(node)
        return result_of(node, [t for value in given.all for t in tensors_of(value)])

    def _positional(self, node: ast.Call) -> tuple[list[SourceValue], bool]:
        """Return what is passed by position, and whether there may be more."""
        args: list[SourceValue] = []
        lacking = False
        for arg in node.args:
            if not isinstance(arg, ast.Starred):
                args.append(self._interpreter.value(arg))
                continue
            spread = self._interpreter.value(arg.value)
            found = elements(spread)
            args.extend(found if found is not None else tensors_of(spread))
            lacking = lacking or found is None
        return args, lacking

    def _keywords(self, node: ast.Call) -> tuple[Keywords, bool]:
        """Return what is passed by name, and whether there may be more."""
        keywords: Keywords = {}
        lacking = False
        for keyword in node.keywords:
            value = self._interpreter.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, Entries):
                keywords.update({k: v for k, v in value.entries.items() if isinstance(k, str)})
                lacking = lacking or value.open is not None
            else:
                lacking = True
        return keywords, lacking

    def _invoke(self, func: SourceValue, given: Arguments, node: ast.Call) -> SourceValue:
        """Return the result of calling a value."""
        if isinstance(func, Routine):
            return self._functions.enter(func, given)
        if isinstance(func, Class):
            return self._classes.construct(func, given, node)
        if isinstance(func, Instance):
            return self._classes.apply(func, given, node)
        if isinstance(func, Draft | Stack | Graph):
            inputs = [*given.args, *(v for k, v in given.keywords.items() if k not in _NO_INPUT)]
            if isinstance(func, Draft) and (state := given.keywords.get("initial_state")) is not None:
                func.other += [*tensors_of(state)] or [Tensor()]
            return self._models.apply(func, inputs, node)
        if isinstance(func, Bound):
            return self._bound(func, given, node)
        self._hand_out(given)
        if isinstance(func, Named):
            return self._modules.call(func.name, given, node)
        return result_of(node, [t for a in given.all for t in tensors_of(a)])

    def _bound(self, func: Bound, given: Arguments, node: ast.Call) -> SourceValue:
        of = func.target
        if func.name == "partial":
            whole = Arguments([*func.args, *given.args], {**func.keywords, **given.keywords}, given.lacking)
            return self._invoke(of, whole, node)
        if isinstance(of, DataSet) and func.name == "map" and isinstance(given.first, Routine):
            parts = items_of(of.element) or [of.element]
            return DataSet(self._functions.enter(given.first, Arguments(parts, {})))
        if isinstance(of, Bound) and of.name == "super":
            return self._classes.inherited(of, func.name, given)
        return self._methods.call(func, given, node)

    def _hand_out(self, given: Arguments) -> None:
        """Note which functions what is not followed may call from now on."""
        for arg in given.all:
            if isinstance(arg, Routine):
                self._state.hand(arg.node)


def _is_of_unknown(name: str) -> bool:
    """Return whether a name is that of a method of something that the file does not define."""
    return name.startswith("builtins.") and name.count(".") > 1
