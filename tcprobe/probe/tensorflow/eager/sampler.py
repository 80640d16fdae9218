"""Records the products of one eager step as they execute, with the shapes that they have."""

from __future__ import annotations

from threading import get_ident
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ...core.gaps import Guard
from ...core.lines import running_line
from ..graph.called import GEMM_TYPES
from ..graph.execute import Match
from ..graph.passes import CARRIERS, VARIABLES, Gradient, GraphPasses, OpNote, taker
from ..graph.records import op_record
from ..hooks.layers import LayerHooks

MOST_PRODUCTS = 20000
MOST_OPS = 100000  # of one step; what is made after them is taken for data
Size = Tuple[int, ...]


class FlowOp:
    """One op that ran, with those attributes of a tf.Operation that searches ask for.

    Attributes:
        type: of the op; ``Placeholder`` stands for a tensor that nothing recorded made, ``Const`` for a number.
        name: of its own in the step.
        inputs, outputs: its tensors.
        graph: the flow.
        note: what was known as it ran, of products only.
        record: of a product, in graph.json.
    """

    __slots__ = ("_attributes", "graph", "inputs", "name", "note", "outputs", "record", "type")

    def __init__(self, graph: "Flow", op_type: str, name: str, inputs: List[Any], attributes: Sequence[Any]) -> None:
        self.graph = graph
        self.type = op_type
        self.name = name
        self.inputs = inputs
        self.outputs: List[Any] = []
        self.note: Optional[OpNote] = None
        self.record: Dict[str, Any] = {}
        self._attributes = attributes

    @property
    def op_def(self) -> Any:
        """TensorFlow's definition of the op's type, None for one that it does not know."""
        from tensorflow.python.framework import op_def_registry

        return op_def_registry.get(self.type)

    def get_attr(self, name: str) -> Any:
        """Return an attribute's value, None where it was not given."""
        given = {text_of(key): value for key, value in zip(self._attributes[::2], self._attributes[1::2])}
        return given.get(name)


class FlowTensor:
    """One tensor that an op made, without its values; `takers` are the products that take it."""

    __slots__ = ("dtype", "graph", "name", "op", "shape", "takers", "value_index")

    def __init__(self, op: FlowOp, value_index: int, tensor: Any) -> None:
        self.op = op
        self.graph = op.graph
        self.name = "%s:%d" % (op.name, value_index)
        self.value_index = value_index
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.takers: List[FlowOp] = []

    def consumers(self) -> List[FlowOp]:
        """Return the products that take it."""
        return self.takers


class Flow:
    """The ops of one eager step."""

    def __init__(self) -> None:
        self._made: Dict[int, FlowTensor] = {}
        self._count = 0

    def ran(self, op_type: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: Sequence[Any]) -> FlowOp:
        """Take in one op."""
        op = self._op(op_type, [self.tensor(t) for t in inputs], attributes, outputs)
        if self._count < MOST_OPS:
            self._made.update((tensor._id, made) for tensor, made in zip(outputs, op.outputs))
        return op

    def tensor(self, tensor: Any) -> FlowTensor:
        """Return what is known of an eager tensor."""
        known = self._made.get(tensor._id)
        if known is None:
            # A number is a factor of the script's, as no sample is.
            op = self._op("Placeholder" if tensor.shape.rank else "Const", [], (), [tensor])
            known = self._made[tensor._id] = op.outputs[0]
        return known

    def tensors(self, value: Any) -> List[Any]:
        """Return the same of everything in a list that is an eager tensor, None for all else."""
        listed = list(value) if isinstance(value, (list, tuple)) else [value]
        return [self.tensor(t) if hasattr(t, "_id") and hasattr(t, "dtype") else None for t in listed]

    def _op(self, op_type: str, inputs: List[Any], attributes: Sequence[Any], outputs: Sequence[Any]) -> FlowOp:
        self._count += 1
        op = FlowOp(self, op_type, "%s_%d" % (op_type, self._count), inputs, attributes)
        op.outputs = [FlowTensor(op, index, tensor) for index, tensor in enumerate(outputs)]
        return op


def text_of(value: Any) -> str:
    """Return a name, which some versions of TensorFlow give as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


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
        self._weights: Dict[FlowOp, Set[Size]] = {}  # sizes, of the layer around a product
        self._watched: Set[Size] = set()  # sizes of the variables that tapes saw read
        self._on = False
        self._thread = 0

    def start(self) -> None:
        """Record from now on."""
        with Guard(self._gaps, "eager op callbacks"):
            from tensorflow.python.framework import op_callbacks

            op_callbacks.add_op_callback(self._callback)
            self._thread = get_ident()
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
            if get_ident() == self._thread:  # each thread has callbacks of its own
                op_callbacks.remove_op_callback(self._callback)
            self._tell_passes()
            self._done(self)
        self._weights = {}

    def watch(self, variables: Sequence[Any]) -> None:
        """Note variables that a tape saw read."""
        self._watched |= _sizes(variables)

    def enter(self, op_type: str, op: Any) -> Gradient:
        """Return the gradient context of a forward op, which a tape describes by the inputs that its gradient needs."""
        forward = taker(op_type, self.flow.tensors(list(op.inputs)))
        return Gradient(None, None) if forward is None else Gradient(lambda: forward, forward.note.layer)

    def _callback(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,  # noqa: ARG002
        graph: Any = None,
    ) -> None:
        if graph is not None or self.paused or not self._on:
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
        op.record["gradient_of"] = None if forward is None else forward.record  # its name is told with the others
        self.products.append(op)
        around = layer.owner() if layer is not None and layer.owner is not None else None
        if forward is None and around is not None:
            self._weights[op] = _sizes(around.weights)
        for tensor in dict.fromkeys(op.inputs):
            tensor.takers.append(op)

    def _tell_passes(self) -> None:
        for forward in dict.fromkeys(op.note.forward_op() for op in self.products if op.note is not None):
            if forward is not None:
                _mark_weight(forward, self._weights.get(forward, self._watched))
        passes = GraphPasses({}, lambda op: op.note)
        for op in self.products:
            passes.tell(op.record, op.note)


def _mark_weight(op: FlowOp, sizes: Set[Size]) -> None:
    """Mark the operand that has the size of a variable: what a product reads itself, no callback tells."""
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
