"""`File`: a file as the precision rules read it: its calls, what surrounds a node, names and numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, proxy

from tcprobe.schema.model import Place
from tcprobe.source.scopes import FunctionNode, every_node, is_main_guard

if TYPE_CHECKING:
    from tcprobe.source.source import Source

_BRANCHES: Final = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match, ast.ExceptHandler, ast.BoolOp)
_Binding: TypeAlias = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.With
_MODEL_BASE: Final = re.compile(r"(?:Model|Sequential|Functional)$")
_SETTER: Final = re.compile(r"keras\.(?:config|mixed_precision)(?:\.experimental)?\.set_(?:global_|dtype_)?policy")
_POLICY: Final = re.compile(r"keras\.(?:\w++\.)*(?:DTypePolicy|Policy)")
_SETS: Final = re.compile(r"set_\w*policy")
_ASKS: Final = re.compile(r"version|hasattr|getattr|keras_?[23]", re.IGNORECASE)
_LEGACY: Final = re.compile(r"tf_keras|TF_USE_LEGACY_KERAS")
_LEGACY_ON: Final = re.compile(r"""environ.*['"]TF_USE_LEGACY_KERAS['"](?:\] = |, )['"](?:1|[Tt]rue)['"]""")


class Setter(NamedTuple):
    """A call that sets the global policy, and the policy's name; None if the file does not tell."""

    node: ast.Call
    place: Place
    policy: str | None


class File:
    """A parsed file with its calls, and the parent of each node."""

    def __init__(self, source: Source) -> None:
        self.source: Source = proxy(source)  # `file_of` keeps this as long as the file is in use, and no longer
        self.root = source.tree
        self.text = source.text
        self.nodes = every_node(source.tree)

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands."""
        return self.source.place(node)

    def segment(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return self.source.segment(self.place(node))

    def name(self, node: ast.expr) -> str:
        """Return the canonical dotted name of an expression; empty if unknown."""
        return self.source.name_of(node) or ""

    def value(self, node: ast.expr | None) -> object:
        """Return the value that an expression is known to have; None if it is unknown."""
        known = self.source.known(node) if node is not None else None
        return known.value if known is not None else None

    def number(self, node: ast.expr | None) -> float | None:
        """Return the number that an expression is known to be; None if it is none or unknown."""
        value = self.value(node)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    @cached_property
    def setters(self) -> tuple[Setter, ...]:
        """The calls that set the global policy, in order."""
        if not _SETS.search(self.text):
            return ()
        calls = [call for call in self.calls if _SETTER.fullmatch(self.name(call.func))]
        made = [Setter(call, self.place(call), self._policy_name(_first_argument(call))) for call in calls]
        return tuple(sorted(made, key=lambda setter: setter.place))

    def _policy_name(self, node: ast.expr | None) -> str | None:
        value = self.value(node)
        if value is None and (call := self.call_behind(node)) and _POLICY.fullmatch(self.name(call.func)):
            value = self.value(keyword(call, "name") or _first_argument(call))
        return value if isinstance(value, str) else None

    @cached_property
    def keeps_keras_2(self) -> bool:
        """Whether it takes Keras 2 alone: as the package tf_keras, or as tf.keras where TensorFlow is told so."""
        if not _LEGACY.search(self.text):
            return False
        imported = {name.partition(".")[0] for node in self.nodes for name in _imported(node)}
        legacy = any(_LEGACY_ON.search(ast.unparse(n)) for n in self.nodes if isinstance(n, ast.Assign | ast.Call))
        return "keras" not in imported and ("tf_keras" in imported or legacy)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node; the module has none."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    def called(self, *names: str) -> list[ast.Call]:
        """Return the calls of methods or functions whose name as written ends in one of these."""
        return [call for call in self.calls if last_name(call.func) in names]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier in the code (names, attributes, arguments, imports) and every string."""
        return frozenset(word for node in self.nodes for word in words_of(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around a node, from the innermost."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def asks_first(self, node: ast.AST) -> bool:
        """Say whether the code around a call checks that an API exists: by try, or a test of a version or attribute."""
        around = list(self.ancestors(node))
        tests = (ast.unparse(a.test) for a in around if isinstance(a, ast.If | ast.IfExp))
        return any(isinstance(a, ast.Try) for a in around) or any(map(_ASKS.search, tests))

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """Return the innermost function around a node; None at module level."""
        return next((a for a in self.ancestors(node) if isinstance(a, FunctionNode)), None)

    def in_call(self, node: ast.AST) -> bool:
        """Say whether the innermost function around a node is a layer's ``call``."""
        function = self.function_of(node)
        return function is not None and function.name == "call"

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the innermost class around a node; None if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.ClassDef)), None)

    def unit_of(self, node: ast.AST) -> ast.AST:
        """Return the outermost function or class around a node; the module if there is none."""
        around = [a for a in self.ancestors(node) if isinstance(a, FunctionNode | ast.ClassDef)]
        return around[-1] if around else self.root

    def statement_of(self, node: ast.AST) -> ast.AST:
        """Return the innermost statement around a node; the module if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, ast.stmt)), self.root)

    def conditional(self, node: ast.AST) -> bool:
        """Say whether a condition decides if a node runs, within its function or module."""
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, FunctionNode | ast.Lambda):
                return False
            if isinstance(ancestor, _BRANCHES) and not (isinstance(ancestor, ast.If) and is_main_guard(ancestor.test)):
                return True
        return False

    def assigned(self, name: str) -> list[ast.expr]:
        """Return every value that plain assignments give to a name (``x``) or attribute (``self.x``)."""
        return self._assignments.get(name, [])

    @cached_property
    def _assignments(self) -> dict[str, list[ast.expr]]:
        values: dict[str, list[ast.expr]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name, value in _each(target, node.value):
                        if isinstance(name, ast.Name | ast.Attribute):
                            values.setdefault(ast.unparse(name), []).append(value)
        return values

    def given_to(self, node: ast.Name | ast.Attribute) -> list[ast.expr]:
        """Return what a name (``x``) may hold where it stands, or an attribute (``self.x``) anywhere.

        Of a name, what was bound to it before, in the functions around: back to what was bound for certain. Where
        nothing was, whatever a loop binds later.
        """
        bound = self._bindings.get(ast.unparse(node), [])
        if isinstance(node, ast.Attribute):
            return [value for _, value in bound]
        around = {*self.ancestors(node), self.root}
        near = [(at, value) for at, value in bound if (self.function_of(at) or self.root) in around]
        before = [(at, value) for at, value in near if _starts(at) < _starts(node) and not _holds(at, around)]
        found: list[ast.expr] = []
        for at, value in sorted(before, key=lambda pair: _starts(pair[0]), reverse=True):
            found.append(value)
            if not isinstance(at, ast.AugAssign) and (at in around or self._block_of(at) in around):
                break
        return found or [value for _, value in near]

    @cached_property
    def _bindings(self) -> dict[str, list[tuple[_Binding, ast.expr]]]:
        """What binds each name or attribute, and to what; of several at once, to all."""
        found: dict[str, list[tuple[_Binding, ast.expr]]] = {}
        for node in self.nodes:
            if isinstance(node, _Binding):
                for target, value in _bound(node):
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
                            found.setdefault(ast.unparse(part), []).append((node, value))
        return found

    def _block_of(self, node: ast.AST) -> ast.AST:
        """Return what a statement stands in; a ``with`` decides nothing."""
        parent = self.parents[node]
        return self._block_of(parent) if isinstance(parent, ast.With | ast.AsyncWith) else parent

    def call_behind(self, node: ast.expr | None) -> ast.Call | None:
        """Return the call that a value comes from: the value itself, or the only value ever assigned to its name."""
        values = self.assigned(ast.unparse(node)) if isinstance(node, ast.Name | ast.Attribute) else [node]
        return values[0] if len(values) == 1 and isinstance(values[0], ast.Call) else None


# Per file, and only while the file is in use: an audit of a thousand files keeps no more than it needs.
_FILES: Final[WeakKeyDictionary[Source, File]] = WeakKeyDictionary()


def file_of(source: Source) -> File:
    """Return a file, read once for all rules."""
    if source not in _FILES:
        _FILES[source] = File(source)
    return _FILES[source]


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument; None if it is not given."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def is_model_class(node: ast.ClassDef) -> bool:
    """Say whether a class inherits from a Keras model, judging by the names of its bases."""
    return any(_MODEL_BASE.search(ast.unparse(base)) for base in node.bases)


def _each(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return what an assignment gives to each of its names: ``a, b = 1, 2`` is two."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _bound(node: _Binding) -> list[tuple[ast.expr, ast.expr]]:
    """Return the targets of what binds names, each with what it is bound to."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case ast.For(target=target, iter=value):
            return [(target, value)]
        case ast.With(items=items):
            return [(one.optional_vars, one.context_expr) for one in items if one.optional_vars is not None]
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            return [(node.target, node.value)] if node.value is not None else []


def _holds(binding: _Binding, around: Container[ast.AST]) -> bool:
    """Say whether what is around a name is the very value that a binding gives."""
    return not isinstance(binding, ast.For | ast.With) and binding in around


def _starts(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def last_name(node: ast.expr) -> str:
    """Return the last part of a name as written; empty for what is none."""
    return node.attr if isinstance(node, ast.Attribute) else (node.id if isinstance(node, ast.Name) else "")


def words_of(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers of one node, and its text."""
    if isinstance(node, ast.Name | ast.Attribute):
        yield last_name(node)
    elif isinstance(node, ast.keyword | ast.arg) and node.arg:
        yield node.arg
    elif isinstance(node, ast.alias):
        yield node.name.rpartition(".")[2]
    elif isinstance(node, FunctionNode | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
        yield node.value


def _first_argument(call: ast.Call) -> ast.expr | None:
    given = [*call.args, *(k.value for k in call.keywords)]
    return given[0] if given else None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
