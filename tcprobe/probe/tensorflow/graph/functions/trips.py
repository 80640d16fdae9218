"""Counts the turns of a loop from its graph alone: counters and limits that do not depend on data."""

from __future__ import annotations

import operator
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..shapes import CallSizes
from .called import LOOPS, called_function, called_functions, input_index, operation
from .values import Frame, Frames, Values, bare, is_constant, outside

COMPARISONS = frozenset("Less LessEqual Greater GreaterEqual Equal NotEqual".split())
LOGIC = frozenset("Identity LogicalAnd LogicalOr LogicalNot".split())
ASSIGNMENTS = frozenset(("AssignAddVariableOp", "AssignVariableOp"))
DATASET_LOOPS = frozenset(("ScanDataset", "ReduceDataset"))  # a loop over a dataset, inside a function
MOST_TURNS = 10**9
DEEPEST_TERM = 16  # ops between a truth and the arguments that it follows from
ENDLESS = -1
# A dataset as long as its first input.
AS_LONG = frozenset(
    (
        "MapDataset ParallelMapDataset ParallelMapDatasetV2 PrefetchDataset ShuffleDataset ShuffleDatasetV2"
        " ShuffleDatasetV3 ScanDataset CacheDataset CacheDatasetV2 OptionsDataset ModelDataset OptimizeDataset"
        " OptimizeDatasetV2"
    ).split()
)
BATCHES = frozenset("BatchDataset BatchDatasetV2 PaddedBatchDataset PaddedBatchDatasetV2".split())


class Line(NamedTuple):
    """A number that grows by `step` with every turn of a loop: `start` in the first."""

    start: int
    step: int


class Trips:
    """Counts the turns of loops.

    A ``while`` runs for as long as comparisons of counters hold, each joined to the others by ``and``, ``or`` and
    ``not``. Where one of them that decides is unknown (a ``break``, a condition on data), so is the number of turns.

    Args:
        sizes: what the outermost function was first called with.
    """

    def __init__(self, sizes: CallSizes) -> None:
        self._values = Values(sizes, self.final)
        self._known: Dict[Tuple[int, ...], Optional[int]] = {}

    def value(self, tensor: Any, frames: Frames) -> Any:
        """Return what is known of a tensor; see `Values`."""
        return self._values.of(tensor, frames)

    def of(self, op: Any, frames: Frames) -> Optional[int]:
        """Return the turns of a loop each time that it runs, None where the data decides."""
        key = (id(op), *(id(frame.op) for frame in frames))
        if key not in self._known:
            self._known[key] = None  # stands while a circle is followed
            self._known[key] = self._turns(op, frames) if op.type in LOOPS else self._elements(op, frames)
        return self._known[key]

    def final(self, op: Any, index: int, frames: Frames) -> Any:
        """Return what variable `index` of a ``while`` holds after its last turn, None where unknown."""
        if is_constant(op, index):
            return self._values.of(op.inputs[index], frames)
        line, turns = self._variable(op, index, frames), self.of(op, frames)
        return None if line is None or turns is None else line.start + turns * line.step

    def _turns(self, op: Any, frames: Frames) -> Optional[int]:
        condition = called_function(op, "cond")
        if condition is None or not condition.outputs:
            return None
        inner = (*frames, Frame(condition, op))
        found: Set[int] = {0}
        self._collect(condition.outputs[0], inner, found)
        for turn in sorted(found):
            holds = self._holds(condition.outputs[0], inner, turn)
            if not holds:
                return turn if holds is False and turn <= MOST_TURNS else None
        return None

    def _collect(self, tensor: Any, frames: Frames, found: Set[int]) -> None:
        """Add the turns at which a comparison may change its verdict."""
        op = tensor.op
        if op.type in LOGIC:
            for source in op.inputs:
                self._collect(source, frames, found)
        elif op.type in COMPARISONS:
            one, other = (self._line(t, frames) for t in op.inputs)
            if one is not None and other is not None and one.step != other.step:
                meet = (other.start - one.start) // (one.step - other.step)
                found.update(turn for turn in (meet, meet + 1) if turn >= 0)

    def _holds(self, tensor: Any, frames: Frames, turn: int) -> Optional[bool]:
        """Return whether a condition holds before a turn, None where unknown."""
        op = tensor.op
        if op.type in COMPARISONS:
            lines = [self._line(t, frames) for t in op.inputs]
            known = [line.start + turn * line.step for line in lines if line is not None]
            return _compared(op.type, *known) if len(known) == len(lines) else None
        if op.type not in LOGIC:
            value = self._values.of(tensor, frames)
            return value if isinstance(value, bool) else None
        parts = [self._holds(t, frames, turn) for t in op.inputs]
        if op.type == "LogicalNot":
            return None if parts[0] is None else not parts[0]
        decides: bool = op.type == "LogicalOr"  # one that holds is enough, or one that does not
        if decides in parts:
            return decides
        return None if None in parts else not decides

    def _line(self, tensor: Any, frames: Frames) -> Optional[Line]:
        """Return how a number of a loop's condition grows."""
        tensor = bare(tensor)
        if tensor.op.type in ("AddV2", "Add", "Sub"):
            one, other = (self._line(t, frames) for t in tensor.op.inputs)
            sign = -1 if tensor.op.type == "Sub" else 1
            return one and other and Line(one.start + sign * other.start, one.step + sign * other.step)
        loop, index = frames[-1].op, input_index(frames[-1].graph, tensor)
        if tensor.op.type == "Placeholder" and 0 <= index < len(loop.inputs):
            return self._variable(loop, index, frames[:-1])
        value = self._values.of(tensor, frames)
        return Line(value, 0) if isinstance(value, int) else None

    def _variable(self, op: Any, index: int, frames: Frames) -> Optional[Line]:
        """Return how a variable of a loop grows."""
        start, body = self._values.of(op.inputs[index], frames), called_function(op, "body")
        if not isinstance(start, int) or body is None:
            return None
        if is_constant(op, index):
            return Line(start, 0)
        after = bare(body.outputs[index]).op
        if after.type not in ("AddV2", "Add", "Sub"):
            return None
        own, inner = body.inputs[index].name, (*frames, Frame(body, op))
        before, others = [bare(t).name == own for t in after.inputs], [t for t in after.inputs if bare(t).name != own]
        if len(others) != 1 or (after.type == "Sub" and not before[0]):
            return None
        step = self._values.of(others[0], inner)
        return Line(start, -step if after.type == "Sub" else step) if isinstance(step, int) else None

    # --- datasets ----------------------------------------------------------------------------------------

    def _elements(self, op: Any, frames: Frames) -> Optional[int]:
        """Return how many elements a loop over a dataset of the graph itself sees; None where it may end before."""
        to_its_end = op.type == "ReduceDataset" or _only_reduced(op)
        found = self._length(op.inputs[0], frames) if to_its_end else None
        return found if found is not None and found >= 0 else None

    def _length(self, dataset: Any, frames: Frames) -> Optional[int]:
        op = operation(dataset) if dataset.dtype.name == "variant" else None
        passed = outside(dataset, frames) if op is not None else None
        if passed is not None:
            return self._length(*passed)
        numbers = [] if op is None else list(op.inputs)
        if op is None or not numbers:
            return None
        if op.type == "TensorSliceDataset":
            shape = self._values.shape(numbers[0], frames)
            return shape[0] if shape else None
        if op.type == "RangeDataset":
            given = [self._values.of(t, frames) for t in numbers[:3]]
            return len(range(*given)) if all(isinstance(n, int) for n in given) else None
        before = self._length(numbers[0], frames)
        if op.type in AS_LONG or before is None:
            return before if op.type in AS_LONG else None
        return self._changed(op, before, [self._values.of(t, frames) for t in numbers[1:]])

    def _changed(self, op: Any, before: int, numbers: List[Any]) -> Optional[int]:
        """Return the length of a dataset made of one of `before` elements."""
        count = numbers[0] if numbers and isinstance(numbers[0], int) else None
        if count is None:
            return None
        if op.type in BATCHES and before != ENDLESS:
            return before // count if numbers[-1] is True else -(-before // count)
        if op.type == "TakeDataset":
            return before if count < 0 else count if before == ENDLESS else min(before, count)
        if op.type == "SkipDataset" and before != ENDLESS:
            return 0 if count < 0 else max(before - count, 0)
        if op.type == "RepeatDataset":
            return ENDLESS if count < 0 or before == ENDLESS else before * count
        return before if op.type in BATCHES or op.type == "SkipDataset" else None


