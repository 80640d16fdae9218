"""Infers the shapes that a partial last batch left unknown, from the optimised graph and the usual batch size."""

from __future__ import annotations

import inspect
from typing import Any, Container, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..hooks.fits import Datasets, Fit
from .called import called_functions, is_gemm

GraphShape = Optional[List[Optional[int]]]
ARGUMENT_OPS = frozenset(("_Arg", "_DeviceArg"))
RESULTS = frozenset(("_Retval", "_DeviceRetval"))
ITERATORS = frozenset(
    (
        "IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional OptionalGetValue"
        " MultiDeviceIteratorGetNextFromShard"
    ).split()
)
# Datasets that deliver the elements of the one before; behind those that map them the batch stays.
SAME_ELEMENTS = frozenset("Prefetch Options Shuffle Repeat Take Skip Cache Model V1Adapter".split())
SAME_BATCH = SAME_ELEMENTS | frozenset("Map ParallelMap Filter".split())
# Datasets whose elements are put together anew: how large they are, those before do not tell.
NEW_ELEMENTS = frozenset("GroupByWindow Unbatch FlatMap Interleave ParallelInterleave Window Rebatch".split())
# `_class` names nodes that lie on the same device, and may name one that is left out.
ANNOTATIONS = ("_output_shapes", "_handle_shapes", "_handle_dtypes", "_user_specified_name", "_class")


class CallSizes(NamedTuple):
    """The sizes that a function was first called with.

    Attributes:
        batch: leading dimension of what its iterator or dataset delivers to one replica, None where unknown.
        arguments: shapes of the tensors among its arguments, in order.
        element: shapes of what the iterator delivers, where they are known; else empty.
        replicas: copies of the model that share the batch.
    """

    batch: Optional[int]
    arguments: Tuple[GraphShape, ...]
    element: Tuple[GraphShape, ...] = ()
    replicas: int = 1


class OpShapes(NamedTuple):
    """Input and output shapes of one op."""

    inputs: List[GraphShape]
    outputs: List[GraphShape]


def shape_list(value: Any) -> GraphShape:
    """Return the shape of a tensor or array as a list with None for unknown sizes; None for an unknown rank."""
    shape = value.shape
    if getattr(shape, "rank", 0) is None:
        return None
    return [None if d is None else int(d) for d in (shape.as_list() if hasattr(shape, "as_list") else shape)]


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


def is_open(op: Any) -> bool:
    """Return whether the trace leaves a shape of an op open."""
    return has_unknown([shape_list(tensor) for tensor in (*op.inputs, *op.outputs)])


# --- sizes of a call -------------------------------------------------------------------------------------


def sizes_of_call(tf: Any, datasets: Datasets, arguments: Any, fit: Optional[Fit], graph: Any) -> CallSizes:
    """Return the sizes of a call that is over.

    Args:
        tf: TensorFlow.
        datasets: knows the script's datasets.
        arguments: of the call, in the order of the function's parameters.
        fit: the `fit` around it.
        graph: what was traced; it may capture the datasets that it loops over.
    """
    given = tf.nest.flatten(arguments)
    found = [] if fit is None else datasets_of_fit(fit)
    if not found:
        taken = [*given, *(datasets.of_tensor(pair[0]) for pair in graph.captures)]
        found = [one for one in (getattr(item, "_dataset", item) for item in taken) if _is_dataset(one)]
    batches = {batch_of_dataset(dataset, datasets) for dataset in found} - {None}
    batch = (None if fit is None else batch_of_fit(fit)) or (batches.pop() if len(batches) == 1 else None)
    elements = [element for element in (element_of_dataset(dataset, datasets) for dataset in found) if element]
    tensors = tf.nest.flatten(arguments, expand_composites=True)
    shapes = tuple(shape_list(v) for v in tensors if hasattr(v, "shape") and hasattr(v, "dtype"))
    replicas = _replicas(tf, given) if fit is None else fit.replicas
    one = None if not batch or batch % replicas else batch // replicas
    alike = replicas == 1 and all(element == elements[0] for element in elements)
    return CallSizes(one, shapes, elements[0] if elements and alike else (), replicas)


