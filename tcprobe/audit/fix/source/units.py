"""The functions and classes of a file: which of them a literal takes effect in, and which build models.

A helper that two functions build models with has one literal for both. Where the other model was audited too, the
size is followed in it as well; where it was not, nobody can tell, and there is no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.keras.classes import CLASSES
from tcprobe.schema.model import Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say
from tcprobe.source.scopes import owner

_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BUILDS: Final = frozenset(row.path for row in CLASSES if row.kind in ("model", "sequence"))
Unit = ast.AST | None  # a function or class at the top of a file; None is what stands outside of them


class Units:
    """The functions and classes at the top of one file: which names which, and which make layers."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._source = tree.source

    def refuse_unseen(self, literals: Iterable[Place], seen: frozenset[tuple[str, int]]) -> None:
        """See that all code that literals reach was audited, as far as it builds layers or models.

        Args:
            literals: places of what is edited.
            seen: files and lines at which the audited models make layers.

        Raises:
            NotCertain: other code builds with them.
        """
        for literal in literals:
            for unit in self._contexts(literal):
                above = self._above(unit)
                builders = [u for u in above if u in self._building]
                alone = len([u for u in builders if not any(u in self._above(o) for o in builders if o is not u)]) < 2
                for other in above:
                    made = self._making.get(other)
                    unseen = made is not None and not any((self._source.path, line) in seen for line in made)
                    if unseen or (made is None and other in self._building and not alone):
                        raise NotCertain(say("used_by_other_code", function=_name(other)))

    def _contexts(self, literal: Place) -> set[Unit]:
        """Return the units in which a literal takes effect: where it stands, or where its constant is read."""
        nodes = self._tree.resting.get(literal, [])
        own = [n for n in nodes if isinstance(n, ast.Constant) and self._source.place(n) == literal]
        rest = [n for n in nodes if n not in own]
        if own and self._runs(own[0]):
            return {self._unit(own[0])}
        constants = [n for n in rest if self._is_of_module(n)]
        return {self._unit(n) for n in constants or rest or own}

    def _runs(self, node: ast.AST) -> bool:
        """Say whether an expression runs with its unit: it is no default, and in no class's body."""
        while (parent := self._tree.parents.get(node)) is not None:
            if isinstance(parent, ast.arguments | ast.ClassDef):
                return False
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return True
            node = parent
        return False

    def _is_of_module(self, node: ast.AST) -> bool:
        use = self._source.walk.uses.get(node)
        found = owner(use.scope, node.id) if use is not None and isinstance(node, ast.Name) else None
        return found is not None and found[0] is self._source.walk.module

    def _unit(self, node: ast.AST) -> Unit:
        found: Unit = None
        at: ast.AST | None = node
        while at is not None:
            found = at if isinstance(at, _DEFINITIONS) else found
            at = self._tree.parents.get(at)
        return found

    def _above(self, unit: Unit) -> list[Unit]:
        """Return a unit and all that name it, directly or not."""
        found: dict[Unit, None] = {}
        todo: list[Unit] = [unit]
        while todo:
            at = todo.pop()
            if at not in found:
                found[at] = None
                todo.extend(self._namers.get(at, ()))
        return list(found)

    @cached_property
    def _namers(self) -> dict[Unit, dict[Unit, None]]:
        found: dict[Unit, dict[Unit, None]] = {}
        for unit in self._source.tree.body:
            if isinstance(unit, _DEFINITIONS):
                users = [self._unit(use) for use in self._tree.loads.get(unit.name, ()) if self._is_of_module(use)]
                found[unit] = dict.fromkeys(user for user in users if user is not unit)
        return found

    @cached_property
    def _making(self) -> dict[Unit, list[int]]:
        """Lines of the layers that each unit makes; only where it makes some."""
        found: dict[Unit, list[int]] = {}
        for call in self._source.calls():
            if call.name.startswith("keras.layers.") and call.name != "keras.layers.Input":
                found.setdefault(self._unit(call.node), []).append(call.place.line)
        return found

    @cached_property
    def _building(self) -> set[Unit]:
        """Units that make a model of layers."""
        return {self._unit(call.node) for call in self._source.calls() if call.name in _BUILDS}


def seen_lines(models: Iterable[Model]) -> frozenset[tuple[str, int]]:
    """Return files and lines at which models make layers."""
    return frozenset((x.place.file, x.place.line) for model in models for x in model.layers if x.place is not None)


def _name(unit: Unit) -> str | None:
    """Return the name of a function or class; None of the module's own code."""
    return unit.name if isinstance(unit, _DEFINITIONS) else None
