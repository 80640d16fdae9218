"""Statements of the user's program, followed in turn: assignments, branches, loops, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tcprobe.audit.source.expressions import Expressions
from tcprobe.audit.source.functions import defaults_of
from tcprobe.audit.source.outside.imported import Imported
from tcprobe.audit.source.state import Left, State
from tcprobe.audit.source.targets import Targets
from tcprobe.audit.source.values.containers import CHANGING
from tcprobe.audit.source.values.kinds import (
    Class,
    Env,
    Items,
    Named,
    Routine,
    SourceValue,
    Tensor,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.operators import arithmetic
from tcprobe.audit.source.values.parts import any_of, elements, marked, truth
from tcprobe.audit.source.values.several import doubted, doubts_of, each, fork, guessed, is_open, several, shaken
from tcprobe.source.values import Doubt, Known


class Statements:
    """Follows statements."""

    def __init__(self, state: State, expressions: Expressions, targets: Targets, imported: Imported) -> None:
        self._state = state
        self._imported = imported
        self._expressions = expressions
        self._value = expressions.value
        self._bind = targets.bind

    def run(self, body: list[ast.stmt]) -> Left:
        """Follow statements; return how they are left, None where they run through."""
        for index, statement in enumerate(body):
            self._state.step()
            self._state.seen.reached.add(statement)
            follow = _STATEMENTS.get(type(statement))
            left = follow(self, statement) if follow is not None else None
            if left is not None:
                self._skip(body[index + 1 :])
                return left
        return None

    def _skip(self, body: list[ast.stmt], dead: bool = False) -> None:
        """Note that statements are not followed here; `dead` where they never run."""
        self._state.seen.skip(body, self._state.env, dead)

    def _assign(self, node: ast.Assign) -> Left:
        if self._state.given.is_any:
            for target in node.targets:
                if isinstance(target, ast.Name | ast.Attribute):
                    self._state.assigned[node.value] = target.id if isinstance(target, ast.Name) else target.attr
        value = self._value(node.value)
        for target in node.targets:
            self._bind(target, value)
        return None

    def _annotated(self, node: ast.AnnAssign) -> Left:
        if node.value is not None:
            self._bind(node.target, self._value(node.value))
        return None

    def _augmented(self, node: ast.AugAssign) -> Left:
        left, right = self._value(node.target), self._value(node.value)
        if isinstance(left, Items) and isinstance(node.op, ast.Add):
            if self._state.aside:
                return None
            found = elements(right)
            left.items.extend(found or [])
            left.open = left.open or (None if found is not None else "is changed in place")
            return None
        whole = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self._bind(node.target, arithmetic(node.op, left, right, whole))
        return None

    def _expression(self, node: ast.Expr) -> Left:
        self._value(node.value)
        return None

    def _return(self, node: ast.Return) -> Left:
        if node.value is not None:
            value = self._value(node.value)
            self._state.returned[-1].append(self._state.doubted(value, self._state.inner))
        return "return"

    def _import(self, node: ast.Import) -> Left:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            whole = alias.name if alias.asname else name
            found = self._imported.module(whole, self._state.here.path)
            self._state.env.vars[name] = found or Named(whole)
        return None

    def _import_from(self, node: ast.ImportFrom) -> Left:
        for alias in node.names:
            if alias.name == "*":
                continue
            name, module = alias.asname or alias.name, "." * node.level + (node.module or "")
            here = self._state.here
            handed_on = here.imported(node, name)
            found = Named(handed_on) if handed_on else self._imported.taken(module, alias.name, here.path)
            self._state.env.vars[name] = found
        return None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Left:
        for mark in node.decorator_list:
            self._value(mark)
        made = Routine(node, self._state.env, defaults_of(node.args, self._value))
        self._state.env.vars[node.name] = self._state.routines[node] = made
        return None

    def _class(self, node: ast.ClassDef) -> Left:
        around, inside = self._state.env, Env(self._state.env)
        made = Class(node, around, [self._value(base) for base in node.bases])
        for mark in (*node.decorator_list, *(keyword.value for keyword in node.keywords)):
            self._expressions.look(mark)
        with self._state.within(inside):
            self.run(node.body)
        for name, value in inside.vars.items():
            if isinstance(value, Routine) and value.node in node.body:
                value.env, value.holder = around, made
                if marked(value, "property"):
                    value = Unknown(f"{name} is computed")
            made.members[name] = value
        around.vars[node.name] = made
        return None

    # branches and loops

    def _if(self, node: ast.If) -> Left:
        test = self._value(node.test)
        known = truth(test)
        if known is None:
            return self._state.branches([node.body, node.orelse], self.run)
        taken, other = (node.body, node.orelse) if known else (node.orelse, node.body)
        doubts = doubts_of(test)
        if not doubts:
            self._skip(other, isinstance(test, Known))
            return self.run(taken)
        before = dict(self._state.env.vars)
        with self._state.doubting(doubts):
            left = self.run(taken)
        if left is None:
            self._weigh(other, before, doubts, is_open(test) and self._state.is_own(self._state.env))
        else:
            self._skip(other)
        return left

    def _weigh(
        self, other: list[ast.stmt], before: dict[str, SourceValue], doubts: tuple[Doubt, ...], looking: bool
    ) -> None:
        """Keep for each name what it would be if the other branch were taken, where that one is looked at."""
        env, aside = self._state.env, self._state.env.with_vars(before)
        left: Left = None
        if looking:
            with self._state.looking(aside):
                left = self.run(other)
        else:
            self._state.seen.skip(other, env.with_vars(before), False)
        point = fork()
        for name, value in list(env.vars.items()):
            theirs = aside.vars.get(name)
            if left is not None or theirs is value:
                continue
            whole = Unknown("")
            if looking and theirs is not None:
                whole = several("", [(value, frozenset({(point, 0)})), (theirs, frozenset({(point, 1)}))])
            env.vars[name] = guessed(value, whole, doubts)

    def _for(self, node: ast.For | ast.AsyncFor) -> Left:
        of = self._value(node.iter)
        found = elements(of)
        if found is None:
            self._once(node.target, of, node.body)
            return self.run(node.orelse)
        doubts = doubts_of(of)
        self._shake(node.body, doubts)
        with self._state.doubting(doubts):
            left = self._each(node, found)
        self._shake(node.body, doubts)
        if left is None and any(isinstance(inner, ast.Break) for inner in ast.walk(node)):
            self._doubt([node], "is set in a loop that may end before")
        if left in ("return", "raise"):
            return left
        if left == "break":
            self._skip(node.orelse)
            return None
        return self.run(node.orelse)

    def _each(self, node: ast.For | ast.AsyncFor, found: list[SourceValue]) -> Left:
        """Follow the body of a loop for each element; return how it is left."""
        doubt = self._state.here.doubts.of_part(node.iter)
        if not found:
            self._skip(node.body)
        for element in found:
            self._bind(node.target, doubted(element, doubt))
            left = self.run(node.body)
            if left not in (None, "continue"):
                return left
        return None

    def _shake(self, body: list[ast.stmt], doubts: tuple[Doubt, ...]) -> None:
        """Note that a loop may run more or fewer times, so that what it assigns may be something else."""
        variables = self._state.env.vars
        for name in _stored(body) & variables.keys() if doubts else ():
            variables[name] = guessed(variables[name], Unknown(""), doubts)

    def _once(self, target: ast.AST | None, of: SourceValue, body: list[ast.stmt]) -> None:
        """Follow the body of a loop of unknown length once, numbers that it changes unknown."""
        variables, drafts = self._state.env.vars, self._state.layers.drafts
        before = dict(variables)
        self._state.shaky.update(_attributes(body))
        for name in _changed(body) & set(variables):
            shaken(variables[name], "changes in a loop")
        for name in _stored(body) & set(variables):
            if isinstance(variables[name], Known):
                variables[name] = Unknown(f"{name} changes in a loop")
        if target is not None:
            reason = of.reason if isinstance(of, Unknown) else "is the element of a loop that is not known"
            self._bind(target, any_of(of) or each(of, reason))
        made = len(drafts)
        self.run(body)
        self._doubt(body, "changes in a loop", before)
        for draft in drafts[made:]:
            what = f"{draft.kind}: how many there are"
            self._state.miss(draft.node, what, "it is made in a loop whose length is not known")

    def _doubt(self, body: list[ast.stmt], reason: str, before: dict[str, SourceValue] | None = None) -> None:
        """Note that what statements assign may be something else behind them: what it was `before`, if that is told."""
        variables, point = self._state.env.vars, fork()
        for name in _stored(body) & variables.keys():
            whole, value = Unknown(""), variables[name]
            if before is not None and name not in before:
                continue
            if before is not None:
                whole = several("", [(value, frozenset({(point, 0)})), (before[name], frozenset({(point, 1)}))])
            variables[name] = guessed(value, whole, [Doubt(f"{name} {reason}")])

    def _look(self, node: ast.Assert | ast.Raise) -> Left:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and child not in self._state.seen.values:
                self._expressions.look(child)
        return "raise" if isinstance(node, ast.Raise) else None

    def _while(self, node: ast.While) -> Left:
        self._value(node.test)
        self._once(None, known_constant(None), node.body)
        return None

    def _with(self, node: ast.With | ast.AsyncWith) -> Left:
        for item in node.items:
            value = self._value(item.context_expr)
            if item.optional_vars is not None:
                self._bind(item.optional_vars, value if isinstance(value, Tensor) else Unknown("is opened by with"))
        return self.run(node.body)

    def _try(self, node: ast.Try | ast.TryStar) -> Left:
        left = self.run(node.body)
        for handler in node.handlers:
            self._import_in(handler.body)
            self._skip(handler.body)
            if not isinstance(handler.body[-1], ast.Return | ast.Raise):
                self._doubt(handler.body, "is set under a condition")
        return left or self.run(node.orelse) or self.run(node.finalbody)

    def _import_in(self, body: list[ast.stmt]) -> None:
        """Take what only an except branch imports: it stands for the same as what failed."""
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                known = dict(self._state.env.vars)
                _STATEMENTS[type(statement)](self, statement)
                self._state.env.vars.update(known)

    def _match(self, node: ast.Match) -> Left:
        self._value(node.subject)
        return self._state.branches([*(case.body for case in node.cases), []], self.run)


def _stored(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements assign."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _attributes(body: list[ast.stmt]) -> set[str]:
    """Return the attributes that statements assign, those of functions and classes inside left out."""
    found: set[str] = set()
    pending: list[ast.AST] = [*body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _changed(body: list[ast.stmt]) -> set[str]:
    """Return the names of what statements change in place: ``sizes.append(64)``, ``sizes[0] = 64``."""
    found: set[str] = set()
    for node in (node for statement in body for node in ast.walk(statement)):
        of = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
        changes = isinstance(node, ast.Attribute) and node.attr in CHANGING
        stores = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        found.update([of.id] if isinstance(of, ast.Name) and (changes or stores) else [])
    return found


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Statements, Any], Left]]] = {
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Expr: Statements._expression,
    ast.Return: Statements._return,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._import_from,
    ast.FunctionDef: Statements._function,
    ast.AsyncFunctionDef: Statements._function,
    ast.ClassDef: Statements._class,
    ast.If: Statements._if,
    ast.For: Statements._for,
    ast.AsyncFor: Statements._for,
    ast.While: Statements._while,
    ast.With: Statements._with,
    ast.AsyncWith: Statements._with,
    ast.Try: Statements._try,
    ast.TryStar: Statements._try,
    ast.Match: Statements._match,
    ast.Raise: Statements._look,
    ast.Assert: Statements._look,
    ast.Break: lambda *_: "break",
    ast.Continue: lambda *_: "continue",
}