def first_arguments(root: Any, called: Sequence[GraphShape]) -> Tuple[GraphShape, ...]:
    """Return the shapes of a traced function's inputs, unknown sizes filled from what it was called with.

    The arguments stand before the captured tensors in a FuncGraph's inputs.
    """
    traced = [shape_list(t) for t in root.inputs]
    return tuple(merged_shape(s, called[i]) if i < len(called) else s for i, s in enumerate(traced))


def ordered(function: Any, args: Sequence[Any], kwds: Dict[str, Any]) -> List[Any]:
    """Return a call's arguments in the order of the function's parameters, which is that of its graph's inputs."""
    if not kwds:
        return list(args)
    call = inspect.signature(function.python_function).bind(*args, **kwds)
    return [*call.args, *(call.kwargs[name] for name in sorted(call.kwargs))]


def _replicas(tf: Any, given: Sequence[Any]) -> int:
    """Return the copies of the model that share a step, by the strategy around it or the values given to it."""
    values = [len(item._values) for item in given if type(item).__name__ == "PerReplica"]
    return max(int(tf.distribute.get_strategy().num_replicas_in_sync), *values, 1)


def batch_of_fit(fit: Fit) -> Optional[int]:
    """Return the batch size that a running `fit` of Keras 2 or 3 uses."""
    adapter = adapter_of(fit)
    for name in ("batch_size", "representative_batch_size"):
        size = getattr(adapter, name, None)
        size = size() if callable(size) else size
        if size:
            return int(size)
    sizes = (batch_of_dataset(dataset) for dataset in datasets_of_fit(fit))
    return next((size for size in sizes if size), None)


def adapter_of(fit: Fit) -> Any:
    """Return what of Keras turns what a running `fit` was given into batches."""
    return getattr(fit.batches, "data_adapter", None) or getattr(fit.batches, "_adapter", None)


def datasets_of_fit(fit: Fit) -> List[Any]:
    """Return the datasets that a running `fit` takes its batches from."""
    found = (getattr(adapter_of(fit), "_dataset", None), getattr(fit.batches, "_dataset", None))
    return [dataset for dataset in found if dataset is not None]


def batch_of_dataset(dataset: Any, datasets: Optional[Datasets] = None) -> Optional[int]:
    """Return the batch size of a tf.data pipeline: that of the last batching before what it delivers.

    Where a generator yields whole batches, `datasets` knows how large its first was.
    """
    size = getattr(dataset, "_batch_size", None)
    if size is not None:
        return int(size)
    first = element_of_dataset(dataset, datasets, SAME_BATCH) if datasets is not None else ()
    if first:
        return first[0][0] if first[0] else None
    if kind_of_dataset(dataset) in NEW_ELEMENTS:
        return None
    sizes = (batch_of_dataset(before, datasets) for before in datasets_before(dataset))
    return next((size for size in sizes if size), None)


def element_of_dataset(
    dataset: Any, datasets: Datasets, through: Container[str] = SAME_ELEMENTS
) -> Tuple[GraphShape, ...]:
    """Return the shapes of the first element of a generator, with only datasets of `through` behind it; else none."""
    while True:
        shapes = datasets.first(dataset)
        if shapes is not None:
            return tuple(list(shape) for shape in shapes)
        before = datasets_before(dataset)
        if len(before) != 1 or kind_of_dataset(dataset) not in through:
            return ()
        dataset = before[0]


def kind_of_dataset(dataset: Any) -> str:
    """Return the name of a dataset's class without what all of them have in common."""
    return type(dataset).__name__.strip("_").replace("Dataset", "")


def datasets_before(dataset: Any) -> List[Any]:
    """Return the datasets that a dataset takes its elements from."""
    return list(dataset._inputs()) if _is_dataset(dataset) else []


def _is_dataset(value: Any) -> bool:
    return callable(getattr(value, "_inputs", None))  # a model of Keras 3 has a list of this name


# --- inference -------------------------------------------------------------------------------------------


