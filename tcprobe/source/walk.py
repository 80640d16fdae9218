"""One pass over the syntax tree: scopes, bindings, reads of names, calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final

from tcprobe.source.scopes import Binding, BindingKind, FunctionNode, Scope, all_parameters, method_of


class Walk:
    """What one pass over a tree finds.

    Attributes:
        module: the outermost scope.
        uses: the scope in which each name is read, by node.
        scopes: the scope that a function, class, lambda or comprehension opens, by node.
        calls: every call, in the order in which they end.
        called: the functions that calls name (nodes of names); other reads of a function pass it on.
        stars: modules of ``from x import *``.
        functions: every function of the file.
        methods: those of classes, by name.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", tree, None)
        self.uses: dict[ast.AST, Scope] = {}
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.calls: list[ast.Call] = []
        self.called: set[ast.AST] = set()
        self.stars: list[str] = []
        self.functions: list[FunctionNode] = []
        self.methods: dict[str, list[FunctionNode]] = {}
        self._scope = self.module
        self._all(tree.body)

    def _visit(self, node: ast.AST) -> None:
        visit = _VISITS.get(type(node))
        if visit is None:
            for name in node._fields:
                value = getattr(node, name, None)
                if isinstance(value, ast.AST):
                    self._visit(value)
                elif isinstance(value, list):
                    self._all(value)
        else:
            visit(self, node)

    def _all(self, nodes: Iterable[Any]) -> None:
        for node in nodes:
            if isinstance(node, ast.AST):
                self._visit(node)

    def _bind(self, name: str, kind: BindingKind, node: ast.AST, **more: Any) -> None:
        scope = self._scope
        while scope.kind == "inline" and isinstance(node, ast.NamedExpr) and scope.parent:
            scope = scope.parent
        if name in scope.elsewhere:
            scope = scope.elsewhere[name]
            scope.shared.add(name)
        scope.bindings.setdefault(name, []).append(Binding(kind, node, **more))

    def _target(self, target: ast.AST, node: ast.AST, value: ast.expr | None, part: bool = False) -> None:
        """Note what a target of an assignment is bound to; `part` if only a part of the value is."""
        if isinstance(target, ast.Name):
            self._bind(target.id, "value" if value is not None else "other", node, value=value, part=part)
        elif isinstance(target, ast.Tuple | ast.List):
            for inner in target.elts:
                self._target(inner, node, value, True)
        elif isinstance(target, ast.Starred):
            self._target(target.value, node, None)
        else:
            self._visit(target)
            method = method_of(self._scope, target.value) if isinstance(target, ast.Attribute) else None
            if isinstance(target, ast.Attribute) and method is not None and method.parent is not None:
                name = getattr(method.node, "name", "")
                method.parent.attributes.setdefault(target.attr, []).append(name)

    # statements and expressions that bind or open a scope

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.uses[node] = self._scope
        else:
            self._bind(node.id, "other", node)

    def _call(self, node: ast.Call) -> None:
        self._visit(node.func)
        if isinstance(node.func, ast.Name):
            self.called.add(node.func)
        self._all(node.args)
        self._all(node.keywords)
        self.calls.append(node)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._visit(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self._target(target, node, node.value)

    def _aug_assign(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        self._target(node.target, node, ast.BinOp(node.target, node.op, node.value))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            self._bind(bound, "import", node, imported=alias.name if alias.asname else bound)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self._bind(alias.asname or alias.name, "import", node, imported=f"{module}.{alias.name}")

    def _globals(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            place = self._scope.parent if isinstance(node, ast.Nonlocal) else None
            while place is not None and not (place.kind == "function" and name in place.bindings):
                place = place.parent
            place = place or self.module
            if place is not self._scope:
                self._scope.elsewhere[name] = place
                place.shared.add(name)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        self._target(node.target, node, node.iter, True)
        self._all([*node.body, *node.orelse])

    def _item(self, node: ast.withitem) -> None:
        self._visit(node.context_expr)
        if node.optional_vars is not None:
            self._target(node.optional_vars, node, None)

    def _caught(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._bind(name, "other", node)
        self._all(ast.iter_child_nodes(node))

    def _function(self, node: FunctionNode | ast.Lambda) -> None:
        arguments = node.args
        self._all([*arguments.defaults, *arguments.kw_defaults])
        if not isinstance(node, ast.Lambda):
            self._all(node.decorator_list)
            self._bind(node.name, "def", node)
            self.functions.append(node)
            if self._scope.kind == "class":
                self.methods.setdefault(node.name, []).append(node)
        around, self._scope = self._scope, Scope("function", node, self._scope)
        self.scopes[node] = self._scope
        for arg in all_parameters(arguments):
            self._bind(arg.arg, "param", node)
        self._all(node.body if isinstance(node.body, list) else [node.body])
        self._scope = around

    def _class(self, node: ast.ClassDef) -> None:
        self._all([*node.decorator_list, *node.bases, *node.keywords])
        around, self._scope = self._scope, Scope("class", node, self._scope)
        self.scopes[node] = self._scope
        self._all(node.body)
        self._scope = around
        self._bind(node.name, "class", node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._visit(node.generators[0].iter)
        around, self._scope = self._scope, Scope("inline", node, self._scope)
        self.scopes[node] = self._scope
        for index, generator in enumerate(node.generators):
            if index:
                self._visit(generator.iter)
            self._target(generator.target, node, generator.iter, True)
            self._all(generator.ifs)
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._scope = around


_VISITS: Final[dict[type[ast.AST], Callable[[Walk, Any], None]]] = {
    ast.Name: Walk._name,
    ast.Call: Walk._call,
    ast.Constant: lambda *_: None,
    ast.Assign: Walk._assign,
    ast.AnnAssign: Walk._assign,
    ast.NamedExpr: Walk._assign,
    ast.AugAssign: Walk._aug_assign,
    ast.Import: Walk._import,
    ast.ImportFrom: Walk._import_from,
    ast.Global: Walk._globals,
    ast.Nonlocal: Walk._globals,
    ast.For: Walk._for,
    ast.AsyncFor: Walk._for,
    ast.withitem: Walk._item,
    ast.ExceptHandler: Walk._caught,
    ast.MatchAs: Walk._caught,
    ast.MatchStar: Walk._caught,
    ast.MatchMapping: Walk._caught,
    ast.FunctionDef: Walk._function,
    ast.AsyncFunctionDef: Walk._function,
    ast.Lambda: Walk._function,
    ast.ClassDef: Walk._class,
    ast.ListComp: Walk._comprehension,
    ast.SetComp: Walk._comprehension,
    ast.GeneratorExp: Walk._comprehension,
    ast.DictComp: Walk._comprehension,
}
