"""Records the products of one eager step as they execute, with the shapes that they have."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Type

from ...core.gaps import Guard
from ...core.lines import running_line
from ..layers import CalledLayer, LayerHooks
from .flow import Flow, FlowOp, FlowTensor
from .notes import Gradient, OpNote
from .passes import CARRIERS, GraphPasses, is_weight
from .records import ATTRIBUTES, Record, attributes, with_form
from .shapes import shape_list
from .types import GEMM_TYPES

MOST_OPS = 5000


class EagerOp(NamedTuple):
    """One product that ran: how it was made, and its record of graph.json."""

    op: FlowOp
    record: Record


class EagerSample(NamedTuple):
    """One eager step: its products, and how the tensors of it were made."""

    products: List[EagerOp]
    flow: Flow


class EagerSampler:
    """Context manager that records the eager ops run inside it.

    Args:
        layers: tells the layer being called.
        tracer: makes the notes on products, and takes this object as its `sampler`.
        gaps: takes what this TensorFlow lacks.
        done: called with the step at the end.
    """

    def __init__(self, layers: LayerHooks, tracer: Any, gaps: Any, done: Callable[[EagerSample], None]) -> None:
        self._layers = layers
        self._tracer = tracer
        self._gaps = gaps
        self._done = done
        self._flow = Flow()
        self._ops: List[EagerOp] = []
        self._names: "Counter[str]" = Counter()
        self._takers: Dict[FlowTensor, List[FlowOp]] = {}
        self._on = False

    def __enter__(self) -> None:
        with Guard(self._gaps, "eager op callbacks"):
            from tensorflow.python.framework import op_callbacks

            op_callbacks.add_op_callback(self._callback)
            self._on = self._layers.sampling = True
            self._tracer.sampler = self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if not self._on:
            return
        with Guard(self._gaps, "eager op callbacks"):
            from tensorflow.python.framework import op_callbacks

            self._on = self._layers.sampling = False
            self._tracer.sampler = None
            op_callbacks.remove_op_callback(self._callback)
            self._tell_passes()
            self._done(EagerSample(self._ops, self._flow))
        self._takers = {}

    def enter(self, op_type: str, op: Any) -> Gradient:
        """Return the gradient context of a forward op, which a tape describes by the inputs that its gradient needs."""
        wanted = self._flow.tensors(list(op.inputs))
        known = next((t for t in wanted if t is not None), None)
        for taker in reversed(self._takers.get(known, [])) if known is not None else ():
            same = len(taker.inputs) == len(wanted) and all(w in (None, t) for w, t in zip(wanted, taker.inputs))
            if taker.type == op_type and taker.note is not None and same:
                return Gradient(lambda: taker, taker.note.layer)
        return Gradient(None, None)

    def tensors(self, value: Any) -> List[Any]:
        """Return what is known of the tensors in a list."""
        return self._flow.tensors(value)

    def _callback(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,  # noqa: ARG002
        graph: Any = None,
    ) -> None:
        if graph is not None:
            return
        with Guard(self._gaps, "eager op callbacks"):
            name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            op = self._flow.ran(name, inputs, attrs or (), outputs or ())
            if name in GEMM_TYPES and len(self._ops) < MOST_OPS:
                self._take(op, inputs, outputs)

    def _take(self, op: FlowOp, inputs: Any, outputs: Any) -> None:
        op.note = note = self._tracer.noted(op.name)
        if note.forward is None and note.layer is not None:
            _mark_weights(op, note.layer)
        record = _record(op, inputs, outputs, note)
        name = record["op"]
        self._names[name] += 1
        if self._names[name] > 1:
            record["op"] = "%s_%d" % (name, self._names[name] - 1)
        self._ops.append(EagerOp(op, record))
        for tensor in dict.fromkeys(op.inputs):
            self._takers.setdefault(tensor, []).append(op)

    def _tell_passes(self) -> None:
        passes = GraphPasses((), lambda op: op.note)
        for op, record in self._ops:
            record["pass"] = passes.of(op.note)
            record["attributes"] = with_form(record["attributes"], record["pass"], passes.form(op.note))


def _mark_weights(op: FlowOp, layer: CalledLayer) -> None:
    """Mark what a layer read past the callbacks, as Keras 2 does, as a variable; the shapes of its weights tell."""
    owner = layer.owner() if layer.owner is not None else None
    shapes = [tuple(w.shape) for w in getattr(owner, "weights", ())]
    for tensor in op.inputs[1:]:
        if tuple(tensor.shape) in shapes and not is_weight(tensor, ({},)):
            made = _carried(tensor)
            made.type = "ReadVariableOp" if made.type == "Placeholder" else made.type


def _carried(tensor: FlowTensor) -> FlowOp:
    """Return the op before all casts and reshapes of a tensor."""
    op = tensor.op
    while op.type in CARRIERS and op.inputs:
        op = op.inputs[0].op
    return op


def _record(op: FlowOp, inputs: Sequence[Any], outputs: Sequence[Any], note: OpNote) -> Record:
    layer, op_type = note.layer, op.type
    sizes, results = [shape_list(t) for t in inputs], [shape_list(t) for t in outputs]
    return {
        "op": "%s/%s" % (layer.path, op_type) if layer else op_type,
        "op_type": op_type,
        "executed_op": op_type,
        "executed_type": op_type,
        "executes": "yes",
        "pass": "other",
        "layer": layer.path if layer else None,
        "layer_class": layer.layer_class if layer else None,
        "input_shapes": sizes,
        "input_dtypes": [t.dtype.base_dtype.name for t in inputs],
        "output_shapes": results,
        "output_dtypes": [t.dtype.base_dtype.name for t in outputs],
        "attributes": attributes(op_type, op.get_attr, ATTRIBUTES, sizes, results),
        "calls_per_step": 1.0,
        "source": layer.source if layer else None,
        "called_from": running_line(5),
        "alias_of": [],
    }
