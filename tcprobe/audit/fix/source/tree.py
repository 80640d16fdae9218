"""A file's syntax tree, walked once for all fixes: parents, names, attributes, and what rests on which literal."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.source.calls import Argument
    from tcprobe.source.source import Source


class FileTree:
    """The nodes of one file.

    Attributes:
        source: the file.
        parents: the node around each node.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parents: dict[ast.AST, ast.AST] = {}
        self._kinds: dict[type[ast.AST], list[ast.AST]] = {}
        todo: list[ast.AST] = [source.tree]
        while todo:
            node = todo.pop()
            self._kinds.setdefault(type(node), []).append(node)
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                todo.append(child)

    def of(self, *kinds: type[ast.AST]) -> list[ast.AST]:
        """Return all nodes of some kinds."""
        return [node for kind in kinds for node in self._kinds.get(kind, ())]

    @cached_property
    def resting(self) -> dict[Place, list[ast.expr]]:
        """The expressions whose value rests on a literal, by the place of the literal."""
        found: dict[Place, dict[ast.expr, None]] = {}
        for kind, nodes in self._kinds.items():
            for node in nodes if issubclass(kind, ast.expr) else ():
                if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                    for known in self.source.alternatives(node):
                        for use in known.literals:
                            found.setdefault(use.literal.place, {})[node] = None
        return {place: list(nodes) for place, nodes in found.items()}

    @cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """Where each name is read."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.of(ast.Name):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def attributes(self) -> dict[str, list[ast.Attribute]]:
        """Where each attribute stands, by its name."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.of(ast.Attribute):
            if isinstance(node, ast.Attribute):
                found.setdefault(node.attr, []).append(node)
        return found

    @cached_property
    def imported(self) -> set[str]:
        """Names that the file takes from modules."""
        nodes = [node for node in self.of(ast.ImportFrom) if isinstance(node, ast.ImportFrom)]
        return {alias.name for node in nodes for alias in node.names}

    @cached_property
    def modules(self) -> set[str]:
        """Modules that the file imports, or takes names from."""
        plain = [alias.name for node in self.of(ast.Import) if isinstance(node, ast.Import) for alias in node.names]
        return {
            *plain,
            *(node.module for node in self.of(ast.ImportFrom) if isinstance(node, ast.ImportFrom) and node.module),
        }

    @cached_property
    def arguments(self) -> dict[tuple[Place, str], Argument]:
        """The arguments of all calls, by place and name."""
        return {(a.place, a.name): a for call in self.source.calls() for a in call.arguments.values()}
