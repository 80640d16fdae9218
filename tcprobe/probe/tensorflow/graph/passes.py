"""Tells forward, dgrad and wgrad apart once a step is known, across the calls between its graphs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .called import LOOPS, Frames, inside, operation, outside
from .notes import OpNote
from .walk import Visit

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


NoteOf = Callable[[Any], Optional[OpNote]]
# y = x W and its gradients multiply two of three matrices each: which one a product makes says which of them it is.
FORM_OF = {"inputs": "dgrad", "weights": "wgrad", "outputs": "forward"}
MADE_BY = {form: made for made, form in FORM_OF.items()}
DEEPEST_GRADIENT = 8  # gradients of gradients


class GraphPasses:
    """Tells the pass of ops, knowing every graph that a step reaches.

    Args:
        visits: products; those of an eager step are in no graph, and have none.
        note: returns what was noted of an op.
    """

    def __init__(self, visits: Sequence[Visit], note: NoteOf) -> None:
        self._note = note
        self._frames: Dict[int, Frames] = {}
        for visit in visits:
            self._frames.setdefault(id(visit.op.graph), visit.frames)

    def of(self, note: Optional[OpNote]) -> str:
        """Return forward, dgrad, wgrad or other; an op without a note was imported, and is other."""
        form = self.form(note)
        again = note is not None and note.forward is not None
        return "other" if form is None or (form == "forward" and again) else form

    def form(self, note: Optional[OpNote], depth: int = DEEPEST_GRADIENT) -> Optional[str]:
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
        form = self.form(self._note(first), depth - 1) if any(same.values()) else None
        return MADE_BY.get(form or "")

    def _taken(self, op: Any, tensor: Any, frames: Frames) -> Tuple[int, ...]:
        """Return the inputs of `op` that are a tensor of its forward op."""
        wanted, own = _origin(tensor, frames), self._around(op)
        return tuple(i for i, t in enumerate(op.inputs) if _origin(t, own) == wanted)

    def _around(self, op: Any) -> Frames:
        return self._frames.get(id(op.graph), ())


def _origin(tensor: Any, frames: Frames) -> Tuple[int, str]:
    """Return what tells a tensor from all others, whatever functions it was handed through."""
    for _ in range(FARTHEST_VARIABLE):
        op = operation(tensor)
        if op is None:
            return id(tensor), ""
        passed = outside(tensor, frames) if op.type == "Placeholder" else inside(tensor, frames)
        if passed is None:
            break
        tensor, frames = passed
    return id(op.graph), str(tensor.name)


def is_weight(tensor: Any, frames: Frames) -> bool:
    """Return whether a graph tensor is made of variables and constants, and of one variable at least."""
    return _Origin().of(tensor, frames, FARTHEST_VARIABLE) is True


class _Origin:
    """Finds what a tensor is made of: True for variables, None for constants, False for anything with data in it."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, str, int], Optional[bool]] = {}

    def of(self, tensor: Any, frames: Frames, depth: int) -> Optional[bool]:
        """Return the verdict on `tensor` of the graph that `frames` lead to."""
        op = operation(tensor)
        if tensor.dtype.name == "resource":
            return True
        if op is None:
            return None  # an eager tensor that the graph captured
        key = (id(op.graph), tensor.name, len(frames))
        if key not in self._known:
            self._known[key] = False  # stands while a cycle is followed
            self._known[key] = self._of_op(op, tensor, frames, depth) if depth else False
        return self._known[key]

    def _of_op(self, op: Any, tensor: Any, frames: Frames, depth: int) -> Optional[bool]:
        if op.type in VARIABLES:
            return True
        if op.type == "Const":
            return None
        if op.type == "Placeholder":
            outer = outside(tensor, frames)
            return False if outer is None else self.of(*outer, depth - 1)
        if op.type in LOOPS:
            return self.of(op.inputs[tensor.value_index], frames, depth - 1)
        if op.type not in CARRIERS or not len(op.inputs):
            return False
        verdict: Optional[bool] = None
        for source in _values(op):
            kind = self.of(source, frames, depth - 1)
            if kind is False:
                return False
            verdict = verdict or kind
        return verdict


def _values(op: Any) -> List[Any]:
    """Return the inputs that a carrier's result is made of; integers behind the first are axes, shapes and sizes."""
    return [t for i, t in enumerate(op.inputs) if not i or op.type == "GatherV2" or not t.dtype.is_integer]
