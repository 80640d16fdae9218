"""Statements of the user's program, followed in turn: assignments, branches, loops, definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Final

from tcprobe.audit.source.attributes import bind
from tcprobe.audit.source.functions import defaults_of
from tcprobe.audit.source.imported import module_of, taken_from
from tcprobe.audit.source.kinds import Class, Env, Items, Named, Routine, SourceValue, Tensor, Unknown
from tcprobe.audit.source.operators import CHANGING, arithmetic
from tcprobe.audit.source.state import Left, State
from tcprobe.audit.source.steps.trainings import begin_turn, looping, note_flags, note_tape
from tcprobe.audit.source.values import any_of, doubted, doubts_of, elements, guessed, shaken, truth
from tcprobe.source.scopes import every_node, marked
from tcprobe.source.values import DOUBTED, Doubts, Known


def _assign(p: State, node: ast.Assign) -> None:
    if p.given.is_any:
        for target in node.targets:
            if isinstance(target, (ast.Name, ast.Attribute)):
                p.assigned[node.value] = target.id if isinstance(target, ast.Name) else target.attr
    value = p.value(node.value)
    for target in node.targets:
        bind(p, target, value)
        note_flags(p, target, node.value)


def _annotated(p: State, node: ast.AnnAssign) -> None:
    if node.value is not None:
        bind(p, node.target, p.value(node.value))


def _augmented(p: State, node: ast.AugAssign) -> None:
    left, right = p.value(node.target), p.value(node.value)
    if type(left) is not Items or not isinstance(node.op, ast.Add):
        whole = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        bind(p, node.target, arithmetic(node.op, left, right, whole))
        note_flags(p, node.target, node.value)
    elif not p.aside:
        found = elements(right)
        left.items.extend(found or [])
        left.open = left.open or (None if found is not None else "is changed in place")


def _expression(p: State, node: ast.Expr) -> None:
    p.value(node.value)


def _return(p: State, node: ast.Return) -> Left:
    if node.value is not None:
        p.returned.append(p.guessed(p.value(node.value), p.inner))
    return "return"


def _import(p: State, node: ast.Import) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.split(".")[0]
        whole = alias.name if alias.asname else name
        p.env.vars[name] = module_of(p, whole, p.here.path) or Named(whole)


def _import_from(p: State, node: ast.ImportFrom) -> None:
    for alias in node.names:
        if alias.name != "*":
            p.env.vars[alias.asname or alias.name] = taken_from(p, node, alias)


def _function(p: State, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    for mark in node.decorator_list:
        p.value(mark)
    p.env.vars[node.name] = p.routines[node] = Routine(node, p.env, defaults_of(node.args, p.value))


def _class(p: State, node: ast.ClassDef) -> None:
    around, inside = p.env, Env(p.env)
    made = Class(node, around, [p.value(base) for base in node.bases])
    for mark in (*node.decorator_list, *(keyword.value for keyword in node.keywords)):
        p.look(mark)
    with p.being(env=inside):
        p.run(node.body)
    for name, value in inside.vars.items():
        if type(value) is Routine and value.node in node.body:
            value.env, value.holder = around, made
            if marked(value.node, "property"):
                value = Unknown(f"{name} is computed")
        made.members[name] = value
    around.vars[node.name] = made


# Branches and loops


def _if(p: State, node: ast.If) -> Left:
    test = p.value(node.test)
    known = truth(test)
    if known is None:
        return p.branches([node.body, node.orelse])
    chosen, other = (node.body, node.orelse) if known else (node.orelse, node.body)
    doubts = doubts_of(test)
    if not doubts:
        p.skip(other, type(test) is Known and not p.gpu_asked)  # another machine may run what this one leaves out
        return p.run(chosen)
    before = dict(p.env.vars)
    with p.doubting(doubts):
        left = p.run(chosen)
    p.seen.skip(other, p.env.with_vars(before), False)
    if left is None and not _leaves(other):
        _doubt(p, (name for name, value in p.env.vars.items() if before.get(name) is not value), doubts)
    return left


def _leaves(body: list[ast.stmt]) -> bool:
    """Return whether nothing of a branch reaches what follows."""
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise))


def _doubt(p: State, names: Iterable[str], doubts: Doubts) -> None:
    """Note that variables may be something else."""
    for name in list(names):
        p.env.vars[name] = guessed(p.env.vars[name], doubts)


def _doubt_stored(p: State, body: list[ast.stmt], doubts: Doubts) -> None:
    """Note that the variables that statements assign may be something else, where there is a doubt."""
    if doubts:
        _doubt(p, _stored(tuple(body)) & p.env.vars.keys(), doubts)


def _for(p: State, node: ast.For | ast.AsyncFor) -> Left:
    of = p.value(node.iter)
    found = elements(of)
    if found is None:
        _once(p, node.target, of, node.body)
        return p.run(node.orelse)
    doubts = doubts_of(of)  # it may run more or fewer times
    _doubt_stored(p, node.body, doubts)
    with p.doubting(doubts):
        left = _each(p, node, found)
    _doubt_stored(p, node.body, doubts)
    if left is None and _breaks(node):
        _doubt_stored(p, [node], DOUBTED)
    if left == "break":
        p.skip(node.orelse)
        return None
    return left or p.run(node.orelse)


def _each(p: State, node: ast.For | ast.AsyncFor, found: list[SourceValue]) -> Left:
    """Follow the body of a loop for each element; return how it is left."""
    doubts = p.here.routines.of_part(node.iter)
    if not found:
        p.skip(node.body)
    for element in found:
        begin_turn(p, node)
        bind(p, node.target, doubted(element, doubts))
        left = p.run(node.body)
        if left not in (None, "continue"):
            return left
    return None


def _once(p: State, target: ast.AST | None, of: SourceValue | None, body: list[ast.stmt]) -> None:
    """Follow the body of a loop of unknown length once, numbers that it changes unknown."""
    variables, drafts, whole = p.env.vars, p.layers.drafts, tuple(body)
    changed = _stored(whole) & variables.keys()
    p.shaky.update(_attributes(whole))
    for name in _changed(whole) & variables.keys():
        shaken(variables[name])
    for name in changed:
        if type(variables[name]) is Known:
            variables[name] = Unknown(f"{name} changes in a loop")
    if target is not None and of is not None:
        element = of if type(of) is Unknown else Unknown("is the element of a loop that is not known")
        bind(p, target, any_of(of) or element)
    made = len(drafts)
    p.run(body)
    _doubt(p, changed, DOUBTED)
    for draft in drafts[made:]:
        what = f"{draft.kind}: how many there are"
        p.miss(draft.node, what, "it is made in a loop whose length is not known")


def _look(p: State, node: ast.Assert | ast.Raise) -> Left:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and child not in p.seen.values:
            p.look(child)
    return "raise" if isinstance(node, ast.Raise) else None


def _while(p: State, node: ast.While) -> None:
    p.value(node.test)
    _once(p, None, None, node.body)


def _with(p: State, node: ast.With | ast.AsyncWith) -> Left:
    tapes = 0
    for item in node.items:
        value = p.value(item.context_expr)
        tapes += note_tape(p, item.context_expr)
        if item.optional_vars is not None:
            opened = Unknown("is opened by with", type(value) is Unknown and value.read)
            bind(p, item.optional_vars, value if type(value) is Tensor else opened)
    with p.being(taped=p.taped + tapes) if tapes else nullcontext():
        return p.run(node.body)


def _try(p: State, node: ast.Try | ast.TryStar) -> Left:
    left = p.run(node.body)
    for handler in node.handlers:
        _import_in(p, handler.body)
        p.skip(handler.body)
        if not _leaves(handler.body):
            _doubt_stored(p, handler.body, DOUBTED)
    return left or p.run(node.orelse) or p.run(node.finalbody)


def _import_in(p: State, body: list[ast.stmt]) -> None:
    """Take what only an except branch imports: it stands for the same as what failed."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            before = dict(p.env.vars)
            STATEMENTS[type(statement)](p, statement)
            p.env.vars.update(before)


