"""One pass over the syntax tree: scopes, bindings, reads of names, calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final

from tcprobe.source.scopes import (
    Binding,
    BindingKind,
    CodeBlock,
    FunctionNode,
    Scope,
    Use,
    all_parameters,
    enclosing,
    is_main_guard,
    self_class,
)


class Walk:
    """What one pass over a tree finds.

    Attributes:
        module: the outermost scope.
        uses: where and when each name is read, by node.
        scopes: the scope that a function, class, lambda or comprehension opens, by node.
        calls: every call, in the order in which they end.
        called: the functions that calls name (nodes of names); other reads of a function pass it on.
        stars: modules of ``from x import *``.
        functions: every function of the file.
        methods: those of classes, by name.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope("module", tree, None)
        self.uses: dict[ast.AST, Use] = {}
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.calls: list[ast.Call] = []
        self.called: set[ast.AST] = set()
        self.stars: list[str] = []
        self.functions: list[tuple[FunctionNode, Scope]] = []
        self.methods: dict[str, list[FunctionNode]] = {}
        self._scope = self.module
        self._block = CodeBlock(0)
        self._order = 0
        self._all(tree.body)

    def _tick(self) -> int:
        self._order += 1
        return self._order

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
        while scope.kind == "inline" and kind == "value" and isinstance(node, ast.NamedExpr) and scope.parent:
            scope = scope.parent
        if name in scope.elsewhere:
            scope = scope.elsewhere[name]
            scope.shared.add(name)
        scope.bindings.setdefault(name, []).append(Binding(kind, self._tick(), self._block, node, **more))

    def _target(self, target: ast.AST, node: ast.AST, value: ast.expr | None, part: bool = False) -> None:
        """Note what a target of an assignment is bound to; `part` if only a part of the value is."""
        if isinstance(target, ast.Name):
            self._bind(target.id, "value" if value is not None else "other", node, value=value, part=part)
        elif isinstance(target, ast.Tuple | ast.List):
            for inner in target.elts:
                if isinstance(inner, ast.Starred):
                    self._target(inner.value, node, None)
                else:
                    self._target(inner, node, value, True)
        elif isinstance(target, ast.Attribute):
            self._visit(target.value)
            holder = self_class(self._scope, target.value)
            if holder is not None:
                binding = Binding("value" if value is not None else "other", self._tick(), self._block, node, value)
                holder.attributes.setdefault(target.attr, []).append(binding)
        else:
            self._visit(target)

    # statements and expressions that bind, branch or open a scope

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.uses[node] = Use(self._scope, self._tick())
        elif isinstance(node.ctx, ast.Del):
            self._bind(node.id, "other", node)
        else:
            self._bind(node.id, "other", node)

    def _call(self, node: ast.Call) -> None:
        self._visit(node.func)
        if isinstance(node.func, ast.Name):
            self.called.add(node.func)
        self._all(node.args)
        self._all(node.keywords)
        self.calls.append(node)

    def _assign(self, node: ast.Assign) -> None:
        self._visit(node.value)
        for target in node.targets:
            self._target(target, node, node.value)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        self._visit(node.annotation)
        if node.value is not None:
            self._visit(node.value)
            self._target(node.target, node, node.value)

    def _aug_assign(self, node: ast.AugAssign) -> None:
        self._visit(node.value)
        target = node.target
        if not isinstance(target, ast.Name):
            self._target(target, node, None)
            return
        read = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        self._visit(read)
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        self._target(target, node, value)

    def _named(self, node: ast.NamedExpr) -> None:
        self._visit(node.value)
        self._target(node.target, node, node.value)

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
            found = None if isinstance(node, ast.Global) else enclosing(self._scope, name)
            place = found or self.module
            if place is not self._scope:
                self._scope.elsewhere[name] = place
                place.shared.add(name)

    def _branch(self, body: list[Any], group: ast.AST) -> CodeBlock:
        around, self._block = self._block, CodeBlock(self._tick(), self._block, group)
        block = self._block
        self._all(body)
        block.end = self._tick()
        block.leaves = bool(body) and isinstance(body[-1], ast.Return | ast.Raise)
        self._block = around
        return block

    def _close(self, blocks: Iterable[CodeBlock]) -> None:
        end = self._tick()
        for block in blocks:
            block.group_end = end

    def _if(self, node: ast.If) -> None:
        self._visit(node.test)
        if is_main_guard(node.test):
            self._all(node.body)
            self._branch(node.orelse, node)
            return
        self._close([self._branch(node.body, node), self._branch(node.orelse, node)])

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._visit(node.iter)
        around, self._block = self._block, CodeBlock(self._tick(), self._block, node)
        self._target(node.target, node, node.iter, True)
        self._all(node.body)
        self._block.end = self._block.group_end = self._tick()
        self._block = around
        self._branch(node.orelse, node)

    def _while(self, node: ast.While) -> None:
        self._close([self._branch([node.test, *node.body], node), self._branch(node.orelse, node)])

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._visit(item.context_expr)
            if item.optional_vars is not None:
                self._target(item.optional_vars, node, None)
        self._all(node.body)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        self._all(node.body)
        self._all(node.orelse)
        self._close([self._branch([handler], node) for handler in node.handlers])
        self._all(node.finalbody)

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self._visit(node.type)
        if node.name:
            self._bind(node.name, "other", node)
        self._all(node.body)
        self._block.leaves = bool(node.body) and isinstance(node.body[-1], ast.Return | ast.Raise)

    def _match(self, node: ast.Match) -> None:
        self._visit(node.subject)
        self._close([self._branch([case], node) for case in node.cases])

    def _pattern(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        if name:
            self._bind(name, "other", node)
        for part in ast.iter_child_nodes(node):
            self._visit(part)

    def _function(self, node: FunctionNode | ast.Lambda) -> None:
        arguments = node.args
        self._all([*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)])
        if not isinstance(node, ast.Lambda):
            self._all(node.decorator_list)
            self._bind(node.name, "def", node)
            self.functions.append((node, self._scope))
            if self._scope.kind == "class":
                self.methods.setdefault(node.name, []).append(node)
        around = self._scope, self._block
        self._scope = Scope("function", node, around[0])
        self.scopes[node] = self._scope
        self._block = CodeBlock(self._tick(), around[1])
        for arg in all_parameters(arguments):
            self._bind(arg.arg, "param", arg, function=node)
        self._all(node.body if isinstance(node.body, list) else [node.body])
        self._block.end = self._tick()
        self._scope, self._block = around

    def _class(self, node: ast.ClassDef) -> None:
        self._all([*node.decorator_list, *node.bases, *node.keywords])
        around, self._scope = self._scope, Scope("class", node, self._scope)
        self.scopes[node] = self._scope
        self._all(node.body)
        self._scope = around
        self._bind(node.name, "class", node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        around = self._scope, self._block
        self._visit(node.generators[0].iter)
        self._scope = Scope("inline", node, around[0])
        self.scopes[node] = self._scope
        self._block = CodeBlock(self._tick(), around[1], node)
        for index, generator in enumerate(node.generators):
            if index:
                self._visit(generator.iter)
            self._target(generator.target, node, generator.iter, True)
            self._all(generator.ifs)
        self._all([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])
        self._block.end = self._block.group_end = self._tick()
        self._scope, self._block = around


_VISITS: Final[dict[type[ast.AST], Callable[[Walk, Any], None]]] = {
    ast.Name: Walk._name,
    ast.Call: Walk._call,
    ast.Constant: lambda *_: None,
    ast.Assign: Walk._assign,
    ast.AnnAssign: Walk._ann_assign,
    ast.AugAssign: Walk._aug_assign,
    ast.NamedExpr: Walk._named,
    ast.Import: Walk._import,
    ast.ImportFrom: Walk._import_from,
    ast.Global: Walk._globals,
    ast.Nonlocal: Walk._globals,
    ast.If: Walk._if,
    ast.For: Walk._for,
    ast.AsyncFor: Walk._for,
    ast.While: Walk._while,
    ast.With: Walk._with,
    ast.AsyncWith: Walk._with,
    ast.Try: Walk._try,
    ast.TryStar: Walk._try,
    ast.ExceptHandler: Walk._handler,
    ast.Match: Walk._match,
    ast.MatchAs: Walk._pattern,
    ast.MatchStar: Walk._pattern,
    ast.MatchMapping: Walk._pattern,
    ast.FunctionDef: Walk._function,
    ast.AsyncFunctionDef: Walk._function,
    ast.Lambda: Walk._function,
    ast.ClassDef: Walk._class,
    ast.ListComp: Walk._comprehension,
    ast.SetComp: Walk._comprehension,
    ast.GeneratorExp: Walk._comprehension,
    ast.DictComp: Walk._comprehension,
}
