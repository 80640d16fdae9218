"""Tells forward, dgrad and wgrad apart once a function is traced, across the calls between its graphs."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

from .notes import OpNote
from .walk import OuterTensors, Visit

FARTHEST_VARIABLE = 60  # ops between a product's operand and the variable that it was read from
VARIABLES = frozenset(("VarHandleOp", "VariableV2", "Variable", "ReadVariableOp"))
# Ops whose result is as much a weight as what goes in: layouts, casts, and the scaling of normalised weights.
CARRIERS = frozenset(
    (
        "Cast Identity IdentityN Reshape Transpose ExpandDims Squeeze StopGradient PreventGradient Pack Unpack Split"
        " SplitV ConcatV2 StridedSlice Slice Enter GatherV2 Mul RealDiv DivNoNan Add AddV2 Sub Neg Sqrt Rsqrt Square"
        " Sum Maximum Minimum CheckNumerics Conj ReverseV2 Tile BroadcastTo Pad"
    ).split()
)
LOOP_OPS = frozenset(("While", "StatelessWhile"))


class GraphPasses:
    """Tells the pass of ops, knowing every graph that a function reaches."""

    def __init__(self, visits: Sequence[Visit]) -> None:
        self._envs: Dict[int, OuterTensors] = {}
        for visit in visits:
            self._envs.setdefault(id(visit.op.graph), visit.env)

    def of(self, note: Optional[OpNote]) -> str:
        """Return forward, dgrad, wgrad or other; an op without a note was imported, and is other."""
        if note is None:
            return "other"
        if note.forward is None:
            return "forward" if not note.in_gradient or note.recomputed else "other"
        forward = note.forward_op()
        if forward is None or note.wrt is None or note.wrt >= len(forward.inputs):
            return "other"
        env = self._envs.get(id(forward.graph), ({},))
        return "wgrad" if is_weight(forward.inputs[note.wrt], env) else "dgrad"


def is_weight(tensor: Any, env: OuterTensors) -> bool:
    """Return whether a graph tensor is made of variables and constants, and of one variable at least."""
    return _Origin().of(tensor, env, FARTHEST_VARIABLE) is True


class _Origin:
    """Finds what a tensor is made of: True for variables, None for constants, False for anything with data in it."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, str, int], Optional[bool]] = {}

    def of(self, tensor: Any, env: OuterTensors, depth: int) -> Optional[bool]:
        """Return the verdict on `tensor` of the graph that `env` leads to."""
        op = _op(tensor)
        if tensor.dtype.name == "resource":
            return True
        if op is None:
            return None  # an eager tensor that the graph captured
        key = (id(op.graph), tensor.name, len(env))
        if key not in self._known:
            self._known[key] = False  # stands while a cycle is followed
            self._known[key] = self._of_op(op, tensor, env, depth) if depth else False
        return self._known[key]

    def _of_op(self, op: Any, tensor: Any, env: OuterTensors, depth: int) -> Optional[bool]:
        if op.type in VARIABLES:
            return True
        if op.type == "Const":
            return None
        if op.type == "Placeholder":
            outer = outside(tensor, env)
            return False if outer is None else self.of(outer, env[:-1], depth - 1)
        if op.type in LOOP_OPS:
            return self.of(op.inputs[tensor.value_index], env, depth - 1)
        if op.type not in CARRIERS or not len(op.inputs):
            return False
        verdict: Optional[bool] = None
        for source in op.inputs:
            kind = self.of(source, env, depth - 1)
            if kind is False:
                return False
            verdict = verdict or kind
        return verdict


def _op(tensor: Any) -> Any:
    try:
        return tensor.op
    except AttributeError:
        return None


def outside(tensor: Any, env: OuterTensors) -> Any:
    """Return what an argument or a captured placeholder stands for in the graph around, None where that is data."""
    name = tensor.op.name
    if env and name in env[-1]:
        return env[-1][name]
    for outer, inner in getattr(tensor.op.graph, "captures", ()):
        if getattr(inner, "name", None) == tensor.name:
            return outer
    return None
