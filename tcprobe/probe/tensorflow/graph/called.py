"""Finds the functions that an op calls, and follows a tensor out of them and into them.

The op types that could use Tensor Cores are listed here, and which types of executed ops they become.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

_PROBE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _table() -> Dict[str, Any]:
    """Return the table that lies beside the probe; an empty one where it does not, and no product is recorded."""
    try:
        with open(os.path.join(os.path.dirname(_PROBE), "op_types.json"), encoding="utf-8") as file:
            table: Dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return {"counted": {}, "uncounted": [], "replaced": ""}
    return table


_TABLE = _table()
GEMM_TYPES = frozenset(_TABLE["uncounted"]).union(*_TABLE["counted"].values())
_PREFIX = re.compile("^" + _TABLE["replaced"])
_SUFFIX = re.compile(r"(?:WithBias)?(?:V\d)?$")
_FAMILIES = frozenset(re.sub(r"V\d$", "", name) for name in GEMM_TYPES)


def bare_type(op_type: str) -> str:
    """Return the type without version, fusion and library: ``_MklNativeFusedBatchMatMulV2`` -> ``BatchMatMul``."""
    return _SUFFIX.sub("", _PREFIX.sub("", op_type))


def is_gemm(op_type: str) -> bool:
    """Return whether an op of the optimised graph is one that could use Tensor Cores."""
    return op_type in GEMM_TYPES or bare_type(op_type) in _FAMILIES


# Ops that grappler and oneDNN fold into the product before them; the fused op bears the name of the last.
FUSED_AFTER = frozenset(
    (
        "BiasAdd BiasAddV1 Add AddV2 AddN Sub Mul RealDiv Maximum Minimum ClipByValue Cast Identity Squeeze Reshape"
        " Relu Relu6 Elu LeakyRelu Tanh Sigmoid Erf Erfc Softplus Mish Gelu Swish Pow Square Const"
        " FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx BatchToSpaceND"
    ).split()
)


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
    """

    graph: Any
    name: str
    kind: str


class Frame(NamedTuple):
    """A function on the way in.

    Attributes:
        graph: its FuncGraph.
        op: what calls it; None for the outermost.
        given: the tensors outside that its placeholders stand for, by their names; those of a loop in its first turn.
    """

    graph: Any
    op: Any
    given: Dict[str, Any]


Frames = Tuple[Frame, ...]  # from the outermost function in
Place = Tuple[Any, Frames]  # a tensor, and the functions around it


def outermost_frame(graph: Any) -> Frames:
    """Return the way into a function that nothing calls."""
    return (Frame(graph, None, {}),)


def entered(frames: Frames, op: Any, graph: Any) -> Frames:
    """Return the way into a function that `op` calls."""
    names, outer = [t.op.name for t in graph.inputs], list(op.inputs)[1 if op.type in CHOICES else 0 :]
    if "Dataset" in op.type:  # its elements and states stand before what it captured
        captured = min(len(list(graph.captures)), len(outer))
        names, outer = names[len(names) - captured :], outer[len(outer) - captured :]
    return (*frames, Frame(graph, op, dict(zip(names, outer))))


def outside(tensor: Any, frames: Frames) -> Optional[Place]:
    """Return what an argument or a captured placeholder stands for in the graph around, None where that is data."""
    outer = frames[-1].given.get(tensor.op.name) if frames else None
    if outer is None:
        captures = getattr(tensor.op.graph, "captures", ())
        outer = next((one for one, inner in captures if getattr(inner, "name", None) == tensor.name), None)
    return None if outer is None else (outer, frames[:-1])


def beyond(tensor: Any, frames: Frames) -> Optional[Place]:
    """Return what a tensor is in another function: outside for an argument, inside for what a call gives; else None."""
    return outside(tensor, frames) if tensor.op.type == "Placeholder" else inside(tensor, frames)


def inside(tensor: Any, frames: Frames) -> Optional[Place]:
    """Return the output of the function whose call makes a tensor, None where no plain call does."""
    op = tensor.op
    functions = list(called_functions(op)) if op.type in CALLS else []
    if len(functions) != 1 or tensor.value_index >= len(functions[0].graph.outputs):
        return None
    graph = functions[0].graph
    return graph.outputs[tensor.value_index], entered(frames, op, graph)


def called_functions(op: Any) -> Iterator[CalledFunction]:
    """Yield the functions that `op` calls, those whose graph is known."""
    for attribute in _function_attributes(op.type):
        value = op.get_attr(attribute)
        kind = BRANCHES.get(attribute, "")
        for function in value if isinstance(value, (list, tuple)) else [value]:
            name = str(getattr(function, "name", function))
            graph = _function_graph(op.graph, name)
            if graph is not None:
                yield CalledFunction(graph, name, kind)


def called_function(op: Any, kind: str) -> Any:
    """Return the FuncGraph of a loop's ``cond`` or ``body``, None where it is not known."""
    return next((function.graph for function in called_functions(op) if function.kind == kind), None)


def called_graphs(graph: Any) -> List[Any]:
    """Return a FuncGraph and those of all functions that it calls."""
    found = {id(graph): graph}
    todo = [graph]
    while todo:
        inner = {id(f.graph): f.graph for op in todo.pop().get_operations() for f in called_functions(op)}
        todo += [one for number, one in inner.items() if number not in found]
        found.update(inner)
    return list(found.values())


def is_compiled(op: Any) -> bool:
    """Return whether a call is one that XLA must compile."""
    try:
        return bool(op.get_attr("_XlaMustCompile"))
    except ValueError:
        return False


@lru_cache(None)
def _function_attributes(op_type: str) -> List[str]:
    """Return the names of the attributes of a type of op that hold functions."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(op_type)
    return [a.name for a in definition.attr if a.type in ("func", "list(func)")] if definition else []


def _function_graph(graph: Any, name: str) -> Any:
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
    return getattr(tensor, "op", None)


def bare(tensor: Any) -> Any:
    """Return what a tensor of a graph is the same as."""
    op = operation(tensor)
    while op is not None and op.type == "Identity":
        tensor, op = op.inputs[0], operation(op.inputs[0])
    return tensor
