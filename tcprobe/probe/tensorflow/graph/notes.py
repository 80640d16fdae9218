"""Keeps what is known of an op only as it is made: its layer, and what it is the gradient of."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from ..hooks.layers import CalledLayer

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
