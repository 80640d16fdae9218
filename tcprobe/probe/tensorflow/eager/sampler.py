"""Records the products of one eager step as they execute, with the shapes that they have."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

from ...core.gaps import Guard
from ...core.lines import running_line
from ..graph.execute import Match
from ..graph.notes import Gradient
from ..graph.passes import CARRIERS, VARIABLES, GraphPasses
from ..graph.records import op_record, tell_pass
from ..graph.types import GEMM_TYPES
from ..hooks.layers import LayerHooks
from .flow import Flow, FlowOp, FlowTensor

MOST_PRODUCTS = 20000
SUMS = CARRIERS | {"AddN"}  # ops between a gradient and the products that it is the sum of
FARTHEST_PRODUCT = 16
Size = Tuple[int, ...]


class EagerSampler:
    """Records the eager ops that run between `start` and `stop`.

    Args:
        layers: tells the layer being called.
        tracer: makes the notes on products, and takes this object as its `sampler`.
        gaps: takes what this TensorFlow lacks.
        done: called with this object at the end.

    Attributes:
        flow: how the tensors were made.
        products: those so far; their passes are known at the end.
        paused: nothing is recorded for now.
    """

    def __init__(self, layers: LayerHooks, tracer: Any, gaps: Any, done: Callable[["EagerSampler"], object]) -> None:
        self._layers = layers
        self._tracer = tracer
        self._gaps = gaps
        self._done = done
        self.flow = Flow()
        self.products: List[FlowOp] = []
        self.paused = False
        self._takers: Dict[FlowTensor, List[FlowOp]] = {}
        self._weights: Dict[FlowOp, Set[Size]] = {}  # sizes, of the layer around a product
        self._watched: Set[Size] = set()  # sizes of the variables that tapes saw read
        self._on = False

    def start(self) -> None:
        """Record from now on."""
        with Guard(self._gaps, "eager op callbacks"):
            from tensorflow.python.framework import op_callbacks

            op_callbacks.add_op_callback(self._callback)
            self._on = self._layers.sampling = True
            self._tracer.sampler = self

    def stop(self) -> None:
        """Record no more, and hand on what was."""
        if not self._on:
            return
        with Guard(self._gaps, "eager op callbacks"):
            from tensorflow.python.framework import op_callbacks

            self._on = self._layers.sampling = False
            self._tracer.sampler = None
            op_callbacks.remove_op_callback(self._callback)
            self._tell_passes()
            self._done(self)
        self._takers, self._weights = {}, {}

    def watch(self, variables: Sequence[Any]) -> None:
        """Note variables that a tape saw read."""
        self._watched |= _sizes(variables)

    def enter(self, op_type: str, op: Any) -> Gradient:
        """Return the gradient context of a forward op, which a tape describes by the inputs that its gradient needs."""
        wanted = self.flow.tensors(list(op.inputs))
        takers = [taker for t in wanted if t is not None for taker in reversed(self._takers.get(t, []))]
        alike = [taker for taker in takers if taker.type == op_type and len(taker.inputs) == len(wanted)]
        # A tape makes anew what was no tensor when it was given, as the sizes of a transposed convolution.
        best = max(alike, key=lambda taker: sum(a is b for a, b in zip(wanted, taker.inputs)), default=None)
        if best is None or best.note is None:
            return Gradient(None, None)
        return Gradient(lambda: best, best.note.layer)

    def taken(self, sources: Sequence[Any], results: Sequence[Any]) -> None:
        """Take in the gradients of variables, which tell what products read them: some versions do that unseen."""
        for source, result in zip(sources, results):
            if getattr(source, "dtype", None) == "resource" and hasattr(result, "_id"):
                self._mark_reads(self.flow.tensor(result))

    def _mark_reads(self, gradient: FlowTensor) -> None:
        """Mark the operands whose gradients add up to a variable's, where nothing recorded made them."""
        level, seen = [gradient.op], {gradient.op}
        for _ in range(FARTHEST_PRODUCT):
            for op in level:
                note = op.note
                forward = note.forward_op() if note is not None else None
                if note is not None and forward is not None and note.wrt is not None:
                    operand = _carried(forward.inputs[note.wrt])
                    if operand.op.type == "Placeholder" and operand.shape == gradient.shape:
                        operand.op.type = "ReadVariableOp"
            level = list(dict.fromkeys(t.op for op in level if op.type in SUMS for t in op.inputs if t.op not in seen))
            seen.update(level)

    def _callback(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,  # noqa: ARG002
        graph: Any = None,
    ) -> None:
        if graph is not None or self.paused:
            return
        with Guard(self._gaps, "eager op callbacks"):
            name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            op = self.flow.ran(name, inputs, attrs or (), outputs or ())
            if name in GEMM_TYPES and len(self.products) < MOST_PRODUCTS:
                self._take(op)

    def _take(self, op: FlowOp) -> None:
        op.note = note = self._tracer.noted(op.name)
        layer, forward = note.layer, note.forward_op()
        line = running_line(4) if forward is None else forward.record["called_from"]
        name = "%s/%s" % (layer.path, op.type) if layer else op.type
        executed = Match("yes", op.type, op.type)
        op.record = op_record(op, name, note, executed, line)
        self.products.append(op)
        around = layer.owner() if layer is not None and layer.owner is not None else None
        if forward is None and around is not None:
            self._weights[op] = _sizes(around.weights)
        for tensor in dict.fromkeys(op.inputs):
            self._takers.setdefault(tensor, []).append(op)

    def _tell_passes(self) -> None:
        for forward in dict.fromkeys(op.note.forward_op() for op in self.products if op.note is not None):
            if forward is not None:
                _mark_weight(forward, self._weights.get(forward, self._watched))
        passes = GraphPasses({}, lambda op: op.note)
        for op in self.products:
            tell_pass(op.record, passes.of(op.note))


def _mark_weight(op: FlowOp, sizes: Set[Size]) -> None:
    """Mark the operand that has the size of a variable, where no gradient told what the product reads."""
    made = [_carried(operand) for operand in reversed(op.inputs)]  # the weights mostly stand behind the data
    if any(tensor.op.type in VARIABLES for tensor in made):
        return
    weight = next((t for t in made if t.op.type == "Placeholder" and tuple(t.shape) in sizes), None)
    if weight is not None:
        weight.op.type = "ReadVariableOp"


def _sizes(variables: Sequence[Any]) -> Set[Size]:
    """Return the sizes of variables; one may be declared without (`shape=tf.TensorShape(None)`)."""
    return {tuple(variable.shape) for variable in variables if getattr(variable.shape, "rank", 0) is not None}


def _carried(tensor: FlowTensor) -> FlowTensor:
    """Return the tensor before all casts and reshapes of another."""
    while tensor.op.type in CARRIERS and tensor.op.inputs:
        tensor = tensor.op.inputs[0]
    return tensor
