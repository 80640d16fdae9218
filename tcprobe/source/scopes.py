"""Who binds a name: scopes and their bindings."""

from __future__ import annotations

import ast
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

BindingKind = Literal["value", "import", "param", "def", "class", "other"]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Binding(Struct, eq=False):
    """One place that gives a name its value."""

    kind: BindingKind  # what binds it; ``other`` is what cannot be followed (``with``, ``except``, a pattern)
    node: ast.AST  # the statement, parameter, function or class; of a parameter its function
    value: ast.expr | None = None  # the expression that it takes its value from
    part: bool = False  # whether that is only a part of what the expression yields
    imported: str | None = None  # dotted name of what is imported


class Scope(Struct, eq=False):
    """Names of a module, class, function, or comprehension (`inline`: it runs where it stands)."""

    kind: Literal["module", "class", "function", "inline"]
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # `global` and `nonlocal`
    shared: set[str] = field(default_factory=set)  # bound by other scopes too
    # of a class: the methods in which ``self.x = ...`` stands, by attribute
    attributes: dict[str, list[str]] = field(default_factory=dict)


def owner(scope: Scope, name: str) -> tuple[Scope, bool] | None:
    """Return the scope that binds a name read in `scope`, and whether it is read in the flow of that scope.

    None where no scope does: a builtin, or a name that the file does not define.
    """
    here: Scope | None = scope
    inside, flows = False, True
    while here is not None:
        if name in here.elsewhere:
            return here.elsewhere[name], False
        if name in here.bindings and not (here.kind == "class" and inside):
            return here, flows and name not in here.shared
        flows = flows and here.kind not in ("function", "class")
        inside = inside or here.kind == "function"
        here = here.parent
    return None


# What lies around a piece of syntax


def all_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return every parameter of a function, ``*args`` and ``**kwargs`` last."""
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def method_of(scope: Scope, node: ast.AST) -> Scope | None:
    """Return the method of whose instance a name is the first parameter; None where it is none."""
    here: Scope | None = scope
    while isinstance(node, ast.Name) and here is not None:
        if node.id in here.bindings:
            function, above = here.node, here.parent
            method = isinstance(function, FunctionNode) and above is not None and above.kind == "class"
            if not method or len(here.bindings[node.id]) > 1 or marked(function, "staticmethod"):
                return None
            positional = [*function.args.posonlyargs, *function.args.args] if isinstance(function, FunctionNode) else []
            return here if [a.arg for a in positional[:1]] == [node.id] else None
        here = here.parent
    return None


def marked(function: ast.AST, name: str) -> bool:
    """Return whether a function carries a plain decorator: staticmethod, classmethod, property."""
    marks = getattr(function, "decorator_list", ())
    return any(isinstance(mark, ast.Name) and mark.id == name for mark in marks)


def is_main_guard(test: ast.expr) -> bool:
    """Return whether a condition is ``__name__ == "__main__"``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


def every_node(root: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, in the order of `ast.walk`, which takes twice as long."""
    found = [root]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
    return found
