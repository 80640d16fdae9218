"""Who binds a name: scopes, bindings and the order in which they happen, in one pass over the tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

BindingKind = Literal["value", "import", "param", "def", "class", "other"]
FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True, eq=False)
class CodeBlock:
    """Statements that run together or not at all; `start <= order < end` lies in it.

    Attributes:
        start, end: the orders of what happens in it.
        parent: the block around it.
        loop: whether it may run more than once.
        group: the statement whose branch it is; None where it always runs.
        group_end: order behind that statement.
        leaves: whether it ends with return or raise, so that nothing of it reaches what follows.
    """

    start: int
    parent: CodeBlock | None = None
    loop: bool = False
    group: ast.AST | None = None
    leaves: bool = False
    end: int = 2**62
    group_end: int = 2**62

    def holds(self, order: int) -> bool:
        """Return whether something that happens at `order` happens in it."""
        return self.start <= order < self.end


@dataclass(slots=True, eq=False)
class Binding:
    """One place that gives a name its value.

    Attributes:
        kind: what binds it; ``other`` is what cannot be followed (``with``, ``except``, a pattern).
        order: when, among all that happens in the file.
        block: in which block.
        node: the statement, parameter, function or class.
        value: the expression that it takes its value from.
        part: whether that is only a part of what the expression yields.
        imported: dotted name of what is imported.
        function: of a parameter, its function.
    """

    kind: BindingKind
    order: int
    block: CodeBlock
    node: ast.AST
    value: ast.expr | None = None
    part: bool = False
    imported: str | None = None
    function: FunctionNode | ast.Lambda | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """Names of a module, class, function, or comprehension (`inline`: it runs where it stands)."""

    kind: Literal["module", "class", "function", "inline"]
    node: ast.AST
    parent: Scope | None
    name: str = ""
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)  # `global` and `nonlocal`
    shared: set[str] = field(default_factory=set)  # bound by other scopes too
    attributes: dict[str, list[Binding]] = field(default_factory=dict)  # of a class: what `self.x = ...` binds

    @property
    def path(self) -> str:
        """Qualified name: ``Model.call``; empty for the module."""
        above = self.parent.path if self.parent else ""
        return f"{above}.{self.name}".strip(".") if self.name else above


@dataclass(slots=True, eq=False)
class Use:
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


def reaching(scope: Scope, name: str, order: int) -> tuple[list[Binding], str | None]:
    """Return the bindings that a read at `order` may see, latest first, and why there may be others; None if not."""
    bindings = scope.bindings[name]
    at = _before(bindings, order)
    found: list[Binding] = []
    reason = "is not assigned before it is used"
    for index in range(at - 1, -1, -1):
        binding = bindings[index]
        if binding.block.holds(order):
            found.append(binding)
            break
        if _may_reach(binding.block, order):
            found.append(binding)
            reason = "is assigned under a condition"
        if len(found) > MOST_BRANCHES:
            return found, "is assigned at too many places"
    else:
        return found, reason
    return found, _changes_in_loop(bindings, at, found[-1], order)


MOST_BRANCHES = 16


def _before(bindings: list[Binding], order: int) -> int:
    low, high = 0, len(bindings)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if bindings[middle].order < order else (low, middle)
    return low


def _may_reach(block: CodeBlock | None, order: int) -> bool:
    while block is not None and not block.holds(order):
        if block.leaves or (block.group is not None and order < block.group_end):
            return False
        block = block.parent
    return True


def _changes_in_loop(bindings: list[Binding], at: int, first: Binding, order: int) -> str | None:
    """Say so where a loop around the read, but not around the binding, binds the name again later on."""
    for later in bindings[at : at + MOST_BRANCHES]:
        block: CodeBlock | None = later.block
        while block is not None:
            if block.loop and block.holds(order) and not block.holds(first.order):
                return "changes in a loop"
            block = block.parent
    return None
