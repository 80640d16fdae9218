"""Counts the turns of a loop where they follow from constants of its graph, and tells what a turn has to hold."""

from __future__ import annotations

import math
from typing import Any, FrozenSet, NamedTuple, Optional

from .called import LOOPS, Frames, Place, bare, beyond, called_function, called_functions, entered, operation
from .shapes import shape_list

COMPARISONS = frozenset("Less LessEqual Greater GreaterEqual".split())
ASSIGNMENTS = frozenset(("AssignAddVariableOp", "AssignVariableOp"))
DATASET_LOOPS = frozenset(("ScanDataset", "ReduceDataset"))  # a loop over a dataset, inside a function
DEEPEST_TERM = 16  # ops between a truth and the arguments that it follows from
ALWAYS = math.inf


class Line(NamedTuple):
    """A number that grows by `step` with every turn of a loop: `start` in the first."""

    start: int
    step: int


def turns(op: Any, frames: Frames) -> Optional[int]:
    """Return how often a ``while`` turns each time that it runs; None where its graph alone does not say.

    It does where counters that start and step by constants are compared with constants. A gradient's loop is limited by
    the counter of the loop that it goes back through.
    """
    condition = called_function(op, "cond")
    held = None if condition is None else holds(condition.outputs[0], entered(frames, op, condition), op)
    return None if held is None or held == ALWAYS else int(held)


def holds(tensor: Any, frames: Frames, loop: Any = None) -> Optional[float]:
    """Return for how many turns of a loop a truth holds before it fails for good, None where unknown.

    Without a loop a truth always holds, never, or nobody knows.
    """
    tensor, frames = _origin(tensor, frames)
    op = operation(tensor)
    if op is not None and op.type in ("LogicalAnd", "LogicalOr"):
        parts = [holds(t, frames, loop) for t in op.inputs]
        decides = 0 if op.type == "LogicalAnd" else ALWAYS
        if decides in parts:
            return decides
        known = [part for part in parts if part is not None]
        return None if len(known) < len(parts) else max(known) if decides else min(known)
    if op is not None and op.type in COMPARISONS:
        return _compared(op, frames, loop)
    value = _number(tensor, frames)
    return None if value is None else ALWAYS if value else 0


