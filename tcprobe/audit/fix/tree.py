"""A file's syntax tree, walked once for all fixes: parents, names, attributes, and what rests on which literal."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.audit.fix.shared import Units
    from tcprobe.audit.fix.uses import Uses
    from tcprobe.syntax.source import Argument, Source


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
    def told(self) -> list[tuple[Place, frozenset[int]]]:
        """Sizes that stand in shapes, as `tcprobe.audit.fix.shapes` finds them."""
        from tcprobe.audit.fix.shapes import told_sizes

        return told_sizes(self)

    @cached_property
    def joins(self) -> bool:
        """Whether the file joins what may be tensors by operators of its own."""
        from tcprobe.audit.fix.shapes import joins_tensors

        return joins_tensors(self)

    @cached_property
    def arguments(self) -> dict[tuple[Place, str], Argument]:
        """The arguments of all calls, by place and name."""
        return {(a.place, a.name): a for call in self.source.calls() for a in call.arguments.values()}


class Files:
    """The files that may be edited, each walked once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self._trees: dict[str, FileTree] = {}
        self._uses: dict[str, Uses] = {}
        self._units: dict[str, Units] = {}

    def tree(self, path: str) -> FileTree:
        """Return the nodes of a file."""
        if path not in self._trees:
            self._trees[path] = FileTree(self.sources[path])
        return self._trees[path]

    def units(self, path: str) -> Units:
        """Return the functions and classes at the top of a file."""
        from tcprobe.audit.fix.shared import Units

        if path not in self._units:
            self._units[path] = Units(self.tree(path))
        return self._units[path]

    def uses(self, path: str) -> Uses:
        """Return the uses of a file's literals."""
        from tcprobe.audit.fix.uses import Uses

        if path not in self._uses:
            others = [self.tree(other) for other in self.sources if other != path]
            self._uses[path] = Uses(self.tree(path), others)
        return self._uses[path]
