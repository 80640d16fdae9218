"""Remembers how the tensors of an eager step were made, in the shape of a graph: what searches graphs searches it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..graph.notes import OpNote

MOST_OPS = 100000  # of one step; what is made after them is taken for data


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
        given = {_text(key): value for key, value in zip(self._attributes[::2], self._attributes[1::2])}
        return given.get(name)


class FlowTensor:
    """One tensor that an op made, without its values."""

    __slots__ = ("dtype", "graph", "name", "op", "shape", "value_index")

    def __init__(self, op: FlowOp, value_index: int, tensor: Any) -> None:
        self.op = op
        self.graph = op.graph
        self.name = "%s:%d" % (op.name, value_index)
        self.value_index = value_index
        self.shape = tensor.shape
        self.dtype = tensor.dtype


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


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