def infer(tf: Any, graph_def: Any, sizes: CallSizes) -> Dict[str, OpShapes]:
    """Import an optimised graph with the sizes filled in, and return the shapes of its products.

    Raises:
        ValueError: TensorFlow cannot import the graph with these sizes.
    """
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    noted = {n.name: n.attr["_handle_shapes"].list.shape for n in copy.node if n.op in ARGUMENT_OPS}
    _free_variables(copy, {name: shapes[0] for name, shapes in noted.items() if shapes})
    _drop_empty_batches(copy)
    for node in copy.node:
        if node.op in ARGUMENT_OPS:
            _fill_argument(node, sizes.arguments)
        elif node.op in RESULTS:
            _become(node, "Identity", "T")
        elif node.op in ITERATORS:
            _fill_element(node.attr["output_shapes"].list.shape, sizes)
    return _imported(tf, copy)


def infer_traced(tf: Any, graph: Any, sizes: CallSizes) -> Dict[str, OpShapes]:
    """Return the shapes of products in a traced graph itself, as where XLA compiles it and no optimised one is there.

    Args:
        tf: TensorFlow.
        graph: of the trace.
        sizes: of its call.

    Raises:
        ValueError: TensorFlow cannot import the graph with these sizes.
    """
    definition, given = graph.as_graph_def(), {t.op.name: s for t, s in zip(graph.inputs, sizes.arguments)}
    for node in definition.node:
        shape = given.get(node.name) if node.op == "Placeholder" else None
        if shape is not None and None not in shape:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    _free_variables(definition, _read(tf, graph))
    return _imported(tf, definition)


def _read(tf: Any, graph: Any) -> Dict[str, Any]:
    """Return the shapes of the variables that a trace reads, by the names of their handles."""
    shapes: Dict[str, Any] = {}
    for op in graph.get_operations():
        if op.type == "ReadVariableOp":
            shapes[op.inputs[0].op.name] = op.outputs[0].shape.as_proto()
        elif op.type == "ResourceGather" and op.inputs[1].shape.rank is not None:
            row = op.outputs[0].shape[op.inputs[1].shape.rank :]
            shapes.setdefault(op.inputs[0].op.name, tf.TensorShape([None]).concatenate(row).as_proto())
    return shapes


def infer_loop(tf: Any, graph: Any, sizes: CallSizes) -> Dict[str, OpShapes]:
    """Return the shapes of products in a function that a dataset runs for each of its elements (`for x in dataset`).

    Args:
        tf: TensorFlow.
        graph: the traced graph of that function.
        sizes: of the call around it.

    Raises:
        ValueError: TensorFlow cannot import the graph with these sizes.
    """
    elements, definition = _elements(graph), graph.as_graph_def()
    for node in definition.node:
        if node.op == "Placeholder" and node.name in elements:
            _fill_element([node.attr["shape"].shape], CallSizes(sizes.batch, ()))
    return _imported(tf, definition)


def _imported(tf: Any, graph_def: Any) -> Dict[str, OpShapes]:
    _keep_needed(graph_def)
    for node in graph_def.node:
        node.ClearField("device")
        for name in ANNOTATIONS:
            if name in node.attr:
                del node.attr[name]
    scratch = tf.Graph()
    with scratch.as_default():
        tf.import_graph_def(graph_def, name="")
    return {
        op.name: OpShapes([shape_list(t) for t in op.inputs], [shape_list(t) for t in op.outputs])
        for op in scratch.get_operations()
        if is_gemm(op.type)
    }


def _keep_needed(graph_def: Any) -> None:
    """Leave out of a graph what no product needs: the optimizer, in a third of the time to import the rest."""
    inputs = {node.name: [name.split(":")[0] for name in node.input if name[0] != "^"] for node in graph_def.node}
    todo = [node.name for node in graph_def.node if is_gemm(node.op)]
    needed = set(todo)
    while todo:
        found = [name for name in inputs.get(todo.pop(), ()) if name not in needed]
        needed.update(found)
        todo += found
    kept = [node for node in graph_def.node if node.name in needed]
    for node in kept:
        for place in reversed(range(len(node.input))):
            if node.input[place][0] == "^":
                del node.input[place]
    copies = [type(node).FromString(node.SerializeToString()) for node in kept]
    del graph_def.node[:]
    graph_def.node.extend(copies)


