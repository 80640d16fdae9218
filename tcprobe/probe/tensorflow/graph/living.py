"""Tells which ops of a function its outputs need, through the functions that it calls and the turns of its loops."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple

from .called import CALLS, CHOICES, LOOPS, called_function, called_functions

Outputs = Optional[FrozenSet[int]]  # indices of the outputs that are used; None is all


class Living(NamedTuple):
    """What of a graph runs.

    Attributes:
        ops: names of the ops that the used outputs, or a side effect, need.
        used: the outputs of each op that are used.
        inputs: indices of the graph's inputs that are needed.
    """

    ops: Set[str]
    used: Dict[str, Set[int]]
    inputs: FrozenSet[int]


class Liveness:
    """Finds what lives in the graphs of one walk; each graph is searched once for each set of used outputs."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, Outputs], Living] = {}

    def of(self, graph: Any, outputs: Outputs = None) -> Living:
        """Return what runs of a FuncGraph of which `outputs` are used outside."""
        key = (id(graph), outputs)
        if key not in self._known:
            self._known[key] = self._search(graph, outputs)
        return self._known[key]

    def loop(self, op: Any, used: FrozenSet[int]) -> FrozenSet[int]:
        """Return the variables of a loop that live: those used outside, or needed by the next turn of one that lives.

        A gradient that every turn adds to and that nobody reads does not.
        """
        condition, body = called_function(op, "cond"), called_function(op, "body")
        if condition is None or body is None:
            return frozenset(range(len(op.inputs)))
        kept = used | self.of(condition).inputs
        while True:
            more = kept | self.of(body, kept).inputs
            if more == kept:
                return kept
            kept = more

    def _search(self, graph: Any, outputs: Outputs) -> Living:
        used: Dict[str, Set[int]] = {}
        live: Dict[str, int] = {}  # how many outputs of an op were used as it was looked at last
        todo: List[Any] = list(graph.control_outputs)

        def use(tensors: Iterable[Any]) -> None:
            for tensor in tensors:
                used.setdefault(tensor.op.name, set()).add(tensor.value_index)
                todo.append(tensor.op)

        use(t for i, t in enumerate(graph.outputs) if t is not None and (outputs is None or i in outputs))
        while todo:
            op = todo.pop()
            indices = used.setdefault(op.name, set())
            if live.get(op.name) != len(indices):
                todo.extend(op.control_inputs if op.name not in live else ())
                live[op.name] = len(indices)
                inputs = op.inputs
                use(inputs[index] for index in self._needed(op, frozenset(indices)))
        given = frozenset(i for i, t in enumerate(graph.inputs) if t.op.name in live)
        return Living(set(live), used, given)

    def _needed(self, op: Any, used: FrozenSet[int]) -> FrozenSet[int]:
        """Return the indices of the inputs that these outputs of `op` need."""
        every = frozenset(range(len(op.inputs)))
        if op.type in LOOPS:
            return self.loop(op, used) & every
        if op.type not in CALLS and op.type not in CHOICES:
            return every
        functions = list(called_functions(op))
        skipped = 1 if op.type in CHOICES else 0
        if not functions:
            return every
        needed = {i + skipped for function in functions for i in self.of(function.graph, used).inputs}
        return frozenset(needed.union(range(skipped))) & every