def _only_reduced(op: Any) -> bool:
    """Return whether nothing cuts off the dataset that `op` makes: a `break` in the loop does."""
    after = op.outputs[0].consumers()
    return bool(after) and all(c.type == "ReduceDataset" or (c.type in AS_LONG and _only_reduced(c)) for c in after)


def _compared(kind: str, one: int, other: int) -> bool:
    if kind == "Equal":
        return one == other
    if kind == "NotEqual":
        return one != other
    if kind in ("Greater", "GreaterEqual"):
        one, other = other, one
    return one < other or (one == other and kind.endswith("Equal"))


def is_required(tensor: Any, frames: Frames) -> bool:
    """Return whether a truth in the body of a ``while`` is part of its condition: no turn begins where it is false."""
    loop = frames[-1].op
    if loop is None or loop.type not in LOOPS or frames[-1].graph is not called_function(loop, "body"):
        return False
    condition = called_function(loop, "cond")
    terms = [] if condition is None or not condition.outputs else list(_terms(condition.outputs[0]))
    return all(any(_are_same(one, term, DEEPEST_TERM) for term in terms) for one in _terms(tensor))


def _terms(tensor: Any) -> Iterator[Any]:
    """Yield what has to hold for a truth to hold."""
    tensor = bare(tensor)
    if tensor.op.type != "LogicalAnd":
        yield tensor
        return
    for one in tensor.op.inputs:
        yield from _terms(one)


def _are_same(one: Any, other: Any, depth: int) -> bool:
    """Return whether tensors of two functions with the same arguments are computed alike, from these alone."""
    one, other = bare(one), bare(other)
    if one.op.type == other.op.type == "Placeholder":
        return input_index(one.graph, one) == input_index(other.graph, other) >= 0
    if one.op.type != other.op.type or one.value_index != other.value_index or one.op.op_def.is_stateful or not depth:
        return False
    attributes = ({k: v for k, v in t.op.node_def.attr.items() if not k.startswith("_")} for t in (one, other))
    inputs = list(zip(one.op.inputs, other.op.inputs))
    return operator.eq(*attributes) and all(_are_same(a, b, depth - 1) for a, b in inputs)


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
