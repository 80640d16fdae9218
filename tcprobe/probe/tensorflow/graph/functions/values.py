"""Tells what whole numbers of a graph are known before it runs: sizes, counters, limits of loops."""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..shapes import ITERATORS, CallSizes, GraphShape, merged_shape, shape_list
from .called import CALLS, LOOPS, called_function, called_functions, handed_in, input_index, operation

DEEPEST = 60  # ops between a number and what it follows from
LARGEST = 64  # elements of a tensor that is looked at
SAME = frozenset("Identity EnsureShape StopGradient PreventGradient Snapshot Cast".split())
SAME_SHAPE = SAME | frozenset("ReverseV2 Tanh Relu Sigmoid Mul AddV2 BiasAdd ZerosLike OnesLike".split())
BINARY: Dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Minimum": min,
    "Maximum": max,
    "Equal": operator.eq,
    "NotEqual": operator.ne,
    "Less": operator.lt,
    "LessEqual": operator.le,
    "Greater": operator.gt,
    "GreaterEqual": operator.ge,
    "LogicalAnd": lambda a, b: a and b,
    "LogicalOr": lambda a, b: a or b,
}
UNARY: Dict[str, Callable[[Any], Any]] = {"Neg": operator.neg, "LogicalNot": operator.not_, "ZerosLike": lambda _: 0}
REDUCED: Dict[str, Callable[[List[int]], int]] = {"Max": max, "Min": min}


class Frame(NamedTuple):
    """A function on the way in.

    Attributes:
        graph: its FuncGraph.
        op: what calls it; None for the outermost.
        dataset: whether a dataset calls it, with elements among its arguments.
    """

    graph: Any
    op: Any = None
    dataset: bool = False


Frames = Tuple[Frame, ...]  # from the outermost function in; the last holds the tensor that is asked for


class Values:
    """Follows numbers back to what they are made of.

    Args:
        sizes: what the outermost function was first called with.
        final: returns what a variable of a loop holds after its last turn: op, index, frames around the op.
    """

    def __init__(self, sizes: CallSizes, final: Callable[[Any, int, Frames], Any]) -> None:
        self._sizes = sizes
        self._final = final
        self._depth = 0

    def of(self, tensor: Any, frames: Frames) -> Any:
        """Return a whole number, a truth or a list of them, None in it where unknown; None where nothing is known."""
        if self._depth >= DEEPEST:
            return None
        self._depth += 1
        try:
            return self._of(tensor, frames)
        finally:
            self._depth -= 1

    def shape(self, tensor: Any, frames: Frames) -> GraphShape:
        """Return a tensor's shape, with what the callers know of it."""
        known = shape_list(tensor)
        if (known is not None and None not in known) or self._depth >= DEEPEST:
            return known
        self._depth += 1
        try:
            return merged_shape(known, self._shape(tensor, frames))
        finally:
            self._depth -= 1

    def _of(self, tensor: Any, frames: Frames) -> Any:
        if not (tensor.dtype.is_integer or tensor.dtype.is_bool):
            return None
        op = operation(tensor)
        known = _constant(tensor, op)
        if known is not None or op is None:
            return known
        passed = outside(tensor, frames) or inside(tensor, frames)
        if passed is not None:
            return self.of(*passed)
        if op.type in LOOPS:
            return self._final(op, tensor.value_index, frames)
        return self._computed(op, tensor, frames)

    def _computed(self, op: Any, tensor: Any, frames: Frames) -> Any:
        if op.type == "Shape":
            return self.shape(op.inputs[0], frames)
        if op.type == "Pack":
            return [self.of(t, frames) for t in op.inputs]
        if op.type == "StridedSlice":
            return self._element(op, frames)
        if op.type == "TensorListPopBack":
            return self._popped(op, frames)
        if op.type in REDUCED:
            found = self.of(op.inputs[0], frames)
            whole = tensor.shape.rank == 0 and isinstance(found, list) and found and all(map(_is_number, found))
            return REDUCED[op.type](found) if whole else found if _is_number(found) else None
        numbers = [self.of(t, frames) for t in op.inputs[:2]] if op.type in _COMPUTED else []
        if not numbers or not all(map(_is_number, numbers)):
            return None
        if op.type in SAME:
            return numbers[0]
        if op.type in UNARY:
            return UNARY[op.type](numbers[0])
        return None if numbers[1] == 0 and op.type.startswith("Floor") else BINARY[op.type](*numbers)

    def _element(self, op: Any, frames: Frames) -> Any:
        """Return one element that a slice takes of a list."""
        values, begin = self.of(op.inputs[0], frames), self.of(op.inputs[1], frames)
        if op.get_attr("shrink_axis_mask") != 1 or not isinstance(values, list) or not isinstance(begin, list):
            return None
        index = begin[0] if len(begin) == 1 else None
        return values[index] if isinstance(index, int) and -len(values) <= index < len(values) else None

    def _popped(self, op: Any, frames: Frames) -> Any:
        """Return what the turns of a loop laid on a stack, where it is always the same: a gradient takes it back."""
        loop, index = frames[-1].op, input_index(frames[-1].graph, bare(op.inputs[0]))
        if loop is None or loop.type not in LOOPS or index < 0:
            return None
        passed: Optional[Tuple[Any, Frames]] = (bare(loop.inputs[index]), frames[:-1])
        while passed is not None and operation(passed[0]) is not None:
            stack, around = bare(passed[0]), passed[1]
            passed = outside(stack, around) or inside(stack, around)
        body = called_function(stack.op, "body") if operation(stack) is not None and stack.op.type in LOOPS else None
        pushed = None if body is None else bare(body.outputs[stack.value_index]).op
        if pushed is None or pushed.type != "TensorListPushBack":
            return None
        return self.of(pushed.inputs[1], (*around, Frame(body, stack.op)))

    def _shape(self, tensor: Any, frames: Frames) -> GraphShape:
        op = operation(tensor)
        if op is None:
            return None
        passed = outside(tensor, frames) or inside(tensor, frames)
        if passed is not None:
            return self.shape(*passed)
        if op.type == "Placeholder" and frames[-1].op is None:
            index, called = input_index(frames[-1].graph, tensor), self._sizes.arguments
            return called[index] if 0 <= index < len(called) else None
        if op.type in ITERATORS and self._sizes.batch:
            known = shape_list(tensor)
            return [self._sizes.batch, *known[1:]] if known else None
        if op.type == "Transpose":
            order, given = self.of(op.inputs[1], frames), self.shape(op.inputs[0], frames)
            return [given[i] for i in order] if order is not None and given is not None else None
        return self.shape(op.inputs[0], frames) if op.type in SAME_SHAPE else None


