"""What each expression of a followed file is, from what was seen on the way."""

from __future__ import annotations

import ast
from functools import cached_property

from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import Named, SourceValue, Unknown
from tcprobe.audit.source.values.several import MOST_VALUES, differ, known_of, options_of, resolved
from tcprobe.source.scopes import owner
from tcprobe.source.values import Doubt, Known

_TOO_MANY = "has too many values"
_ABROAD = Doubt("comes from another file")


class Answers:
    """Answers about the expressions and calls of one file.

    Attributes:
        state: what following the file found.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._seen = state.seen
        self._sites = state.source.sites
        self._found: dict[ast.expr, tuple[tuple[Known, ...], str | None]] = {}
        self._open: dict[ast.AST, bool] = {}

    def alternatives(self, node: ast.expr) -> tuple[Known, ...]:
        """Return every value that an expression was seen to have; at most `MOST_VALUES`, none beyond."""
        return self._of(node)[0]

    def why_open(self, node: ast.expr) -> str | None:
        """Return why an expression may have another value than these; None where it may not."""
        return self._of(node)[1]

    def _of(self, node: ast.expr) -> tuple[tuple[Known, ...], str | None]:
        if node not in self._found:
            self._found[node] = self._collected(node)
        return self._found[node]

    def _collected(self, node: ast.expr) -> tuple[tuple[Known, ...], str | None]:
        """Return the values of an expression, and why there may be others."""
        values = self._seen.values.get(node, [])
        found: list[Known] = []
        reason = None if values else "nothing was seen to reach it"
        for value in values:
            told, why = self._told(value, node)
            found.extend(known.at(node) for known in told if all(differ(known, other) for other in found))
            reason = reason or why
        if len(found) > MOST_VALUES or len(values) > MOST_VALUES:
            return (), _TOO_MANY
        if self._seen.cut is not None and not self._stands_alone(node) and not self._is_finished(self._around(node)):
            reason = reason or self._seen.cut
        return tuple(found), reason

    def _told(self, value: SourceValue, node: ast.expr) -> tuple[list[Known], str | None]:
        """Return the constants that one value may be, and why it may be another."""
        value = resolved(value)
        found, reason = [], value.reason if isinstance(value, Unknown) and not value.complete else None
        for option, _ in options_of(value):
            known = known_of(option, node)
            doubts = [d for d in self._doubts(known, option, node) if self._holds(d)] if known is not None else []
            if known is not None and not any(doubt.hidden for doubt in doubts):
                found.append(known)
            reason = reason or (doubts[0].reason if doubts else self._why_none(option, node) if known is None else None)
        return found, reason

    def _stands_alone(self, node: ast.expr) -> bool:
        """Return whether an expression is of literals and of the module's constants alone."""
        parts = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Call)]
        return all(isinstance(part, ast.Name) and self._is_constant(part) for part in parts)

    def _is_constant(self, name: ast.Name) -> bool:
        walk = self.state.source.walk
        use, module = walk.uses.get(name), walk.module
        found = owner(use.scope, name.id) if use is not None else None
        once = found is not None and found[0] is module and len(module.bindings[name.id]) == 1
        values = self._seen.values.get(name, [None])
        return once and name.id not in module.shared and all(isinstance(v, Known) for v in values)

    def _doubts(self, known: Known, value: SourceValue, node: ast.expr) -> list[Doubt]:
        """Return the doubts about a constant; about a list as well what the syntax tells against the whole."""
        own = None if isinstance(value, Known) else self.state.source.doubts.of_part(node)
        abroad = [_ABROAD] if known.abroad else []
        return [*known.doubts, *([own] if own is not None else []), *abroad]

    def _why_none(self, value: SourceValue, node: ast.expr) -> str:
        """Return why a value is no constant."""
        if not isinstance(value, Named):
            return "is no number or text"
        module, _, name = value.name.rpartition(".")
        if module != "builtins":
            return f"{name} comes from another module"
        use = self.state.source.walk.uses.get(node)
        found = owner(use.scope, name) if use is not None else None
        if found is None:
            return f"{name} is not defined in this file"
        other = any(binding.kind == "other" for binding in found[0].bindings[name])
        why = "comes from a statement that is not followed" if other else "is not assigned before it is used"
        return f"{name} {why}"

    def _holds(self, doubt: Doubt) -> bool:
        return doubt.function is None or doubt.function not in self._own or self._is_open(doubt.function)

    def _is_open(self, function: ast.AST) -> bool:
        """Return whether a function may be called in ways that were not seen."""
        if function not in self._open:
            self._open[function] = False  # a function that only calls itself is called in no other way
            sites = self._sites.of(function)  # type: ignore[arg-type]
            try:
                self._open[function] = sites.escapes or not all(self._is_sure(call) for call, _ in sites.calls)
            except RecursionError:
                self._open[function] = True
        return self._open[function]

    def _is_sure(self, call: ast.Call) -> bool:
        """Return whether all is known of what a call enters."""
        seen = (call in self._seen.calls and call not in self._seen.unsure) or call in self._dead
        return seen and (self._seen.cut is None or self._is_finished(self._around(call)))

    def _is_finished(self, unit: ast.AST | None) -> bool:
        """Return whether a function, or a statement of the module, ran in all the ways it does."""
        if unit is None or unit in self._seen.unfinished:
            return False
        if not isinstance(unit, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return unit in self._seen.reached
        return not self._is_open(unit)

    def _around(self, node: ast.AST) -> ast.AST | None:
        """Return the innermost function around a node, else the statement of the module."""
        return self._units.get(node)

    @cached_property
    def _units(self) -> dict[ast.AST, ast.AST]:
        found: dict[ast.AST, ast.AST] = {}
        pending: list[tuple[ast.AST, ast.AST]] = [(part, part) for part in self.state.source.tree.body]
        while pending:
            node, unit = pending.pop()
            found[node] = unit
            inner = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) else unit
            pending.extend((child, inner) for child in ast.iter_child_nodes(node))
        return found

    @cached_property
    def _own(self) -> set[ast.AST]:
        """The functions of the file."""
        return {function for function, _ in self.state.source.walk.functions}

    @cached_property
    def _dead(self) -> set[ast.AST]:
        """The nodes of statements that never run."""
        bodies = [skipped.body for first, skipped in self._seen.skipped.items() if skipped.dead]
        return {node for body in bodies for statement in body for node in ast.walk(statement)}
