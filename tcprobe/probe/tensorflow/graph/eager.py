"""Records the products of one eager step as they execute, with the shapes that they have."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from ...core.gaps import Guard
from ...core.lines import running_line
from ..layers import CalledLayer, LayerHooks
from .records import Record, attributes
from .shapes import shape_list
from .types import GEMM_TYPES

EAGER_CARRIERS = frozenset(("Cast", "Identity", "Reshape", "Transpose", "ExpandDims", "Squeeze", "StopGradient"))
MOST_OPS = 5000


class EagerOp:
    """One product that ran.

    Attributes:
        record: its record of graph.json, complete but for the pass of a gradient.
        layer: the layer being called, or that of the forward op.
        weights: for each input, whether it is a weight.
    """

    def __init__(self, record: Record, layer: Optional[CalledLayer], weights: Sequence[bool]) -> None:
        self.record = record
        self.layer = layer
        self.weights = weights


class EagerGradient:
    """A gradient function that is running outside any graph."""

    def __init__(self, forward: Optional[EagerOp]) -> None:
        self.forward = forward
        self.layer = forward.layer if forward else None
        self.made: List[Tuple[EagerOp, Sequence[Any]]] = []

    def finish(self, results: Any) -> None:
        """Set the pass of the products whose outputs the gradient function returned, or led to what it returned."""
        listed = list(results) if isinstance(results, (list, tuple)) else [results]
        weights = self.forward.weights if self.forward else ()
        for position, (op, outputs) in enumerate(self.made):
            found = [i for i, r in enumerate(listed) if r is not None and any(r is o for o in outputs)]
            wanted = [i for i, r in enumerate(listed) if r is not None]
            if not found and len(wanted) == len(self.made):  # summed or reshaped afterwards, one product each
                found = wanted[position : position + 1]
            if found and found[0] < len(weights):
                op.record["pass"] = "wgrad" if weights[found[0]] else "dgrad"


class EagerSampler:
    """Context manager that records the eager ops run inside it.

    Args:
        layers: tells the layer being called.
        tracer: has `gradient()` for the gradient function that runs, and takes this object as its `sampler`.
        gaps: takes what this TensorFlow lacks.
        done: called with the records at the end.
    """

    def __init__(self, layers: LayerHooks, tracer: Any, gaps: Any, done: Any) -> None:
        self._layers = layers
        self._tracer = tracer
        self._gaps = gaps
        self._done = done
        self._ops: List[EagerOp] = []
        self._names: "Counter[str]" = Counter()
        self._forward: Dict[Tuple[Any, ...], EagerOp] = {}
        self._weights: Dict[int, Any] = {}
        self._alive: List[Any] = []  # ids of tensors stay unique only while the tensors live
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
            self._done([op.record for op in self._ops])
        self._alive, self._weights, self._forward = [], {}, {}

    def enter(self, op_type: str, op: Any) -> EagerGradient:
        """Return the gradient context of a forward op, which a tape describes by its inputs."""
        return EagerGradient(self._forward.get(_identity(op_type, op.inputs)))

    def _callback(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,  # noqa: ARG002
        graph: Any = None,
    ) -> None:
        if graph is not None or len(self._ops) >= MOST_OPS:
            return
        with Guard(self._gaps, "eager op callbacks"):
            name = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
            if name in GEMM_TYPES:
                self._take(name, inputs, attrs, outputs)
            elif name == "ReadVariableOp" or (name in EAGER_CARRIERS and id(inputs[0]) in self._weights):
                self._weights.update((id(t), t) for t in outputs)

    def _take(self, op_type: str, inputs: Any, attrs: Any, outputs: Any) -> None:
        gradient = self._tracer.gradient()
        inside = isinstance(gradient, EagerGradient)
        layer = gradient.layer if inside else self._layers.current()
        record = _record(op_type, inputs, attrs, outputs, layer, "other" if inside else "forward")
        name = record["op"]
        self._names[name] += 1
        if self._names[name] > 1:
            record["op"] = "%s_%d" % (name, self._names[name] - 1)
        op = EagerOp(record, layer, [self._is_weight(t, i, layer) for i, t in enumerate(inputs)])
        self._ops.append(op)
        self._alive.append((inputs, outputs))
        if inside:
            gradient.made.append((op, outputs))
        self._forward[_identity(op_type, inputs)] = op

    def _is_weight(self, tensor: Any, index: int, layer: Optional[CalledLayer]) -> bool:
        """Tell weights by their reads; Keras 2 reads past the callbacks, so there by the shapes of the layer's own."""
        if id(tensor) in self._weights:
            return True
        owner = layer.owner() if layer is not None and layer.owner is not None else None
        shapes = [tuple(w.shape) for w in getattr(owner, "weights", ())]
        return index > 0 and tuple(tensor.shape) in shapes


def _identity(op_type: str, inputs: Sequence[Any]) -> Tuple[Any, ...]:
    return (op_type, *(id(t) for t in inputs))


def _record(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Sequence[Any],
    outputs: Sequence[Any],
    layer: Optional[CalledLayer],
    pass_: str,
) -> Record:
    values = {_text(k): v for k, v in zip(attrs[::2], attrs[1::2])} if attrs else {}
    sizes, results = [shape_list(t) for t in inputs], [shape_list(t) for t in outputs]
    return {
        "op": "%s/%s" % (layer.path, op_type) if layer else op_type,
        "op_type": op_type,
        "executed_op": op_type,
        "executed_type": op_type,
        "executes": "yes",
        "pass": pass_,
        "layer": layer.path if layer else None,
        "layer_class": layer.layer_class if layer else None,
        "input_shapes": sizes,
        "input_dtypes": [t.dtype.base_dtype.name for t in inputs],
        "output_shapes": results,
        "output_dtypes": [t.dtype.base_dtype.name for t in outputs],
        "attributes": attributes(op_type, values.get, list(values), sizes, results),
        "calls_per_step": 1.0,
        "source": layer.source if layer else None,
        "called_from": running_line(4),
        "alias_of": [],
    }


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
