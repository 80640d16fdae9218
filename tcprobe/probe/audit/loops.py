"""Tells from the source in which loops a training call runs, and what they are still to call."""

from __future__ import annotations

import ast
import functools
import linecache
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple

from ..core.lines import PACKAGE, USER, outwards, rank

LOOP_NODES = (ast.For, ast.While, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Loop(NamedTuple):
    """A loop that runs.

    Attributes:
        frame: of the call of the function that it stands in; kept, so that no other is taken for it.
        node: its source.
    """

    frame: Any
    node: Any


def running_loops(frame: Any) -> List[Loop]:
    """Return the loops around the user's running lines; where there are none, those around an installed library's.

    Args:
        frame: the innermost frame.
    """
    found: Dict[int, List[Loop]] = {USER: [], PACKAGE: []}
    for around in outwards(frame):
        filename = around.f_code.co_filename
        if rank(filename) in found:
            found[rank(filename)] += [Loop(around, node) for node in loops(filename, around.f_lineno)]
    return found[USER] or found[PACKAGE]


def share(some: Iterable[Loop], others: Iterable[Loop]) -> bool:
    """Return whether a loop is among both."""
    return any(one.frame is other.frame and one.node is other.node for one in some for other in others)


def waits(around: Iterable[Loop], unseen: Callable[[Any], bool]) -> bool:
    """Return whether one of the loops that run calls something that has not been called yet.

    Args:
        around: the loops.
        unseen: whether a value is a training function that has not been called.
    """
    names = ((frame, name) for frame, node in around for name in ast.walk(node) if isinstance(name, ast.expr))
    return any(_leads(frame, name, unseen) for frame, name in names)


def loops(filename: str, line: int) -> List[Any]:
    """Return the loops of a file that a line stands in; none where the file does not parse."""
    return [n for n in _loops_of(filename) if n.lineno <= line <= (n.end_lineno or n.lineno)]


@functools.lru_cache(maxsize=None)
def _loops_of(filename: str) -> List[Any]:
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, LOOP_NODES)]


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
