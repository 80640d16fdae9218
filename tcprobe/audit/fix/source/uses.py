"""Everything that a literal reaches in a file: the arguments it becomes, and whatever else is made of it.

A literal may be edited where all that it reaches is told and asked for. It is followed through assignments, defaults
of parameters, containers and attributes; a use that the source does not resolve (a loop over it, a dictionary passed
on whole) means that nobody can tell, and no fix.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.holders import Holders
from tcprobe.audit.fix.source.text import inside
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say
from tcprobe.source.enclosing import all_parameters
from tcprobe.source.scopes import FunctionNode

_CONTAINERS: Final = frozenset(
    ["dict", "tuple", "list", "enumerate", "zip", "reversed", "types.SimpleNamespace", "types.MappingProxyType"]
)
_SPEAKS: Final = ("print", "logging.", "warnings.warn")
_KEYS_ONLY: Final = frozenset(("sorted", "list", "tuple", "set", "frozenset", "len", "iter"))
_HOLDS: Final = (ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.keyword, ast.IfExp, ast.FormattedValue)
_NAMES: Final[dict[type[ast.AST], str]] = {  # the field whose value `target` names
    ast.AnnAssign: "value",
    ast.NamedExpr: "value",
    ast.For: "iter",
    ast.comprehension: "iter",
}
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# What may read any name of the file: functions, attributes of modules, functions and frames, and the module itself.
_REFLECTS: Final = frozenset(("globals", "locals", "eval", "exec", "__import__"))
_REFLECTING: Final = frozenset(("__globals__", "f_globals", "f_locals", "eval", "exec", "currentframe", "_getframe"))
# What reads any attribute of an object, as in `vars(Cfg)` and `asdict(config)`.
_TAKES_APART: Final = frozenset(("vars", "asdict", "astuple", "getmembers", "fields", "attrgetter"))
# Methods of Keras' that only tell what a layer has become; where the size changes they tell the new one.
_TELLS: Final = frozenset(("get_config", "compute_output_shape", "compute_output_spec", "__repr__"))


class Uses:
    """The uses of literals in one file."""

    def __init__(self, tree: FileTree, others: Sequence[FileTree]) -> None:
        self._tree = tree
        self._source = tree.source
        self._parents = tree.parents
        self._others = others
        self._holders = Holders(tree)
        self._names: dict[tuple[str, ast.AST | None], None] = {}
        self._found: dict[Place, None] = {}
        self._resting: dict[ast.expr, None] = {}

    def changed(self, literals: Iterable[Place], asked: Iterable[Place]) -> list[Place]:
        """Return the arguments that change with the literals, without those asked for.

        Raises:
            NotCertain: something changes that is no argument, or that nobody can tell.
        """
        wanted = list(asked)
        self._names, self._found = {}, {}
        if self._reflects:
            raise NotCertain(say("used_otherwise"))
        self._resting = dict.fromkeys(node for place in literals for node in self._tree.resting.get(place, ()))
        for node in self._resting:
            if self._is_taken_apart(node):
                continue  # SIZES[1] need not rest on all of SIZES; it is here itself if it does
            if not any(inside(self._source.place(node), place) for place in wanted):
                self._follow(node)
        checked: set[tuple[str, ast.AST | None]] = set()
        while todo := [name for name in self._names if name not in checked]:
            checked.update(todo)
            for name, scope in todo:
                self._check_name(name, scope)
        return [place for place in self._found if not any(inside(place, other) for other in wanted)]

    def _is_taken_apart(self, node: ast.expr) -> bool:
        above = self._parents.get(node)
        known = isinstance(above, ast.expr) and bool(self._source.alternatives(above))
        return known and isinstance(above, ast.Subscript | ast.Attribute) and above.value is node

    def _follow(self, node: ast.AST) -> None:
        """Note the names that an expression defines, or the argument that it is part of.

        Raises:
            NotCertain: it becomes neither.
        """
        if getattr(self._scope(node), "name", None) in _TELLS:
            return
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, ast.JoinedStr) and self._is_said(parent):
                return
            if self._ends(parent, node):
                return
            up = isinstance(parent, ast.Attribute | ast.Subscript | ast.Starred) and node is parent.value
            if (not up and not isinstance(parent, (*_HOLDS, ast.Call))) or self._copies(parent):
                break
            if isinstance(parent, ast.Attribute) and parent.attr == "keys":
                return
            node = parent
        raise NotCertain(say("used_otherwise"))

    def _is_said(self, text: ast.AST) -> bool:
        """Say whether a text is only for people: it is printed, logged, raised, or the name of a layer."""
        node = text
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, ast.Raise | ast.Assert):
                return True
            if isinstance(parent, ast.Call):
                name = self._source.name_of(parent.func) or ast.unparse(parent.func)
                called = isinstance(node, ast.keyword) and node.arg == "name" and name.startswith("keras.")
                return called or name.startswith(_SPEAKS) or name.endswith(("Error", "Exception"))
            if not isinstance(parent, ast.keyword | ast.BinOp | ast.JoinedStr | ast.FormattedValue | ast.IfExp):
                return isinstance(parent, ast.Expr)
            node = parent
        return False

    def _copies(self, node: ast.AST) -> bool:
        """Say whether an expression repeats a list: one operand is how often."""
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        return product and any(known.elements for known in self._source.alternatives(node))  # type: ignore[arg-type]

    def _ends(self, parent: ast.AST, node: ast.AST) -> bool:
        """Say whether what is above an expression names it, or takes it as an argument; note which."""
        if isinstance(parent, ast.Assign) and node is parent.value:
            self._define(parent.targets, self._scope(parent))
        elif isinstance(parent, ast.For | ast.comprehension) and node is parent.iter and self._counts(parent.iter):
            return False  # as `range(N)` does
        elif node is getattr(parent, _NAMES.get(type(parent), ""), None):
            self._define([parent.target], self._scope(parent))  # type: ignore[attr-defined]
        elif isinstance(parent, ast.arguments):
            self._default(parent, node)
        elif isinstance(parent, ast.Call) and not self._holds(parent, node):
            self._passed(parent, node)
        else:
            return False
        return True

    def _counts(self, iterated: ast.expr) -> bool:
        """Say whether a loop's iterations come of arithmetic on numbers, so that they may become more."""
        options = self._source.alternatives(iterated)
        return any(use.role == "other" for known in options for item in known.elements for use in item.literals)

    def _holds(self, call: ast.Call, node: ast.AST) -> bool:
        """Say whether a call only keeps what it is given: a container, a NamedTuple or dataclass of the file."""
        if node is call.func:
            return True
        name = self._source.name_of(call.func) or ast.unparse(call.func)
        return name in _CONTAINERS or name in self._records

    def _passed(self, call: ast.Call, node: ast.AST) -> None:
        name = self._source.name_of(call.func) or ast.unparse(call.func)
        if name.startswith(_SPEAKS) or (name in _KEYS_ONLY and isinstance(node, ast.Name) and node.id in self._dicts):
            return
        targets = self._source.targets(call)
        if targets and isinstance(node, ast.keyword) and node.arg is None:  # `**CONFIG`: any of them may take it
            takers = [
                (a.arg, function) for function, skipped in targets for a in all_parameters(function.args)[skipped:]
            ]
            self._names.update(dict.fromkeys(takers))
            return
        names = [(_parameter(function, skipped, call, node), function) for function, skipped in targets]
        if names and all(parameter is not None for parameter, _ in names):
            self._names.update({(str(parameter), function): None for parameter, function in names})
        else:
            self._found[self._source.place(node.value if isinstance(node, ast.keyword) else node)] = None

    def _define(self, targets: Iterable[ast.AST], scope: ast.AST | None) -> None:
        for target in (t for whole in targets for t in ast.walk(whole)):
            if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                self._names[f".{target.attr}", None] = None
                self._hold(target)
            elif isinstance(target, ast.Subscript) and isinstance(target.ctx, ast.Store):
                raise NotCertain(say("in_container"))
            elif isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                self._names[target.id, self._owner(target.id, scope)] = None
                if isinstance(scope, ast.ClassDef):
                    self._names[f".{target.id}", None] = None
                    self._hold(target)

    def _hold(self, target: ast.AST) -> None:
        """See that what gets the attribute stays in sight, and is not taken apart."""
        if self._takes_apart:
            raise NotCertain(say("used_otherwise"))
        self._holders.refuse_escape(target)

    def _owner(self, name: str, scope: ast.AST | None) -> ast.AST | None:
        """Return the function or class whose name it is that one in `scope` assigns; None for the module's."""
        found = self._source.walk.scopes.get(scope) if scope is not None else None
        elsewhere = found.elsewhere.get(name) if found is not None else None
        if elsewhere is None:
            return scope
        return None if isinstance(elsewhere.node, ast.Module) else elsewhere.node

    def _default(self, arguments: ast.arguments, node: ast.AST) -> None:
        function = self._parents.get(arguments)
        if not isinstance(function, _FUNCTIONS):
            raise NotCertain(say("default_of_lambda"))
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        for argument, default in pairs:
            if default is node:
                self._names[argument.arg, function] = None

    def _check_name(self, name: str, scope: ast.AST | None) -> None:
        """Follow every use of a name that may have another value than was seen; the rest has been looked at by then."""
        uses: Iterable[ast.expr] = (
            self._tree.attributes.get(name[1:], ()) if name.startswith(".") else self._loads(name, scope)
        )
        for use in uses:
            if isinstance(getattr(use, "ctx", None), ast.Load) and not self._resolved(use):
                self._follow(use)
        plain = name.lstrip(".")
        if scope is None and (self._exports(plain) or any(_reads(other, plain) for other in self._others)):
            raise NotCertain(say("used_in_other_file", name=plain))

    def _exports(self, name: str) -> bool:
        """Say whether the file offers a name to others in its `__all__`, or one that cannot be told."""
        stores = [node for node in self._tree.of(ast.Name) if isinstance(node, ast.Name) and node.id == "__all__"]
        lists = [getattr(self._parents.get(node), "value", None) for node in stores if isinstance(node.ctx, ast.Store)]
        told = all(isinstance(found, ast.List | ast.Tuple) for found in lists)
        texts = {getattr(item, "value", None) for found in lists for item in getattr(found, "elts", ())}
        return name in texts or not told or None in texts or len(stores) > len(lists)

    def _loads(self, name: str, scope: ast.AST | None) -> Iterator[ast.Name]:
        """Yield where a name of a scope is read, without functions inside it that have such a name of their own."""
        for use in self._tree.loads.get(name, ()):
            around: ast.AST | None = use
            while around is not None and around is not scope:
                if isinstance(around, _FUNCTIONS) and _binds(around, name):
                    break
                around = self._parents.get(around)
            if around is scope:
                yield use

    def _resolved(self, node: ast.AST | None) -> bool:
        """Say whether the values that a use of a name leads to were all seen."""
        while isinstance(node, ast.expr):
            if self._source.alternatives(node):
                return node in self._resting or self._source.why_open(node) is None
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
    def _reflects(self) -> bool:
        """Whether the file calls what reads names by their text, so that no use of a name is surely the last."""
        calls = [node for node in self._tree.of(ast.Call) if isinstance(node, ast.Call)]
        bare = any(isinstance(c.func, ast.Name) and c.func.id in ("vars", "dir") and not c.args for c in calls)
        of_itself = any(_loads_itself(c) for c in calls)
        modules = [a for a in self._tree.attributes.get("modules", ()) if self._source.name_of(a) == "sys.modules"]
        read = any(name in self._tree.loads for name in _REFLECTS) or any(
            a in self._tree.attributes for a in _REFLECTING
        )
        return read or bare or of_itself or bool(modules) or "__main__" in self._tree.modules

    @cached_property
    def _takes_apart(self) -> bool:
        """Whether the file reads attributes of objects without their names, or by names that it computes."""
        calls = [node for node in self._tree.of(ast.Call) if isinstance(node, ast.Call)]
        names = {ast.unparse(c.func).rpartition(".")[2] for c in calls}
        computed = any(
            isinstance(c.func, ast.Name) and c.func.id == "getattr" and not isinstance(c.args[1], ast.Constant)
            for c in calls
            if len(c.args) > 1
        )
        return computed or not names.isdisjoint(_TAKES_APART)

    @cached_property
    def _records(self) -> set[str]:
        """Names of the file's classes that only hold values."""
        found = set()
        for node in self._tree.of(ast.ClassDef, ast.Assign):
            if isinstance(node, ast.ClassDef):
                marks = [*node.bases, *(d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)]
                if any(ast.unparse(mark).rpartition(".")[2] in ("NamedTuple", "dataclass") for mark in marks):
                    found.add(node.name)
            elif isinstance(node, ast.Assign) and self._makes_namedtuple(node.value):
                found.update(t.id for t in node.targets if isinstance(t, ast.Name))
        return found

    def _makes_namedtuple(self, node: ast.expr | None) -> bool:
        return isinstance(node, ast.Call) and (self._source.name_of(node.func) or "").endswith("namedtuple")

    @cached_property
    def _dicts(self) -> set[str]:
        """Names that only ever stand for dictionaries."""
        found: dict[str, bool] = {}
        for node in self._tree.of(ast.Assign, ast.AnnAssign):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    found[target.id] = found.get(target.id, True) and isinstance(node.value, ast.Dict)
        return {name for name, is_dict in found.items() if is_dict}


def _reads(other: FileTree, name: str) -> bool:
    """Say whether another file may take a name from this one."""
    return name in other.imported or name in other.attributes or ("*" in other.imported and name in other.loads)


def _loads_itself(call: ast.Call) -> bool:
    """Say whether a call imports a module that may be the file itself: `import_module(__name__)`."""
    imports = ast.unparse(call.func).rpartition(".")[2] == "import_module"
    return imports and not all(isinstance(a, ast.Constant) for a in call.args)


def _parameter(function: FunctionNode, skipped: int, call: ast.Call, node: ast.AST) -> str | None:
    """Return the parameter that an argument of a call becomes; None where that cannot be told."""
    if isinstance(node, ast.keyword):
        return node.arg
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)][skipped:]
    if any(isinstance(a, ast.Starred) for a in call.args) or node not in call.args:
        return None
    index = [a is node for a in call.args].index(True)
    return names[index] if index < len(names) else None


def _binds(function: FunctionNode, name: str) -> bool:
    own = function.args
    parameters = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
    if any(a is not None and a.arg == name for a in parameters):
        return True
    nodes = list(ast.walk(function))
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return False
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in nodes)
