"""Infers the shapes that a partial last batch left unknown, from the optimised graph and the usual batch size."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..fits import Fit

GraphShape = Optional[List[Optional[int]]]
ARGUMENT_OPS = frozenset(("_Arg", "_DeviceArg"))
RESULTS = frozenset(("_Retval", "_DeviceRetval"))
ITERATORS = frozenset(("IteratorGetNext", "IteratorGetNextSync", "MultiDeviceIteratorGetNextFromShard"))
ANNOTATIONS = ("_output_shapes", "_handle_shapes", "_handle_dtypes", "_user_specified_name")
DATASETS_DEEP = 24


class CallSizes(NamedTuple):
    """The sizes that a function was first called with.

    Attributes:
        batch: leading dimension of what its iterator or dataset delivers to one replica, None where unknown.
        arguments: shapes of the tensors among its arguments, in order.
    """

    batch: Optional[int]
    arguments: Tuple[GraphShape, ...]


class OpShapes(NamedTuple):
    """Input and output shapes of one op."""

    inputs: List[GraphShape]
    outputs: List[GraphShape]


def shape_list(tensor: Any) -> GraphShape:
    """Return a tensor's shape as a list with None for unknown sizes; None for an unknown rank."""
    shape = tensor.shape
    return None if shape.rank is None else [None if d is None else int(d) for d in shape.as_list()]


def sizes_of_call(tf: Any, arguments: Any, fit: Optional[Fit]) -> CallSizes:
    """Return the sizes of a call's `arguments`, and of the batches that the `fit` around it or a dataset makes."""
    batch = None if fit is None else batch_of_fit(fit)
    flat = tf.nest.flatten(arguments)
    for item in [] if batch else flat:
        batch = batch or batch_of_dataset(getattr(item, "_dataset", item))
    tensors = tuple(_value_shape(v) for v in flat if hasattr(v, "shape") and hasattr(v, "dtype"))
    return CallSizes(_per_replica(tf, batch), tensors)


def _value_shape(value: Any) -> GraphShape:
    return [None if d is None else int(d) for d in value.shape] if getattr(value.shape, "rank", 0) is not None else None


def _per_replica(tf: Any, batch: Optional[int]) -> Optional[int]:
    replicas = int(tf.distribute.get_strategy().num_replicas_in_sync)
    return None if not batch or batch % replicas else batch // replicas


def batch_of_fit(fit: Fit) -> Optional[int]:
    """Return the batch size that a running `fit` of Keras 2 or 3 uses."""
    holder = fit.batches
    adapter = getattr(holder, "data_adapter", None) or getattr(holder, "_adapter", None)
    size = getattr(adapter, "batch_size", None)
    size = size() if callable(size) else size
    for dataset in (getattr(adapter, "_dataset", None), getattr(holder, "_dataset", None)):
        size = size or batch_of_dataset(dataset)
    return int(size) if size else None


def batch_of_dataset(dataset: Any, depth: int = 0) -> Optional[int]:
    """Return the batch size of a tf.data pipeline: that of the last batching before what it delivers."""
    size = getattr(dataset, "_batch_size", None)
    if size is not None:
        return int(size.numpy() if hasattr(size, "numpy") else size)
    inputs = getattr(dataset, "_inputs", None)
    for before in inputs() if callable(inputs) and depth < DATASETS_DEEP else ():
        found = batch_of_dataset(before, depth + 1)
        if found:
            return found
    return None


def merged_shape(known: GraphShape, inferred: GraphShape) -> GraphShape:
    """Fill the unknown sizes of `known` from `inferred`; where the two disagree, `known` stands."""
    if known is None or inferred is None:
        return inferred if known is None else known
    if len(known) != len(inferred) or any(a is not None and b is not None and a != b for a, b in zip(known, inferred)):
        return known
    return [b if a is None else a for a, b in zip(known, inferred)]


def has_unknown(shapes: Sequence[GraphShape]) -> bool:
    """Return whether a size or a rank among `shapes` is unknown."""
    return any(shape is None or None in shape for shape in shapes)


def infer(tf: Any, graph_def: Any, sizes: CallSizes, wanted: Callable[[str], bool]) -> Dict[str, OpShapes]:
    """Import an optimised graph with the sizes filled in, and return the shapes of ops whose type is `wanted`.

    Raises:
        ValueError: TensorFlow cannot import the graph with these sizes.
    """
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    _free_variables(copy)
    for node in copy.node:
        _make_importable(node, sizes)
    scratch = tf.Graph()
    with scratch.as_default():
        tf.import_graph_def(copy, name="")
    return {
        op.name: OpShapes([shape_list(t) for t in op.inputs], [shape_list(t) for t in op.outputs])
        for op in scratch.get_operations()
        if wanted(op.type)
    }


def _free_variables(graph_def: Any) -> None:
    """Turn reads of variables into placeholders of the shapes that TensorFlow noted on their handles."""
    handles = {
        node.name: node.attr["_handle_shapes"].list.shape[0]
        for node in graph_def.node
        if node.op in ARGUMENT_OPS and node.attr["_handle_shapes"].list.shape
    }
    for node in graph_def.node:
        source = node.input[0].split(":")[0] if node.op == "ReadVariableOp" else ""
        if source in handles:
            _to_placeholder(node, node.attr["dtype"].type, handles[source])


def _to_placeholder(node: Any, dtype: int, shape: Any) -> None:
    node.op = "Placeholder"
    del node.input[:]
    for name in list(node.attr):
        del node.attr[name]
    node.attr["dtype"].type = dtype
    if shape is not None:
        node.attr["shape"].shape.CopyFrom(shape)


def _make_importable(node: Any, sizes: CallSizes) -> None:
    node.ClearField("device")
    if node.op in ARGUMENT_OPS:
        _fill_argument(node, sizes.arguments)
    elif node.op in RESULTS:
        node.op = "Identity"
        for name in [name for name in node.attr if name != "T"]:
            del node.attr[name]
    elif node.op in ITERATORS and sizes.batch:
        for shape in node.attr["output_shapes"].list.shape:
            if shape.dim and shape.dim[0].size == -1:
                shape.dim[0].size = sizes.batch
    for name in ANNOTATIONS:
        if name in node.attr:
            del node.attr[name]


def _fill_argument(node: Any, arguments: Sequence[GraphShape]) -> None:
    """Give an argument the sizes that it had in the first call."""
    noted, index = node.attr["_output_shapes"].list.shape, node.attr["index"].i
    first = arguments[index] if index < len(arguments) else None
    shape = noted[0] if noted else None
    if shape is not None and not shape.unknown_rank and first is not None and len(first) == len(shape.dim):
        for dim, size in zip(shape.dim, first):
            dim.size = size if dim.size == -1 and size is not None else dim.size
    _to_placeholder(node, node.attr["T"].type, shape)


def first_arguments(root: Any, called: Sequence[GraphShape]) -> Tuple[GraphShape, ...]:
    """Return the shapes of a traced function's inputs, unknown sizes filled from what it was called with.

    The arguments stand before the captured tensors in a FuncGraph's inputs.
    """
    traced = [shape_list(t) for t in root.inputs]
    return tuple(merged_shape(s, called[i]) if i < len(called) else s for i, s in enumerate(traced))