def _become(node: Any, op: str, *kept: str) -> None:
    """Make another op of a node, with the attributes that are `kept`."""
    node.op = op
    for name in [name for name in node.attr if name not in kept]:
        del node.attr[name]


def _to_placeholder(node: Any, dtype: int, shape: Any) -> None:
    _become(node, "Placeholder")
    del node.input[:]
    node.attr["dtype"].type = dtype
    if shape is not None:
        node.attr["shape"].shape.CopyFrom(shape)


def _free_variables(graph_def: Any, handles: Dict[str, Any]) -> None:
    """Turn reads of variables, of some rows too, into placeholders of the shapes that TensorFlow noted on handles."""
    for node in list(graph_def.node):
        source = node.input[0].split(":")[0] if node.op in ("ReadVariableOp", "ResourceGather") else ""
        if source not in handles:
            continue
        if node.op == "ReadVariableOp":
            _to_placeholder(node, node.attr["dtype"].type, handles[source])
        elif not node.attr["batch_dims"].i:
            whole = graph_def.node.add(name=node.name + "/tcprobe_variable")
            _to_placeholder(whole, node.attr["dtype"].type, handles[source])
            node.attr["Tparams"].type = node.attr["dtype"].type
            _become(node, "Gather", "Tparams", "Tindices")
            node.input[0] = whole.name


def _drop_empty_batches(graph_def: Any) -> None:
    """Leave out the empty batch that a strategy gives a replica at the end of data: it stands for no usual batch."""
    nodes = {node.name: node for node in graph_def.node}
    for node in graph_def.node:
        if node.op == "Merge":
            given = [name for name in node.input if not _is_empty(nodes, name)]
            if len(given) == 1 < len(node.input):
                _become(node, "Identity", "T")
                node.input[:] = given


def _is_empty(nodes: Dict[str, Any], name: str) -> bool:
    node = nodes.get(name.split(":")[0])
    while node is not None and node.op == "Identity":
        node = nodes.get(node.input[0].split(":")[0])
    if node is None or node.op != "Const":
        return False
    return any(dim.size == 0 for dim in node.attr["value"].tensor.tensor_shape.dim)


def _fill_element(shapes: Any, sizes: CallSizes) -> None:
    """Give what an iterator delivers the sizes of its first element, or of the usual batch."""
    whole = sizes.element if len(sizes.element) == len(shapes) else (None,) * len(shapes)
    for shape, known in zip(shapes, whole):
        if known is not None and (shape.unknown_rank or len(known) == len(shape.dim)):
            shape.unknown_rank = False
            known = [int(d.size) if d.size != -1 else size for d, size in zip(shape.dim, known)] if shape.dim else known
            del shape.dim[:]
            for size in known:
                shape.dim.add().size = -1 if size is None else size
        elif sizes.batch and shape.dim and shape.dim[0].size == -1:
            shape.dim[0].size = sizes.batch


def _elements(graph: Any) -> Set[str]:
    """Return the names of the placeholders that stand for an element of the dataset which runs the function."""
    for op in graph.outer_graph.get_operations():
        if "Dataset" in op.type and any(function.graph is graph for function in called_functions(op)):
            states = len(op.get_attr("Tstate")) if "Tstate" in op.node_def.attr else 0
            count = len(graph.inputs) - (len(op.inputs) - 1)
            return {t.op.name for t in graph.inputs[states : states + count]}
    return set()


def _fill_argument(node: Any, arguments: Sequence[GraphShape]) -> None:
    """Give an argument the sizes that it had in the first call."""
    noted, index = node.attr["_output_shapes"].list.shape, node.attr["index"].i
    first = arguments[index] if index < len(arguments) else None
    shape = noted[0] if noted else None
    if shape is not None and not shape.unknown_rank and first is not None and len(first) == len(shape.dim):
        for dim, size in zip(shape.dim, first):
            dim.size = size if dim.size == -1 and size is not None else dim.size
    _to_placeholder(node, node.attr["T"].type, shape)
