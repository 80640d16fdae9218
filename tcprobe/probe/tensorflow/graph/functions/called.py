"""Finds the functions that an op calls, and what their arguments stand for outside."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

BRANCHES = {"then_branch": "then", "else_branch": "else", "body": "body", "cond": "cond", "branches": "branch"}
LOOPS = frozenset(("While", "StatelessWhile"))
CHOICES = frozenset(("If", "StatelessIf", "Case", "StatelessCase"))
CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall"))


class CalledFunction(NamedTuple):
    """A function that an op calls.

    Attributes:
        graph: its FuncGraph.
        name: of the function.
        kind: ``then``, ``else``, ``branch``, ``body``, ``cond``; empty for a plain call or a dataset's function.
        place: its place among the branches of a choice: 0 for ``else``, as for False.
    """

    graph: Any
    name: str
    kind: str
    place: int


def called_functions(op: Any) -> Iterator[CalledFunction]:
    """Yield the functions that `op` calls, those whose graph is known."""
    for attribute in function_attributes(op):
        value = op.get_attr(attribute)
        kind = BRANCHES.get(attribute, "")
        for place, function in enumerate(value if isinstance(value, (list, tuple)) else [value]):
            name = str(getattr(function, "name", function))
            graph = function_graph(op.graph, name)
            if graph is not None:
                yield CalledFunction(graph, name, kind, 1 if kind == "then" else place)


def called_function(op: Any, attribute: str) -> Any:
    """Return the FuncGraph of one attribute, None where it is not known."""
    return function_graph(op.graph, str(getattr(op.get_attr(attribute), "name", "")))


def handed_in(op: Any) -> List[Any]:
    """Return the inputs of `op` that are the arguments of the functions that it calls."""
    return list(op.inputs)[1 if op.type in CHOICES else 0 :]


def is_compiled(op: Any) -> bool:
    """Return whether a call is one that XLA must compile."""
    try:
        return bool(op.get_attr("_XlaMustCompile"))
    except ValueError:
        return False


_attributes: Dict[str, Tuple[str, ...]] = {}


def function_attributes(op: Any) -> Tuple[str, ...]:
    """Return the names of an op's attributes that hold functions."""
    known = _attributes.get(op.type)
    if known is None:
        definition = op.op_def
        listed = [a.name for a in definition.attr if a.type in ("func", "list(func)")] if definition else []
        known = _attributes[op.type] = tuple(listed)
    return known


def function_graph(graph: Any, name: str) -> Any:
    """Return the FuncGraph of a function that `graph` or one around it knows, None where it has none."""
    while graph is not None:
        find = getattr(graph, "_get_function", None)
        function = find(name) if find else None
        if function is not None:
            return getattr(function, "graph", None) or getattr(function, "_graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def operation(tensor: Any) -> Any:
    """Return the op that makes a tensor, None for an eager one that a graph captured."""
    try:
        return tensor.op
    except AttributeError:
        return None


def input_index(graph: Any, tensor: Any) -> int:
    """Return which input of `graph` a placeholder is, -1 for none."""
    return next((i for i, given in enumerate(graph.inputs) if given.name == tensor.name), -1)
