"""Hooks tracing, to note on every product, and on the scopes of layers, what nobody can tell afterwards."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, List, Optional

from ...core.gaps import Guard
from ..eager.sampler import EagerSampler
from ..hooks.layers import CalledLayer, LayerHooks
from ..hooks.patch import Patches
from .called import GEMM_TYPES
from .passes import Gradient, GraphNotes, LayerScopes, OpNote, taker


class Differentiation(threading.local):
    """What is being differentiated in this thread.

    Attributes:
        gradient: the gradient function that runs, None outside any.
        layers: how many layers were being called around the gradient that is being taken, None where none is.
    """

    gradient: Optional[Gradient] = None
    layers: Optional[int] = None


class Tracer:
    """Hooks on the making of graphs and ops and on the gradient functions.

    Notes hang on the graphs weakly: they go when TensorFlow drops a graph, and a graph at a reused address has none.

    Attributes:
        on_graph: told of every FuncGraph that lies in no other one.
        on_gradient: told whenever a gradient function runs.
        sampler: what records an eager step, None at other times.
    """

    def __init__(self, layers: LayerHooks, gaps: Any) -> None:
        self.on_graph: Callable[[Any], object] = id
        self.on_gradient: Callable[[], None] = lambda: None
        self.sampler: Optional[EagerSampler] = None
        self._layers = layers
        self._gaps = gaps
        self._patches = Patches()
        self._notes: "weakref.WeakKeyDictionary[Any, GraphNotes]" = weakref.WeakKeyDictionary()
        self._local = Differentiation()
        self._eager: Callable[[], bool] = lambda: True

    def install(self, tf: Any) -> None:
        """Hook `tf`; what it lacks becomes a gap."""
        self._eager = tf.executing_eagerly
        self._gaps.run("graphs of functions", self._hook_graphs)
        self._gaps.run("gradient registry", self._wrap_gradients)
        self._gaps.run("taking of gradients", self._hook_taking)

    def remove(self) -> None:
        """Put the original methods and gradient functions back."""
        self._patches.restore()

    def note(self, op: Any) -> Optional[OpNote]:
        """Return the note on an op, None for one that no hook saw (imported functions)."""
        notes = self._notes.get(op.graph)
        return notes.ops.get(op.name) if notes else None

    def within(self, root: Any) -> List[Any]:
        """Return the noted graphs that were traced inside `root`, called from it or not."""
        return [graph for graph in list(self._notes) if graph is not root and outermost(graph) is root]

    def scopes(self, root: Any) -> LayerScopes:
        """Return which layer made the ops of each name scope in `root` and in what was traced inside it."""
        found = LayerScopes()
        for graph in (root, *self.within(root)):
            if graph in self._notes:
                found.merge(self._notes[graph].scopes)
        return found

    def noted(self, name: str) -> OpNote:
        """Return what is known of the op `name`, which has just been made."""
        note, gradient = OpNote(self._layers.current()), self._local.gradient
        if gradient is not None:
            note.in_gradient, note.forward, note.layer = True, gradient.forward, gradient.layer or note.layer
            gradient.made[name] = note
        else:
            note.in_gradient = self._local.layers is not None
            note.recomputed = note.in_gradient and not self._differentiates()
        return note

    # --- ops ---------------------------------------------------------------------------------------------

    def _hook_graphs(self) -> None:
        from tensorflow.python.framework.func_graph import FuncGraph

        self._patches.method(FuncGraph, "_create_op_internal", self._creating)
        self._patches.method(FuncGraph, "__init__", self._beginning)

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def __init__(graph: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            original(graph, *args, **kwds)
            with Guard(tracer._gaps, "graphs of functions"):
                if outermost(graph) is graph:
                    tracer.on_graph(graph)

        return __init__

    def _creating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def _create_op_internal(graph: Any, op_type: str, *args: Any, **kwds: Any) -> Any:
            op = original(graph, op_type, *args, **kwds)
            layer, product = tracer._layers.current(), op_type in GEMM_TYPES
            if product or layer is not None:
                with Guard(tracer._gaps, "note on a traced op"):
                    tracer._take(graph, op, layer, product)
            return op

        return _create_op_internal

    def _take(self, graph: Any, op: Any, layer: Optional[CalledLayer], product: bool) -> None:
        notes = self._notes.get(graph)
        if notes is None:
            notes = self._notes[graph] = GraphNotes()
        name: str = op.name
        scope = name.rpartition("/")[0]
        if scope and layer is not None and not self._differentiates():
            notes.scopes.add(scope, layer.path)
        if product:
            notes.ops[name] = self.noted(name)

    # --- gradients ---------------------------------------------------------------------------------------

    def _differentiates(self) -> bool:
        """Return whether a gradient is being taken, by no layer that is called again for it."""
        around = self._local.layers
        return around is not None and self._layers.depth() <= around

    def _hook_taking(self) -> None:
        from tensorflow.python.eager import imperative_grad
        from tensorflow.python.ops import gradients_util

        self._patches.method(imperative_grad, "imperative_grad", self._around_taking)
        self._patches.method(gradients_util, "_GradientsHelper", self._around_taking)

    def _around_taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, layers, tracer = self._local, self._layers, self

        def take(*args: Any, **kwds: Any) -> Any:
            before, local.layers = local.layers, layers.depth()
            try:
                results = original(*args, **kwds)
            finally:
                local.layers = before
            sampler = tracer._sampling()
            if sampler is not None:
                with Guard(tracer._gaps, "taking of gradients"):
                    sampler.watch(args[0].watched_variables())
            return results

        return take

    def _wrap_gradients(self) -> None:
        from tensorflow.python.framework import ops

        table = (getattr(ops, "gradient_registry", None) or ops._gradient_registry)._registry
        for op_type in sorted(GEMM_TYPES & set(table)):
            entry = table[op_type]
            if entry.get("type") is not None:
                function = self._differentiating(op_type, entry["type"])
                self._patches.entry(table, op_type, dict(entry, type=function))

    def _differentiating(self, op_type: str, original: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def gradient_function(op: Any, *grads: Any) -> Any:
            gradient = None
            if tracer.sampler is not None or not tracer._eager():
                with Guard(tracer._gaps, "gradient functions"):
                    gradient = tracer._enter(op_type, op)
            if gradient is None:
                return original(op, *grads)
            before, tracer._local.gradient = tracer._local.gradient, gradient
            try:
                results = original(op, *grads)
            finally:
                tracer._local.gradient = before
            with Guard(tracer._gaps, "gradient functions"):
                sampler = tracer._sampling()
                gradient.finish(results if sampler is None else sampler.flow.tensors(results))
            return results

        return gradient_function

    def _enter(self, op_type: str, op: Any) -> Gradient:
        sampler = self._sampling()
        if sampler is not None:
            return sampler.enter(op_type, op)
        self.on_gradient()
        forward = op if getattr(op, "graph", None) is not None else taker(op_type, op.inputs)
        note = None if forward is None else self.note(forward)
        return Gradient(None if forward is None else _weakly(forward), note.layer if note else None)

    def _sampling(self) -> Optional[EagerSampler]:
        """Return what records the eager step that runs, None where none does or a graph is being made."""
        return self.sampler if self.sampler is not None and self._eager() else None


def _weakly(op: Any) -> Callable[[], Any]:
    """Return what finds an op for as long as its graph lives."""
    graph, name = weakref.ref(op.graph), op.name

    def find() -> Any:
        alive = graph()
        return None if alive is None else alive.get_operation_by_name(name)

    return find


def outermost(graph: Any) -> Any:
    """Return the graph of the function that was called, for a graph inside it; the eager one does not count."""
    while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph
