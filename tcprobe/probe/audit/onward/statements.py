"""Runs a file so that a statement that fails, or whose training step is known, does not end the others.

What a failed statement was to assign, or to add to, is forgotten: an older value would make a model that nobody wrote.
"""

from __future__ import annotations

import ast
import builtins
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, Type

NAME = "__tcprobe_statement__"
LEFT_ALONE = (ast.Global, ast.Nonlocal, ast.Pass)
LATER = (ast.Yield, ast.YieldFrom)
ASSIGNS = (ast.Assign, ast.AugAssign, ast.AnnAssign)
ADDS = ("add", "append", "extend", "insert")
FORGET = "if {self}.failed:\n  try:\n    {what}\n  except NameError:\n    pass\n"
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


class Statement:
    """Context manager around every statement of a file.

    Args:
        ended: told what it raised; says whether to go on.
        spoil: told of an object that it was to add to, and may have in part.

    Attributes:
        failed: whether the last one raised an exception.
    """

    def __init__(self, ended: Callable[[Optional[BaseException]], bool], spoil: Callable[[Any], None]) -> None:
        self._ended = ended
        self.spoil = spoil
        self.failed = False

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        self.failed = isinstance(error, Exception)
        return self._ended(error)


def run_statements(
    source: bytes,
    path: str,
    names: Dict[str, Any],
    ended: Callable[[Optional[BaseException]], bool],
    spoil: Callable[[Any], None],
) -> None:
    """Execute a file in the namespace `names`, statement by statement; `Statement` has `ended` and `spoil`.

    Raises:
        SyntaxError: it does not parse.
        BaseException: what a statement raised where `ended` did not say to go on.
    """
    tree: Any = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    setattr(builtins, NAME, Statement(ended, spoil))
    exec(compile(separated(tree), path, "exec", dont_inherit=True), names)


def separated(tree: ast.Module) -> ast.Module:
    """Return a module with every straight statement in a `with` of its own.

    Straight are the statements that run once and in order: those of the module, of its `if` and `with`, and of a
    function whose only use is one call as a statement (``main()``). Loops, `try` and other functions stay whole.
    """
    tree.body = _separated(tree.body, _procedures(tree), None)
    return ast.fix_missing_locations(tree)


def _separated(body: List[ast.stmt], procedures: Set[str], own: Optional[Set[str]]) -> List[ast.stmt]:
    """Separate the statements of the module, or of a function with names of its `own`."""
    made: List[ast.stmt] = []
    for index, node in enumerate(body):
        if isinstance(node, LEFT_ALONE) or _is_future(node) or (index == 0 and _is_text(node)):
            made.append(node)
            continue
        assigned, added = _unknown(node)
        if isinstance(node, (ast.If, ast.With)):
            node.body = _separated(node.body, procedures, own)
        elif isinstance(node, ast.FunctionDef) and node.name in procedures:
            node.body = _separated(node.body, procedures, {name for n in node.body for name in _unknown(n)[0]})
        if isinstance(node, ast.If):
            node.orelse = _separated(node.orelse, procedures, own)
        name = ast.copy_location(ast.Name(NAME, ast.Load()), node)
        made.append(ast.copy_location(ast.With([ast.withitem(name, None)], [node]), node))
        made += [_behind(node, "%s.spoil(%s)" % (NAME, name)) for name in sorted(added)]
        made += [_behind(node, "del " + name) for name in sorted(assigned | added) if own is None or name in own]
    return made


def _behind(node: ast.stmt, what: str) -> ast.stmt:
    """Return a statement that does something where `node` has failed."""
    made = ast.parse(FORGET.format(self=NAME, what=what)).body[0]
    for part in ast.walk(made):
        ast.copy_location(part, node)
    return made


def _unknown(node: ast.stmt) -> Tuple[Set[str], Set[str]]:
    """Return the names that a statement assigns, and those of objects that it adds something to.

    Of a loop or a block only ``model.add`` adds: what else is collected there (losses) is no part of a model.
    """
    assigned: Set[str] = set()
    added: Set[str] = set()
    for part in _statements(node):
        for target in getattr(part, "targets", [getattr(part, "target", None)]) if isinstance(part, ASSIGNS) else ():
            assigned |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        call = getattr(part, "value", None) if isinstance(part, ast.Expr) else None
        method = getattr(call, "func", None)
        if isinstance(method, ast.Attribute) and isinstance(method.value, ast.Name):
            added |= {method.value.id} if method.attr in (ADDS if part is node else ADDS[:1]) else set()
    return assigned, added


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and those in it, but for what only defines something."""
    if isinstance(node, DEFINES):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _statements(child)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _procedures(tree: ast.Module) -> Set[str]:
    """Return the functions of a module that are named once, in a straight statement whose value nobody takes."""
    named = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef) and _may_be_split(n)}
    once = {name for name in functions if named.count(name) == 1}
    found: Set[str] = set()
    bodies = [tree.body]
    while bodies:
        for node in _straight(bodies.pop()):
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & once - found
            found |= used
            bodies += [functions[name].body for name in used]
    return found


def _straight(body: List[ast.stmt]) -> List[ast.Expr]:
    found: List[ast.Expr] = []
    for node in body:
        if isinstance(node, ast.Expr):
            found.append(node)
        elif isinstance(node, (ast.If, ast.With)):
            found += _straight([*node.body, *getattr(node, "orelse", ())])
    return found


def _may_be_split(function: ast.FunctionDef) -> bool:
    """Return whether a function is run as it stands: no generator, and nothing that AutoGraph reads."""
    decorators = [n for d in function.decorator_list for n in ast.walk(d)]
    traced = any("function" in getattr(n, "attr", getattr(n, "id", "")) for n in decorators)
    return not traced and not any(isinstance(n, LATER) for n in ast.walk(function))
