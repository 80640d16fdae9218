"""Runs a file so that a statement that fails, or whose training step is known, does not end the others."""

from __future__ import annotations

import ast
import builtins
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Set, Type

NAME = "__tcprobe_statement__"
LEFT_ALONE = (ast.Global, ast.Nonlocal, ast.Pass)
LATER = (ast.Yield, ast.YieldFrom)


class Statement:
    """Context manager around every statement of a file; `ended` is told what it raised, and says whether to go on."""

    def __init__(self, ended: Callable[[Optional[BaseException]], bool]) -> None:
        self._ended = ended

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        return self._ended(error)


def run_statements(
    source: bytes, path: str, names: Dict[str, Any], ended: Callable[[Optional[BaseException]], bool]
) -> None:
    """Execute a file in the namespace `names`, statement by statement.

    Raises:
        SyntaxError: it does not parse.
        BaseException: what a statement raised where `ended` did not say to go on.
    """
    tree: Any = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    setattr(builtins, NAME, Statement(ended))
    exec(compile(separated(tree), path, "exec", dont_inherit=True), names)


def separated(tree: ast.Module) -> ast.Module:
    """Return a module with every straight statement in a `with` of its own.

    Straight are the statements that run once and in order: those of the module, of its `if` and `with`, and of a
    function whose only use is one call as a statement (``main()``). Loops, `try` and other functions stay whole.
    """
    tree.body = _separated(tree.body, _procedures(tree))
    return ast.fix_missing_locations(tree)


def _separated(body: List[ast.stmt], procedures: Set[str]) -> List[ast.stmt]:
    made: List[ast.stmt] = []
    for index, node in enumerate(body):
        if isinstance(node, LEFT_ALONE) or _is_future(node) or (index == 0 and _is_text(node)):
            made.append(node)
            continue
        if isinstance(node, (ast.If, ast.With)) or (isinstance(node, ast.FunctionDef) and node.name in procedures):
            node.body = _separated(node.body, procedures)
        if isinstance(node, ast.If):
            node.orelse = _separated(node.orelse, procedures)
        name = ast.copy_location(ast.Name(NAME, ast.Load()), node)
        made.append(ast.copy_location(ast.With([ast.withitem(name, None)], [node]), node))
    return made


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
