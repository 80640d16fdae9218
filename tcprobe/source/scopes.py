"""Who binds a name: scopes, bindings and the order in which they happen, in one pass over the tree."""

from __future__ import annotations

import ast
from bisect import bisect_left
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

BindingKind = Literal["value", "import", "param", "def", "class", "other"]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MOST_BRANCHES: Final = 16
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class CodeBlock(Struct, eq=False):
    """Statements that run together or not at all; `start <= order < end` lies in it."""

    # start, end: the orders of what happens in it.
    start: int
    parent: CodeBlock | None = None  # the block around it
    group: ast.AST | None = None  # the statement whose branch it is; None where it always runs
    leaves: bool = False  # whether it ends with return or raise, so that nothing of it reaches what follows
    end: int = 2**62
    group_end: int = 2**62  # order behind that statement

    def holds(self, order: int) -> bool:
        """Return whether something that happens at `order` happens in it."""
        return self.start <= order < self.end


class Binding(Struct, eq=False):
    """One place that gives a name its value."""

    kind: BindingKind  # what binds it; ``other`` is what cannot be followed (``with``, ``except``, a pattern)
    order: int  # when, among all that happens in the file
    block: CodeBlock  # in which block
    node: ast.AST  # the statement, parameter, function or class
    value: ast.expr | None = None  # the expression that it takes its value from
    part: bool = False  # whether that is only a part of what the expression yields
    imported: str | None = None  # dotted name of what is imported
    function: FunctionNode | ast.Lambda | None = None  # of a parameter, its function


class Scope(Struct, eq=False):
    """Names of a module, class, function, or comprehension (`inline`: it runs where it stands)."""

    kind: Literal["module", "class", "function", "inline"]
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # `global` and `nonlocal`
    shared: set[str] = field(default_factory=set)  # bound by other scopes too
    attributes: dict[str, list[Binding]] = field(default_factory=dict)  # of a class: what `self.x = ...` binds


class Use(Struct, eq=False):
    """Where and when a name is read."""

    scope: Scope
    order: int


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
        if here.kind in ("function", "class"):
            flows = False
        inside = inside or here.kind == "function"
        here = here.parent
    return None


def reaching(scope: Scope, name: str, order: int) -> list[Binding]:
    """Return the bindings that a read at `order` may see, latest first."""
    bindings = scope.bindings[name]
    found: list[Binding] = []
    for binding in reversed(bindings[: bisect_left(bindings, order, key=attrgetter("order"))]):
        if binding.block.holds(order):
            return [*found, binding]
        if _may_reach(binding.block, order):
            found.append(binding)
        if len(found) > _MOST_BRANCHES:
            break
    return found


def _may_reach(block: CodeBlock | None, order: int) -> bool:
    while block is not None and not block.holds(order):
        if block.leaves or (block.group is not None and order < block.group_end):
            return False
        block = block.parent
    return True


# What lies around a piece of syntax


def all_parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return every parameter of a function, ``*args`` and ``**kwargs`` last."""
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def self_class(scope: Scope, node: ast.AST) -> Scope | None:
    """Return the class whose instance a name is: the first parameter of a method; None where it is none."""
    here: Scope | None = scope
    while isinstance(node, ast.Name) and here is not None:
        if node.id in here.bindings:
            first, above, function = here.bindings[node.id][0], here.parent, here.node
            method = isinstance(function, FunctionNode) and above is not None and above.kind == "class"
            own = method and len(here.bindings[node.id]) == 1 and not is_static(function)
            positional = [*function.args.posonlyargs, *function.args.args] if isinstance(function, FunctionNode) else []
            return above if own and first.node in positional[:1] else None
        here = here.parent
    return None


def is_static(function: ast.AST) -> bool:
    """Return whether a function is a static method."""
    marks = getattr(function, "decorator_list", ())
    return any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in marks)


def is_main_guard(test: ast.expr) -> bool:
    """Return whether a condition is ``__name__ == "__main__"``."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
        and isinstance(test.ops[0], ast.Eq)
    )


def enclosing(scope: Scope, name: str) -> Scope | None:
    """Return the function around a scope that binds a name; None where there is none."""
    here = scope.parent
    while here is not None:
        if here.kind == "function" and name in here.bindings:
            return here
        here = here.parent
    return None
