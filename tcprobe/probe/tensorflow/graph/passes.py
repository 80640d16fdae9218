"""Tells forward, dgrad and wgrad apart once a step is known, across the calls between its graphs.

What is known of an op only as it is made is noted then: its layer, and what it is the gradient of.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..hooks.layers import CalledLayer
from .called import LOOPS, Frames, beyond, operation, outside

SEARCH_DEPTH = 8  # ops between a gradient's result and the product that makes it: reductions, reshapes, transposes
Forward = Callable[[], Any]


class OpNote:
    """What was known as an op was made.

    Attributes:
        layer: the layer being called, or that of the forward op.
        in_gradient: made while a gradient was taken.
        recomputed: made by a layer that was called again to take a gradient.
        forward: returns the op whose gradient this is part of, None where its graph is gone; None for any other.
        wrt: the forward op's input whose gradient this op makes.
    """

    __slots__ = ("forward", "in_gradient", "layer", "recomputed", "wrt")

    def __init__(self, layer: Optional[CalledLayer]) -> None:
        self.layer = layer
        self.in_gradient = False
        self.recomputed = False
        self.forward: Optional[Forward] = None
        self.wrt: Optional[int] = None

    def forward_op(self) -> Any:
        """Return the forward op, None where there is none or its graph is gone."""
        return None if self.forward is None else self.forward()


class GraphNotes:
    """Notes on the ops of one FuncGraph.

    Attributes:
        ops: notes on its products, by name.
        scopes: of every op that a layer's call made.
    """

    def __init__(self) -> None:
        self.ops: Dict[str, OpNote] = {}
        self.scopes = LayerScopes()


class LayerScopes:
    """Which layer made the ops of each name scope; a scope in which several did is none's.

    TensorFlow makes scopes unique by a number, and Keras 3 opens one twice for each call: the name tells no layer.
    """

    def __init__(self) -> None:
        self._paths: Dict[str, Optional[str]] = {}

    def add(self, scope: str, path: Optional[str]) -> None:
        """Note that the layer `path` made an op in `scope`."""
        self._paths[scope] = path if self._paths.get(scope, path) == path else None

    def merge(self, other: "LayerScopes") -> None:
        """Add the scopes of another graph."""
        for scope, path in other._paths.items():
            self.add(scope, path)

    def sure(self) -> Dict[str, str]:
        """Return the path of the one layer of each scope; a scope without an entry is as the nearest around it."""
        return {s: path for s, path in self._paths.items() if path is not None and path != self._around(s)}

    def _around(self, scope: str) -> Optional[str]:
        outer = scope.rpartition("/")[0]
        while outer and outer not in self._paths:
            outer = outer.rpartition("/")[0]
        return self._paths.get(outer)


class Gradient:
    """A gradient function that is running: the ops it has made so far."""

    def __init__(self, forward: Optional[Forward], layer: Optional[CalledLayer]) -> None:
        self.forward = forward
        self.layer = layer
        self.made: Dict[str, OpNote] = {}

    def finish(self, results: Any) -> None:
        """Set `wrt` of the products that were made: the index of the result that each feeds."""
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        for index, result in enumerate(listed):
            note = self.made.get(_maker(result, self.made))
            if note is not None and note.wrt is None:
                note.wrt = index


def _maker(result: Any, made: Dict[str, OpNote]) -> str:
    """Return the name of the made op nearest before `result`, empty where there is none."""
    level: List[Any] = [result] if hasattr(result, "graph") else []
    seen: Set[str] = set()
    for _ in range(SEARCH_DEPTH):
        ops = [t.op for t in level if t.op.name not in seen]
        for op in ops:
            if op.name in made:
                return str(op.name)
        seen.update(op.name for op in ops)
        level = [t for op in ops for t in op.inputs]
    return ""


def taker(op_type: str, inputs: Sequence[Any]) -> Any:
    """Return the op of a type with these inputs, which are all that a tape keeps of it; None where there is none.

    A tape drops inputs that the gradient does not need, and makes anew what was no tensor, as the sizes of a transposed
    convolution: the op is meant that shares most, of several the latest.
    """
    names = [t.name if getattr(t, "graph", None) is not None else None for t in inputs]
    of_each = ([op for op in t.consumers() if op.type == op_type] for t, name in zip(inputs, names) if name)
    takers = next(filter(None, of_each), [])  # the first will do: weights may have thousands
    return max(
        takers, key=lambda op: (sum(n == t.name for n, t in zip(names, op.inputs)), len(op.name), op.name), default=None
    )


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
