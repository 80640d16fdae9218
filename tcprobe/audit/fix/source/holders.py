"""The objects that hold a size as an attribute, and whether they leave the file.

A class, its instances and modules carry their attributes along: where one of them goes to code that cannot be seen,
or is read by its dictionary, nobody can tell what a size in it becomes.
"""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.schema.statement import say
from tcprobe.source.enclosing import all_parameters

_DICTIONARIES: Final = frozenset(("__dict__", "_asdict", "__getattribute__", "__getstate__", "__reduce__"))
# What takes an object and reads no size of the user's own from it.
_NO_READERS: Final = frozenset(
    ["print", "isinstance", "issubclass", "type", "id", "repr", "super", "hasattr", "callable", "len"]
)
_FRAMEWORKS: Final = ("keras.", "tensorflow.", "tf_keras.", "logging.")
_UP: Final = (ast.IfExp, ast.BoolOp, ast.Subscript, ast.Tuple, ast.List, ast.Dict, ast.Await, ast.keyword)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Holders:
    """Follows objects of one file by the names that they have in it."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._source = tree.source
        self._classes = {node.name: node for node in tree.of(ast.ClassDef) if isinstance(node, ast.ClassDef)}
        self._seen: set[tuple[object, ...]] = set()

    def refuse_escape(self, target: ast.AST) -> None:
        """See that what gets the attribute `target` stays in sight.

        Args:
            target: a name in the body of a class, or an attribute, that is assigned a size.

        Raises:
            NotCertain: it leaves the file, or is read in a way that names no attribute.
        """
        self._seen = set()
        around = self._class_around(target)
        of_self = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        if isinstance(target, ast.Name) or of_self:
            if around is not None:
                self._class(around)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            known = self._classes.get(target.value.id)
            self._class(known) if known is not None else self._named(target.value.id, made=True)

    def _class(self, node: ast.ClassDef) -> None:
        """Follow a class, the classes made of it, and the instance that its methods are given."""
        self._named(node.name, made=False)
        methods = [m for m in node.body if isinstance(m, _FUNCTIONS)]
        for method in methods:
            if first := [*method.args.posonlyargs, *method.args.args][:1]:
                own = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == first[0].arg]
                for use in own:
                    self._follow(use, made=True)

    def _named(self, name: str, made: bool) -> None:
        """Follow every use of a name, in whatever scope; `made` where it is an instance, not a class."""
        if (name, made) not in self._seen:
            self._seen.add((name, made))
            for use in self._tree.loads.get(name, ()):
                self._follow(use, made)

    def _follow(self, node: ast.AST, made: bool) -> None:
        while (parent := self._tree.parents.get(node)) is not None:
            if isinstance(parent, ast.Attribute):
                if parent.attr in _DICTIONARIES:
                    raise NotCertain(say("used_otherwise"))
                return
            if isinstance(parent, ast.Call):
                if node is not parent.func and not self._kept(parent):
                    self._given(parent, node, made)
                    return
                if made and node is parent.func:
                    return  # what a layer or model returns
                made = True
            elif isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.For | ast.comprehension):
                self._assigned(parent, node, made)
                return
            elif isinstance(parent, ast.ClassDef):
                if node in parent.bases and (parent.name, False) not in self._seen:
                    self._class(parent)
                return
            elif isinstance(parent, ast.Starred):
                raise NotCertain(say("used_otherwise"))
            elif not isinstance(parent, _UP):
                return
            node = parent

    def _assigned(self, parent: ast.AST, node: ast.AST, made: bool) -> None:
        if node is not getattr(parent, "value", getattr(parent, "iter", None)):
            return  # an annotation, or what is assigned to
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]  # type: ignore[attr-defined]
        for target in (t for whole in targets for t in ast.walk(whole)):
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                self._named(target.id, made)
            elif isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                self._attribute(target.attr, made)

    def _attribute(self, name: str, made: bool) -> None:
        """Follow every use of an attribute, of whatever object."""
        if ("." + name, made) not in self._seen:
            self._seen.add(("." + name, made))
            for use in self._tree.attributes.get(name, ()):
                if isinstance(use.ctx, ast.Load):
                    self._follow(use, made)

    def _given(self, call: ast.Call, node: ast.AST, made: bool) -> None:
        """Follow an object into a function of the file; refuse any other that may read what it holds.

        Raises:
            NotCertain: an unknown function gets it.
        """
        name = self._source.name_of(call.func) or ast.unparse(call.func)
        named = name == "getattr" and isinstance(call.args[1], ast.Constant)
        if name in _NO_READERS or name.startswith(_FRAMEWORKS) or named:
            return
        targets = self._source.targets(call)
        if not targets:
            raise NotCertain(say("used_otherwise"))
        for function, skipped in targets:
            parameters = [a.arg for a in all_parameters(function.args)][skipped:]
            for parameter in _taking(call, node, parameters):
                if (function, parameter, made) not in self._seen:
                    self._seen.add((function, parameter, made))
                    for use in ast.walk(function):
                        if isinstance(use, ast.Name) and use.id == parameter:
                            self._follow(use, made)

    def _kept(self, call: ast.Call) -> bool:
        """Say whether a call only makes a record of the file, which holds what it is given."""
        return isinstance(call.func, ast.Name) and call.func.id in self._classes and not self._source.targets(call)

    def _class_around(self, node: ast.AST) -> ast.ClassDef | None:
        at: ast.AST | None = node
        while at is not None and not isinstance(at, ast.ClassDef):
            at = self._tree.parents.get(at)
        return at


def _taking(call: ast.Call, node: ast.AST, parameters: list[str]) -> list[str]:
    """Return the parameters that an argument of a call may become."""
    if isinstance(node, ast.keyword):
        return [p for p in parameters if node.arg in (None, p)]
    if node not in call.args or any(isinstance(a, ast.Starred) for a in call.args):
        return parameters
    return parameters[call.args.index(node) :][:1] or parameters[-1:]
