"""Tells from its source whether a training loop is still to call another training function."""

from __future__ import annotations

import ast
import linecache
from typing import Any, Callable, Iterator, List

from ..core.lines import USER, outwards, rank

LOOP_NODES = (ast.For, ast.While, ast.AsyncFor)


def waits(frame: Any, unseen: Callable[[Any], bool]) -> bool:
    """Return whether a loop around the running lines of the user's calls something that has not been called yet.

    Args:
        frame: the innermost frame; the user's frames among it and those around it are looked at.
        unseen: whether a value is a training function that has not been called.
    """
    for around in outwards(frame):
        if rank(around.f_code.co_filename) == USER:
            for loop in loops(around.f_code.co_filename, around.f_lineno):
                if any(_leads(around, name, unseen) for name in ast.walk(loop) if isinstance(name, ast.expr)):
                    return True
    return False


def loops(filename: str, line: int) -> List[ast.AST]:
    """Return the loops of a file that a line stands in; none where the file does not parse."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return []
    return [n for n in ast.walk(tree) if isinstance(n, LOOP_NODES) and n.lineno <= line <= (n.end_lineno or n.lineno)]


def _leads(frame: Any, node: ast.expr, unseen: Callable[[Any], bool]) -> bool:
    """Return whether a name stands for an uncalled training function, or for a function that uses one."""
    if isinstance(node, ast.Attribute) and node.attr == "train_on_batch":
        model = _value(frame, node.value)
        return model is not None and getattr(model, "train_function", model) is None
    value = _value(frame, node)
    return value is not None and any(unseen(v) for v in _with_globals(value))


def _value(frame: Any, node: ast.expr) -> Any:
    """Return what a name or an attribute of one stands for, without running any code of the user's."""
    # The names of a function that runs are in its frame and nowhere else.
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = frame.f_locals.get(node.value.id, frame.f_globals.get(node.value.id))
        for names in (getattr(owner, "__dict__", {}), *(vars(c) for c in type(owner).__mro__)):
            if node.attr in names:
                return names[node.attr]
    return None


def _with_globals(value: Any) -> Iterator[Any]:
    yield value
    code = getattr(value, "__code__", None)
    for name in getattr(code, "co_names", ()):
        yield getattr(value, "__globals__", {}).get(name)
