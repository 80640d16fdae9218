"""Everything that a literal reaches in a file: the arguments it becomes, and whatever else is made of it.

A literal may be edited where all that it reaches is told and asked for. It is followed through assignments, defaults
of parameters, containers and attributes; a use that the source does not resolve (a loop over it, a dictionary passed
on whole) means that nobody can tell, and no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix_links import NotCertain
from tcprobe.audit.fix_text import inside
from tcprobe.place import Place

if TYPE_CHECKING:
    from tcprobe.syntax.source import Source

_CONTAINERS: Final = ("dict", "tuple", "list", "types.SimpleNamespace", "types.MappingProxyType")
_SPEAKS: Final = ("print", "logging.", "warnings.warn")
_HOLDS: Final = (ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.keyword, ast.IfExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Uses:
    """The uses of literals in one file."""

    def __init__(self, source: Source, sources: Mapping[str, Source]) -> None:
        self._source = source
        self._others = [other for path, other in sources.items() if path != source.path]

    def changed(self, literals: Iterable[Place], asked: Iterable[Place]) -> list[Place]:
        """Return the arguments that change with the literals, without those asked for.

        Raises:
            NotCertain: something changes that is no argument, or that nobody can tell.
        """
        places, wanted = set(literals), list(asked)
        found: dict[Place, None] = {}
        self._names: dict[tuple[str, ast.AST | None], None] = {}
        for node in self._resting_on(places):
            if not any(inside(self._source.place(node), place) for place in wanted):
                argument = self._judged(node)
                if argument is not None:
                    found[argument] = None
        for name, scope in self._names:
            self._check_name(name, scope)
        return list(found)

    def _resting_on(self, places: set[Place]) -> Iterator[ast.expr]:
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
                known = self._source.known(node)
                if known is not None and any(use.literal.place in places for use in known.literals):
                    yield node

    def _judged(self, node: ast.AST) -> Place | None:
        """Note the names that an expression defines; return the argument that it is part of, if it is."""
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, ast.JoinedStr):
                return None
            if isinstance(parent, ast.Assign | ast.AnnAssign) and node is parent.value:
                self._define(parent)
                return None
            if isinstance(parent, ast.arguments):
                self._default(parent, node)
                return None
            if isinstance(parent, ast.Call) and not self._holds(parent, node):
                return self._passed(parent, node)
            if not isinstance(parent, (*_HOLDS, ast.Call, ast.Attribute, ast.Subscript, ast.FormattedValue)):
                break
            if isinstance(parent, ast.Subscript) and node is not parent.value:
                break
            node = parent
        raise NotCertain("the number is also used for something else")

    def _holds(self, call: ast.Call, node: ast.AST) -> bool:
        """Say whether a call only keeps what it is given: a container, a NamedTuple or dataclass of the file."""
        if node is call.func:
            return True
        name = self._source.name_of(call.func) or ""
        return name in _CONTAINERS or (isinstance(call.func, ast.Name) and call.func.id in self._records)

    def _passed(self, call: ast.Call, node: ast.AST) -> Place | None:
        name = self._source.name_of(call.func) or ast.unparse(call.func)
        if name.startswith(_SPEAKS):
            return None
        function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        parameter = _parameter(function, call, node) if function else None
        if function is not None and parameter is not None:
            self._names[parameter, function] = None
            return None
        return self._source.place(node.value if isinstance(node, ast.keyword) else node)

    def _define(self, statement: ast.Assign | ast.AnnAssign) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        scope = self._scope(statement)
        for target in (t for whole in targets for t in ast.walk(whole)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                self._names[f".{target.attr}", None] = None
            elif isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                self._names[target.id, scope] = None
                if isinstance(scope, ast.ClassDef):
                    self._names[f".{target.id}", None] = None

    def _default(self, arguments: ast.arguments, node: ast.AST) -> None:
        function = self._parents.get(arguments)
        if not isinstance(function, _FUNCTIONS):
            raise NotCertain("the number is the default of a lambda")
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        for argument, default in pairs:
            if default is node:
                self._names[argument.arg, function] = None

    def _check_name(self, name: str, scope: ast.AST | None) -> None:
        """See that every use of a name has a known value: those that change have been judged by then."""
        if name.startswith("."):
            uses: Iterable[ast.AST] = [
                n for n in ast.walk(self._source.tree) if isinstance(n, ast.Attribute) and n.attr == name[1:]
            ]
        else:
            uses = [n for n in _within(scope or self._source.tree, name) if isinstance(n.ctx, ast.Load)]
        for use in uses:
            if isinstance(getattr(use, "ctx", None), ast.Load) and not self._resolved(use):
                raise NotCertain(f"what {name.lstrip('.')} is used for is unknown")
        if scope is None and any(_imports(other, name.lstrip(".")) for other in self._others):
            raise NotCertain(f"{name.lstrip('.')} is used in another file")

    def _resolved(self, node: ast.AST | None) -> bool:
        while isinstance(node, ast.expr):
            if self._source.known(node) is not None:
                return True
            parent = self._parents.get(node)
            of = parent.func if isinstance(parent, ast.Call) else getattr(parent, "value", None)
            if not isinstance(parent, ast.Attribute | ast.Subscript | ast.Call) or of is not node:
                return False
            node = parent
        return False

    def _scope(self, node: ast.AST) -> ast.AST | None:
        """Return the function or class around a node; None at module level."""
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, (*_FUNCTIONS, ast.ClassDef)):
                return parent
            node = parent
        return None

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self._source.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _records(self) -> set[str]:
        """Names of the file's classes that only hold values."""
        found = set()
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.ClassDef):
                marks = [*node.bases, *(d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)]
                if any(ast.unparse(mark).rpartition(".")[2] in ("NamedTuple", "dataclass") for mark in marks):
                    found.add(node.name)
            elif isinstance(node, ast.Assign) and self._makes_namedtuple(node.value):
                found.update(t.id for t in node.targets if isinstance(t, ast.Name))
        return found

    def _makes_namedtuple(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and (self._source.name_of(node.func) or "").endswith("namedtuple")

    @cached_property
    def _functions(self) -> dict[str, Function]:
        """Functions of the file by name, without names that stand for several."""
        found: dict[str, list[Function]] = {}
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(node)
        return {name: several[0] for name, several in found.items() if len(several) == 1}


def _parameter(function: Function, call: ast.Call, node: ast.AST) -> str | None:
    """Return the parameter that an argument of a call becomes; None where that cannot be told."""
    if isinstance(node, ast.keyword):
        return node.arg
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    if any(isinstance(a, ast.Starred) for a in call.args) or node not in call.args:
        return None
    index = call.args.index(node)
    return names[index] if index < len(names) else None


def _within(scope: ast.AST, name: str) -> Iterator[ast.Name]:
    """Yield the uses of a name in a scope, without functions inside it that have such a name of their own."""
    todo = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and node.id == name:
            yield node
        if not (isinstance(node, _FUNCTIONS) and _binds(node, name)):
            todo.extend(ast.iter_child_nodes(node))


def _binds(function: Function, name: str) -> bool:
    own = function.args
    parameters = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    if any(a is not None and a.arg == name for a in parameters):
        return True
    nodes = list(ast.walk(function))
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return False
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in nodes)


def _imports(source: Source, name: str) -> bool:
    return any(
        (isinstance(n, ast.ImportFrom) and any(alias.name == name for alias in n.names))
        or (isinstance(n, ast.Attribute) and n.attr == name)
        for n in ast.walk(source.tree)
    )
