"""Tells forward, dgrad and wgrad apart once a step is known, across the calls between its graphs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from .called import LOOPS, Frames, beyond, operation, outside
from .notes import OpNote

VARIABLES = frozenset(("VarHandleOp", "VariableV2", "Variable", "ReadVariableOp"))
# Ops whose result is as much a weight as what goes in: layouts, casts, and the scaling of normalised weights.
CARRIERS = frozenset(
    (
        "Cast Identity IdentityN Reshape Transpose ExpandDims Squeeze StopGradient PreventGradient Pack Unpack Split"
        " SplitV ConcatV2 StridedSlice Slice Enter GatherV2 Mul RealDiv DivNoNan Add AddV2 Sub Neg Sqrt Rsqrt Square"
        " Sum Maximum Minimum CheckNumerics Conj ReverseV2 Tile BroadcastTo Pad"
    ).split()
)


NoteOf = Callable[[Any], Optional[OpNote]]
# y = x W and its gradients multiply two of three matrices each: which one a product makes says which of them it is.
FORM_OF = {"inputs": "dgrad", "weights": "wgrad", "outputs": "forward"}
MADE_BY = {form: made for made, form in FORM_OF.items()}
DEEPEST_GRADIENT = 8  # gradients of gradients


class GraphPasses:
    """Tells the pass of ops, knowing every graph that a step reaches.

    Args:
        ways: the functions around each graph, by its id; an eager step is in none.
        note: returns what was noted of an op.
    """

    def __init__(self, ways: Dict[int, Frames], note: NoteOf) -> None:
        self._note = note
        self._ways = ways

    def tell(self, record: Dict[str, Any], note: Optional[OpNote]) -> None:
        """Write the pass of a product into its record: forward, dgrad or wgrad, else other, with its form if known.

        One without a note was imported, and is other.
        """
        form = self._form(note)
        if note is not None and note.recomputed and note.forward is None:
            record["attributes"]["recomputed"] = True
        if form is not None and (form != "forward" or note is None or note.forward is None):
            record["pass"] = form
        elif form is not None:
            record["attributes"]["form"] = form

    def _form(self, note: Optional[OpNote], depth: int = DEEPEST_GRADIENT) -> Optional[str]:
        """Return which multiplication of a layer an op computes: that of its forward, dgrad or wgrad pass.

        A gradient of a gradient (a gradient penalty) is one of them too: what dgrad's own gradient asks for of a Dense
        layer is again rows times W. None where that cannot be told.
        """
        if note is None:
            return None
        if note.forward is None:  # else a custom gradient's own
            return "forward" if not note.in_gradient or note.recomputed else None
        forward = note.forward_op()
        if forward is None or note.wrt is None or note.wrt >= len(forward.inputs):
            return None
        return FORM_OF.get(self._operand(forward, note.wrt, depth) or "")

    def _operand(self, op: Any, index: int, depth: int) -> Optional[str]:
        """Return what an operand of a product is: inputs, weights or outputs, or the gradient of these."""
        if is_weight(op.inputs[index], self._around(op)):
            return "weights"
        note = self._note(op)
        if note is None or note.forward is None:
            return "inputs"
        first = note.forward_op()
        if first is None or note.wrt is None or not depth:
            return None
        others = [i for i in range(len(first.inputs)) if i != note.wrt]
        same = {i: self._taken(op, first.inputs[i], self._around(first)) for i in others}
        found = next((i for i in others if index in same[i]), None)
        if found is not None:
            return self._operand(first, found, depth - 1)
        form = self._form(self._note(first), depth - 1) if any(same.values()) else None
        return MADE_BY.get(form or "")

    def _taken(self, op: Any, tensor: Any, frames: Frames) -> Tuple[int, ...]:
        """Return the inputs of `op` that are a tensor of its forward op."""
        wanted, own = _origin(tensor, frames), self._around(op)
        return tuple(i for i, t in enumerate(op.inputs) if _origin(t, own) == wanted)

    def _around(self, op: Any) -> Frames:
        return self._ways.get(id(op.graph), ())


def _origin(tensor: Any, frames: Frames) -> Tuple[int, str]:
    """Return what tells a tensor from all others, whatever functions it was handed through."""
    while operation(tensor) is not None:
        passed = beyond(tensor, frames)
        if passed is None:
            return id(tensor.graph), str(tensor.name)
        tensor, frames = passed
    return id(tensor), ""


def is_weight(tensor: Any, frames: Frames) -> bool:
    """Return whether a graph tensor is made of variables and constants, and of one variable at least."""
    todo, seen, weight = [(tensor, frames)], set(), False
    while todo:
        tensor, frames = todo.pop()
        op = operation(tensor)
        if tensor.dtype.name == "resource" or (op is not None and op.type in VARIABLES):
            weight = True
            continue
        if op is None or op.type == "Const":  # an eager tensor that the graph captured is as good as a constant
            continue
        key = id(op.graph), tensor.name, len(frames)
        if key in seen:
            continue
        seen.add(key)
        if op.type == "Placeholder":
            outer = outside(tensor, frames)
            if outer is None:
                return False
            todo.append(outer)
        elif op.type in LOOPS:
            todo.append((op.inputs[tensor.value_index], frames))
        elif op.type in CARRIERS and len(op.inputs):
            todo += [(one, frames) for one in _values(op)]
        else:
            return False
    return weight


def _values(op: Any) -> List[Any]:
    """Return the inputs that a carrier's result is made of; integers behind the first are axes, shapes and sizes."""
    return [t for i, t in enumerate(op.inputs) if not i or op.type == "GatherV2" or not t.dtype.is_integer]
