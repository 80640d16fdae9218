"""Which expressions rest on which literal of a file."""

from __future__ import annotations

import ast

from tcprobe.schema.place import Place
from tcprobe.syntax.constants import Constants
from tcprobe.syntax.values import Known


def index(tree: ast.Module, constants: Constants) -> dict[Place, tuple[Known, ...]]:
    """Return, per place of a literal, the outermost expressions whose value may rest on it.

    An assignment of a constant to a name, and a default of a parameter, only name it and are left out; so is a
    literal that stands for itself in a record or a dictionary.
    """
    found: dict[Place, dict[tuple[int, int], Known]] = {}
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr):
            options = constants.of(node).options
            for known, _ in options:
                for use in known.literals:
                    place = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
                    found.setdefault(use.literal.place, {}).setdefault(place, known.at(node))
            if options:
                continue
        pending.extend(_read(node, constants))
    return {place: tuple(known for _, known in sorted(uses.items())) for place, uses in found.items()}


def _read(node: ast.AST, constants: Constants) -> list[ast.AST]:
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(t, ast.Name | ast.Attribute) for t in targets) and constants.of(node.value).options:
            return []
    if isinstance(node, ast.arguments):
        return [d for d in (*node.defaults, *node.kw_defaults) if d is not None and not constants.of(d).options]
    return children