_COMPUTED = SAME | set(BINARY) | set(UNARY)


def outside(tensor: Any, frames: Frames) -> Optional[Tuple[Any, Frames]]:
    """Return what a placeholder stands for, and the frames of that; None where it is data, or changes with a loop."""
    frame = frames[-1]
    if tensor.op.type != "Placeholder":
        return None
    index = input_index(frame.graph, tensor)
    if frame.op is None or index < 0:
        captured = [outer for outer, inner in getattr(frame.graph, "captures", ()) if inner.name == tensor.name]
        return (captured[0], frames) if captured and operation(captured[0]) is None else None
    given = handed_in(frame.op)
    if frame.dataset:  # its elements stand before what it captured
        index = index - len(frame.graph.inputs)
        return (given[index], frames[:-1]) if -index <= len(list(frame.graph.captures)) else None
    if index >= len(given) or (frame.op.type in LOOPS and not is_constant(frame.op, index)):
        return None
    return given[index], frames[:-1]


def inside(tensor: Any, frames: Frames) -> Optional[Tuple[Any, Frames]]:
    """Return the output inside the one function that makes a tensor, and the frames of that; None where none does."""
    op = tensor.op
    functions = list(called_functions(op)) if op.type in CALLS else []
    if len(functions) != 1 or tensor.value_index >= len(functions[0].graph.outputs):
        return None
    graph = functions[0].graph
    return graph.outputs[tensor.value_index], (*frames, Frame(graph, op))


def is_constant(op: Any, index: int) -> bool:
    """Return whether a loop hands one of its variables on from turn to turn as it is."""
    body = called_function(op, "body")
    return body is not None and bare(body.outputs[index]).name == body.inputs[index].name


def bare(tensor: Any) -> Any:
    """Return what a tensor of a graph is the same as."""
    op = operation(tensor)
    while op is not None and op.type == "Identity":
        tensor, op = op.inputs[0], operation(op.inputs[0])
    return tensor


def _constant(tensor: Any, op: Any) -> Any:
    """Return what TensorFlow itself knows of a small tensor, as Python's own numbers and lists."""
    count = tensor.shape.num_elements()
    if count is None or count > LARGEST or tensor.shape.rank > 1:
        return None
    if op is None:
        return tensor.numpy().tolist()
    from tensorflow.python.framework import tensor_util

    found = tensor_util.constant_value(tensor)
    return None if found is None else found.tolist()


def _is_number(value: Any) -> bool:
    return isinstance(value, int)
