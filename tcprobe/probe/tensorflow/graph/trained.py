"""Tells which variables a traced function trains: asked once per trace, off the path of the calls.

A trace trains the variables that an optimizer was given while it was built and that it writes. Without an optimizer, a
trace that takes a gradient trains the trainable variables that it writes. Metrics, moving averages and counters are
written too, and are neither.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Set

from ...core.gaps import Gaps
from ..hooks.patch import everywhere
from .called import called_graphs
from .trace import outermost


class Facts(NamedTuple):
    """What a trace does to variables.

    Attributes:
        part: what tells a part of training from others of the same function: numbers of the handles of the variables
            that it trains, none where it only takes a gradient; None where it is no part.
        applies: how often one run of the code applies each optimizer, by its id.
    """

    part: Optional[FrozenSet[int]]
    applies: Dict[int, int]


class Marks:
    """What was seen while a graph was built.

    Attributes:
        given: numbers of the handles that optimizers were given.
        gradient: a gradient was taken.
        applies: times that each optimizer was applied, by its id and the graph that it was applied in.
    """

    def __init__(self) -> None:
        self.given: Set[int] = set()
        self.gradient = False
        self.applies: Dict[int, "weakref.WeakKeyDictionary[Any, int]"] = {}


class Trained:
    """Marks graphs as they are built, and tells facts of them afterwards.

    Attributes:
        count: functions traced so far, whatever they are; a change says that a trace may have come.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.count = 0
        self._gaps = gaps
        self._marks: "weakref.WeakKeyDictionary[Any, Marks]" = weakref.WeakKeyDictionary()
        self._default_graph: Callable[[], Any] = lambda: None

    def install(self, tf: Any) -> None:
        """Hook what tells that a function is being traced, and the gradients that no tape takes."""
        self._default_graph = tf.compat.v1.get_default_graph
        self._gaps.run("traces", self._hook_traces)
        self._gaps.run("tf.gradients", self._hook_gradients)

    def given(self, variables: Any, optimizer: Any) -> None:
        """Note that an optimizer is applied to variables in the graph that is being built."""
        marks, graph = self._current(), self._default_graph()
        marks.given.update(number for variable in variables for number in handles(variable))
        counts = marks.applies.setdefault(id(optimizer), weakref.WeakKeyDictionary())
        counts[graph] = counts.get(graph, 0) + 1

    def differentiated(self) -> None:
        """Note that a gradient is taken in the graph that is being built."""
        self._current().gradient = True

    def facts(self, graph: Any) -> Facts:
        """Return what a FuncGraph does, with the functions traced earlier that it calls."""
        found = [marks for marks in map(self._marks.get, called_graphs(graph)) if marks is not None]
        if not found:
            return Facts(None, {})
        given: Set[int] = set().union(*(marks.given for marks in found))
        applies: Dict[int, int] = {}
        for marks in found:
            for optimizer, counts in marks.applies.items():
                applies[optimizer] = max(applies.get(optimizer, 0), *counts.values(), 0)
        gradient = any(marks.gradient for marks in found)
        if not given and gradient:
            given = trainable_handles(graph)
        trains = frozenset(given & written_handles(graph))
        return Facts(trains if trains or gradient else None, applies)

    def _current(self) -> Marks:
        graph = outermost(self._default_graph())
        marks = self._marks.get(graph)
        if marks is None:
            marks = self._marks[graph] = Marks()
        return marks

    def _hook_traces(self) -> None:
        from tensorflow.python.framework.auto_control_deps import AutomaticControlDependencies as Dependencies

        # The last that TensorFlow does to a trace, and no frame around the user's function.
        leave, trained = Dependencies.__exit__, self

        @functools.wraps(leave)
        def left(dependencies: Any, *args: Any) -> Any:
            trained.count += 1
            return leave(dependencies, *args)

        Dependencies.__exit__ = left

    def _hook_gradients(self) -> None:
        from tensorflow.python.ops import gradients_impl

        # Not what these call: Keras 2's LSTM takes a gradient by that as it is traced, also to validate.
        for original in (gradients_impl.gradients, gradients_impl.gradients_v2):
            hooked = self._differentiating(original)
            for name in ("gradients", "gradients_v2"):
                for module in everywhere(name, original):
                    setattr(module, name, hooked)

    def _differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def gradients(*args: Any, **kwds: Any) -> Any:
            self._gaps.run("tf.gradients", self.differentiated)
            return original(*args, **kwds)

        return gradients


def handles(variable: Any) -> List[int]:
    """Return the numbers of a variable's handles: one for each replica of a distributed one."""
    variable = getattr(variable, "_value", variable)  # a variable of Keras 3 holds TensorFlow's
    replicas = getattr(variable, "_values", None)
    each = replicas if isinstance(replicas, (list, tuple)) and replicas else [variable]
    return [number(one.handle) for one in each if hasattr(one, "handle")]


def number(handle: Any) -> int:
    """Return what a handle is known by: TensorFlow never gives the number of an eager tensor twice."""
    known = getattr(handle, "_id", None)
    return known if isinstance(known, int) else id(handle)


def written_handles(graph: Any) -> Set[int]:
    """Return the numbers of the handles that a FuncGraph writes, by TensorFlow's own account."""
    from tensorflow.python.framework.auto_control_deps_utils import get_read_only_resource_input_indices_graph

    read = set(get_read_only_resource_input_indices_graph(graph))
    outside = {id(inner): outer for outer, inner in graph.captures}
    written = [t for i, t in enumerate(graph.inputs) if t.dtype.name == "resource" and i not in read]
    return {number(outside[id(t)]) for t in written if id(t) in outside}


def trainable_handles(graph: Any) -> Set[int]:
    """Return the numbers of the handles of a FuncGraph's weights; a counter of Keras 2 is trainable, but an integer."""
    weights = [v for v in graph.variables if getattr(v, "trainable", False) and v.dtype.is_floating]
    return {one for variable in weights for one in handles(variable)}