def _match(p: State, node: ast.Match) -> Left:
    p.value(node.subject)
    return p.branches([*(case.body for case in node.cases), []])


# What statements set; kept, since calls and loops come by the same ones

_kept: Final = lru_cache(maxsize=256)


def _nodes(body: tuple[ast.stmt, ...]) -> Iterator[ast.AST]:
    return (node for statement in body for node in every_node(statement))


@_kept
def _breaks(node: ast.stmt) -> bool:
    return any(isinstance(inner, ast.Break) for inner in every_node(node))


@_kept
def _stored(body: tuple[ast.stmt, ...]) -> set[str]:
    """Return the names that statements assign."""
    return {node.id for node in _nodes(body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


@_kept
def _attributes(body: tuple[ast.stmt, ...]) -> set[str]:
    """Return the attributes that statements assign, those of functions and classes inside left out."""
    found: set[str] = set()
    pending: list[ast.AST] = [*body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
    return found


@_kept
def _changed(body: tuple[ast.stmt, ...]) -> set[str]:
    """Return the names of what statements change in place: ``sizes.append(64)``, ``sizes[0] = 64``."""
    found: set[str] = set()
    for node in _nodes(body):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name):
            stores = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
            found.update([node.value.id] if stores or getattr(node, "attr", "") in CHANGING else [])
    return found


STATEMENTS: Final[dict[type[ast.stmt], Callable[[State, Any], Left]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.If: _if,
    ast.For: looping(_for),
    ast.AsyncFor: looping(_for),
    ast.While: looping(_while),
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.TryStar: _try,
    ast.Match: _match,
    ast.Raise: _look,
    ast.Assert: _look,
    ast.Break: lambda *_: "break",
    ast.Continue: lambda *_: "continue",
}