def _compared(op: Any, frames: Frames, loop: Any) -> Optional[float]:
    one, other = (_line(t, frames, loop) for t in op.inputs)
    if one is None or other is None:
        return None
    low, high = (other, one) if op.type.startswith("Greater") else (one, other)
    gap, closes = high.start - low.start + op.type.endswith("Equal"), low.step - high.step
    if gap <= 0:
        return 0 if closes >= 0 else None  # it begins to hold later
    return ALWAYS if closes <= 0 else -(-gap // closes)


def _line(tensor: Any, frames: Frames, loop: Any) -> Optional[Line]:
    """Return how a number grows with the turns of a loop."""
    tensor, frames = _origin(tensor, frames)
    if operation(tensor) is None:
        return None
    index = _varying(tensor, frames)
    if index is not None:
        return _counter(loop, index, frames[:-1]) if frames[-1].op is loop else None
    value = _number(tensor, frames)
    return None if value is None else Line(value, 0)


def _counter(op: Any, index: int, frames: Frames) -> Optional[Line]:
    """Return how a variable of a loop grows, None for one that is no counter."""
    body = called_function(op, "body")
    if body is None:
        return None
    after, own = bare(body.outputs[index]).op, body.inputs[index].name
    if after.type not in ("AddV2", "Add", "Sub") or bare(after.inputs[0]).name != own:
        return None
    start, step = _number(op.inputs[index], frames), _number(after.inputs[1], entered(frames, op, body))
    return None if start is None or step is None else Line(start, -step if after.type == "Sub" else step)


def _number(tensor: Any, frames: Frames) -> Optional[int]:
    """Return a whole number or a truth that follows from constants of the graph, None for any other."""
    tensor, frames = _origin(tensor, frames)
    op = operation(tensor)
    if op is None or op.type == "Placeholder" or tensor.shape.rank != 0:
        return None
    if not (tensor.dtype.is_integer or tensor.dtype.is_bool):
        return None
    if op.type in LOOPS:
        line, count = _counter(op, tensor.value_index, frames), turns(op, frames)
        return None if line is None or count is None else line.start + count * line.step
    if op.type == "StridedSlice" and bare(op.inputs[0]).op.type == "Shape":
        return _size(op)
    return _constant(tensor)


def _size(op: Any) -> Optional[int]:
    """Return the size that a slice takes of a shape: the time steps, where the batch beside them is unknown."""
    shape, index = shape_list(bare(op.inputs[0]).op.inputs[0]), _constant(op.inputs[1])
    return None if index is None or shape is None else shape[index]


def _constant(tensor: Any) -> Optional[int]:
    """Return what TensorFlow itself knows of a tensor with one element."""
    from tensorflow.python.framework.smart_cond import smart_constant_value

    found = smart_constant_value(tensor)
    return None if found is None or found.size != 1 else int(found.item())


def _origin(tensor: Any, frames: Frames) -> Place:
    """Follow a tensor back through copies, calls, arguments, and stacks that a gradient takes back."""
    while True:
        op, passed = operation(tensor), None
        if op is None:
            return tensor, frames
        if op.type == "Identity":
            passed = op.inputs[0], frames
        elif op.type == "TensorListPopBack":
            passed = _laid_down(op.inputs[0], frames)
        elif op.type != "Placeholder" or _varying(tensor, frames) is None:
            passed = beyond(tensor, frames)
        if passed is None:
            return tensor, frames
        tensor, frames = passed


def _laid_down(stack: Any, frames: Frames) -> Optional[Place]:
    """Return what each turn of a loop lays on a stack that the loop around `stack` takes it back from."""
    stack, frames = _origin(stack, frames)
    index = _varying(stack, frames)
    if index is None:
        return None
    made, around = _origin(frames[-1].op.inputs[index], frames[:-1])
    loop = operation(made)
    body = called_function(loop, "body") if loop is not None and loop.type in LOOPS else None
    push = None if body is None else bare(body.outputs[made.value_index]).op
    if push is None or push.type != "TensorListPushBack":
        return None
    return push.inputs[1], entered(around, loop, body)


def _varying(tensor: Any, frames: Frames) -> Optional[int]:
    """Return which variable of the innermost loop a tensor is, if a turn may change that."""
    frame, name = frames[-1] if frames else None, tensor.op.name
    if frame is None or frame.op is None or frame.op.type not in LOOPS or name not in frame.given:
        return None
    index, body = list(frame.given).index(name), called_function(frame.op, "body")
    return index if body is None or bare(body.outputs[index]).name != body.inputs[index].name else None


def repeats_condition(tensor: Any, frames: Frames) -> bool:
    """Return whether a truth in the body of a loop is part of its condition: no turn begins where it is false.

    Keras 3's loop of several steps an execution asks in its body what its condition asked.
    """
    frame = frames[-1]
    condition = called_function(frame.op, "cond") if frame.op is not None and frame.op.type in LOOPS else None
    if condition is None or condition is frame.graph:
        return False
    return _terms(tensor) <= _terms(condition.outputs[0])


def _terms(tensor: Any) -> FrozenSet[Any]:
    """Return what has to hold for a truth to hold, each as it is computed."""
    tensor = bare(tensor)
    if tensor.op.type == "LogicalAnd":
        return frozenset().union(*map(_terms, tensor.op.inputs))
    return frozenset((_computed(tensor, DEEPEST_TERM),))


def _computed(tensor: Any, depth: int) -> Any:
    """Return how a tensor follows from its function's arguments: equal for two that are the same of the same ones."""
    tensor = bare(tensor)
    op = tensor.op
    if op.type == "Placeholder":
        return next((i for i, given in enumerate(op.graph.inputs) if given.name == tensor.name), id(op))
    if op.op_def.is_stateful or not depth:
        return id(op)
    attributes = tuple(sorted((k, str(v)) for k, v in op.node_def.attr.items() if not k.startswith("_")))
    return op.type, tensor.value_index, attributes, tuple(_computed(t, depth - 1) for t in op.inputs)


def counts_steps(graph: Any) -> bool:
    """Return whether a turn of a loop with this body counts a step: it assigns a whole number to a variable.

    That is what an optimizer's counter of its steps is. Loops inside it count for themselves.
    """
    for op in graph.get_operations():
        if op.type in ASSIGNMENTS and op.get_attr("dtype").name in ("int32", "int64"):
            return True
        if op.type not in LOOPS | DATASET_LOOPS and any(counts_steps(f.graph) for f in called_functions(op)):
            return True
    return False
