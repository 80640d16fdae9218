"""Statements of the user's program, followed in turn: assignments, branches, loops, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from tcprobe.audit.source.expressions import Expressions
from tcprobe.audit.source.state import Left, State
from tcprobe.audit.source.targets import Targets
from tcprobe.audit.source.values.kinds import Class, Env, Items, Named, Routine, Tensor, Unknown, Value, number
from tcprobe.audit.source.values.operators import arithmetic
from tcprobe.audit.source.values.parts import elements, marked, truth
from tcprobe.syntax.values import Known


class Statements:
    """Follows statements."""

    def __init__(self, state: State, expressions: Expressions, targets: Targets) -> None:
        self._state = state
        self._value = expressions.value
        self._bind = targets.bind

    def run(self, body: list[ast.stmt]) -> Left:
        """Follow statements; return how they are left, None where they run through."""
        for statement in body:
            self._state.step()
            follow = _STATEMENTS.get(type(statement))
            left = follow(self, statement) if follow is not None else None
            if left is not None:
                return left
        return None

    def _assign(self, node: ast.Assign) -> Left:
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
            self._state.returned[-1].append(self._value(node.value))
        return "return"

    def _import(self, node: ast.Import) -> Left:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self._state.env.vars[name] = Named(alias.name if alias.asname else name)
        return None

    def _import_from(self, node: ast.ImportFrom) -> Left:
        for alias in node.names:
            name = alias.asname or alias.name
            if node.level or alias.name == "*":
                unknown = Unknown(f"{name} comes from another file")
                self._state.env.vars.update({name: unknown} if alias.name != "*" else {})
            else:
                self._state.env.vars[name] = Named(f"{node.module}.{alias.name}")
        return None

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Left:
        for mark in node.decorator_list:
            self._value(mark)
        self._state.env.vars[node.name] = Routine(node, self._state.env)
        return None

    def _class(self, node: ast.ClassDef) -> Left:
        around, inside = self._state.env, Env(self._state.env)
        made = Class(node, around, [self._value(base) for base in node.bases])
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
        known = truth(self._value(node.test))
        if known is not None:
            return self.run(node.body if known else node.orelse)
        return self._state.branches([node.body, node.orelse], self.run)

    def _for(self, node: ast.For | ast.AsyncFor) -> Left:
        of = self._value(node.iter)
        found = elements(of)
        if found is None:
            self._once(node.target, of, node.body)
            return self.run(node.orelse)
        for element in found:
            self._bind(node.target, element)
            left = self.run(node.body)
            if left == "break":
                return None
            if left in ("return", "raise"):
                return left
        return self.run(node.orelse)

    def _once(self, target: ast.AST | None, of: Value, body: list[ast.stmt]) -> None:
        """Follow the body of a loop of unknown length once, numbers that it changes unknown."""
        changed = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        variables, drafts = self._state.env.vars, self._state.layers.drafts
        for name in changed & set(variables):
            if isinstance(variables[name], Known):
                variables[name] = Unknown(f"{name} changes in a loop")
        if target is not None:
            reason = of.reason if isinstance(of, Unknown) else "is the element of a loop that is not known"
            self._bind(target, of.items[0] if isinstance(of, Items) and len(of.items) == 1 else Unknown(reason))
        made = len(drafts)
        self.run(body)
        for draft in drafts[made:]:
            what = f"{draft.kind}: how many there are"
            self._state.miss(draft.node, what, "it is made in a loop whose length is not known")

    def _while(self, node: ast.While) -> Left:
        self._value(node.test)
        self._once(None, number(None), node.body)
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
    ast.Raise: lambda *_: "raise",
    ast.Break: lambda *_: "break",
    ast.Continue: lambda *_: "continue",
}
