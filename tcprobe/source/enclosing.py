"""What lies around a piece of syntax: parameters, the class of `self`, the main guard."""

from __future__ import annotations

import ast

from tcprobe.source.scopes import FunctionNode, Scope


def all_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return every parameter of a function, ``*args`` and ``**kwargs`` last."""
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def self_class(scope: Scope, node: ast.AST) -> Scope | None:
    """Return the class whose instance a name is: the first parameter of a method; None where it is none."""
    here: Scope | None = scope
    while isinstance(node, ast.Name) and here is not None:
        if node.id in here.bindings:
            first = here.bindings[node.id][0]
            function, above = first.function, here.parent
            static = isinstance(function, ast.Lambda) or function is None or above is None or above.kind != "class"
            if static or len(here.bindings[node.id]) > 1 or first.node is not _first(function):
                return None
            return above
        here = here.parent
    return None


def is_main_guard(test: ast.expr) -> bool:
    """Return whether a condition is ``__name__ == "__main__"``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


def _first(function: FunctionNode | ast.Lambda | None) -> ast.arg | None:
    if function is None:
        return None
    positional = [*function.args.posonlyargs, *function.args.args]
    plain = isinstance(function, ast.Lambda) or not any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    return positional[0] if positional and plain else None


def enclosing(scope: Scope, name: str) -> Scope | None:
    """Return the function around a scope that binds a name; None where there is none."""
    here = scope.parent
    while here is not None:
        if here.kind == "function" and name in here.bindings:
            return here
        here = here.parent
    return None
