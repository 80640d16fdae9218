"""Hooks tracing, to note on every product, and on the scopes of layers, what nobody can tell afterwards."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ...core.gaps import Guard
from ..eager.sampler import EagerSampler
from ..hooks.layers import CalledLayer, LayerHooks
from ..hooks.patch import Patches
from .notes import Forward, Gradient, GraphNotes, Inputs, LayerScopes, OpNote
from .types import GEMM_TYPES


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
        self._local = threading.local()
        self._eager: Callable[[], bool] = lambda: True
        self._default_graph: Callable[[], Any] = lambda: None

    def install(self, tf: Any) -> None:
        """Hook `tf`; what it lacks becomes a gap."""
        self._eager = tf.executing_eagerly
        self._default_graph = tf.compat.v1.get_default_graph
        with Guard(self._gaps, "FuncGraph._create_op_internal"):
            self._patches.method(func_graph_class(tf), "_create_op_internal", self._creating)
        with Guard(self._gaps, "FuncGraph.__init__"):
            self._patches.method(func_graph_class(tf), "__init__", self._beginning)
        with Guard(self._gaps, "gradient registry"):
            self._wrap_gradients()
        with Guard(self._gaps, "taking of gradients"):
            self._hook_taking()

    def remove(self) -> None:
        """Put the original methods and gradient functions back."""
        self._patches.restore()

    def note(self, graph: Any, name: str) -> Optional[OpNote]:
        """Return the note on an op, None for one that no hook saw (imported functions)."""
        notes = self._notes.get(graph)
        return notes.ops.get(name) if notes else None

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

    def gradient(self) -> Optional[Gradient]:
        """Return the gradient function running in this thread, None outside any."""
        return getattr(self._local, "gradient", None)

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def __init__(graph: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            original(graph, *args, **kwds)
            with Guard(tracer._gaps, "FuncGraph.__init__"):
                if getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is None:
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

    def noted(self, name: str) -> OpNote:
        """Return what is known of the op `name`, which has just been made."""
        note, gradient = OpNote(self._layers.current()), self.gradient()
        if gradient is not None:
            note.in_gradient, note.forward, note.layer = True, gradient.forward, gradient.layer or note.layer
            gradient.made[name] = note
        else:
            outside: Optional[int] = getattr(self._local, "taking", None)
            note.in_gradient = outside is not None
            note.recomputed = outside is not None and self._layers.depth() > outside
        return note

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
            notes.by_inputs[Inputs(op.type, tuple(t.name for t in op.inputs))] = name

    def _differentiates(self) -> bool:
        """Return whether a gradient is being taken, by no layer that is called again for it."""
        outside: Optional[int] = getattr(self._local, "taking", None)
        return outside is not None and self._layers.depth() <= outside

    def _hook_taking(self) -> None:
        from tensorflow.python.eager import imperative_grad
        from tensorflow.python.ops import gradients_util

        self._patches.method(imperative_grad, "imperative_grad", self._taking)
        self._patches.method(gradients_util, "_GradientsHelper", self._taking)

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Remember, while a gradient is taken, how many layers were being called around that."""
        local, layers, tracer = self._local, self._layers, self

        def take(*args: Any, **kwds: Any) -> Any:
            before = getattr(local, "taking", None)
            local.taking = layers.depth()
            try:
                results = original(*args, **kwds)
            finally:
                local.taking = before
            sampler = tracer._sampling()
            if sampler is not None:
                with Guard(tracer._gaps, "taking of gradients"):
                    sampler.taken(args[2], results)
            return results

        return take

    def _wrap_gradients(self) -> None:
        table = gradient_table()
        for op_type in sorted(GEMM_TYPES & set(table)):
            entry = table[op_type]
            function = entry.get("type")
            if function is not None:
                self._patches.entry(table, op_type, dict(entry, type=self._differentiating(op_type, function)))

    def _differentiating(self, op_type: str, original: Callable[..., Any]) -> Callable[..., Any]:
        tracer = self

        def gradient_function(op: Any, *grads: Any) -> Any:
            gradient = None
            if tracer.sampler is not None or not tracer._eager():
                with Guard(tracer._gaps, "gradient functions"):
                    gradient = tracer._enter(op_type, op)
            if gradient is None:
                return original(op, *grads)
            before = tracer.gradient()
            tracer._local.gradient = gradient
            try:
                results = original(op, *grads)
            finally:
                tracer._local.gradient = before
            with Guard(tracer._gaps, "gradient functions"):
                sampler = tracer._sampling()
                gradient.finish(results if sampler is None else sampler.tensors(results))
            return results

        return gradient_function

    def _enter(self, op_type: str, op: Any) -> Gradient:
        sampler = self._sampling()
        if sampler is not None:
            return sampler.enter(op_type, op)
        self.on_gradient()
        graph, name = self._forward_of(op_type, op)
        note = self.note(graph, name) if name else None
        return Gradient(_finder(graph, name) if name else None, note.layer if note else None)

    def _sampling(self) -> Optional[EagerSampler]:
        """Return what records the eager step that runs, None where none does or a graph is being made."""
        return self.sampler if self.sampler is not None and self._eager() else None

    def _forward_of(self, op_type: str, op: Any) -> Tuple[Any, Optional[str]]:
        """Find the forward op: `op` itself under tf.gradients, by its inputs under a tape, which keeps nothing else."""
        if getattr(op, "graph", None) is not None:
            return op.graph, op.name
        inputs = [t for t in op.inputs if getattr(t, "graph", None) is not None]
        for graph in {id(t.graph): t.graph for t in inputs}.values():
            notes = self._notes.get(graph)
            names = [t.name for t in op.inputs if getattr(t, "graph", None) is graph]
            found = notes and (
                notes.by_inputs.get(Inputs(op_type, tuple(names))) or self._most_alike(notes, op_type, names)
            )
            if found:
                return graph, found
        return None, None

    def _most_alike(self, notes: GraphNotes, op_type: str, names: Sequence[str]) -> Optional[str]:
        """Return the op that shares most inputs: a tape drops the ones that its gradient does not need."""
        wanted, scored = set(names), []
        for inputs, name in notes.by_inputs.items():
            if inputs.op_type == op_type and wanted & set(inputs.names):
                scored.append((len(wanted & set(inputs.names)), name))
        top = max(scored)[0] if scored else 0
        best = [name for score, name in scored if score == top]
        if len(best) == 1:
            return best[0]
        scope = self._default_graph().get_name_scope().replace("gradient_tape/", "", 1).rstrip("/")
        return next((name for name in best if scope and name.startswith(scope + "/")), None)


def _finder(graph: Any, name: str) -> Forward:
    """Return what finds an op for as long as its graph lives."""
    reference = weakref.ref(graph)

    def find() -> Any:
        alive = reference()
        return None if alive is None else alive.get_operation_by_name(name)

    return find


def func_graph_class(tf: Any) -> Any:
    """Return the class FuncGraph, which TensorFlow before 2.6 does not export."""
    exported = getattr(getattr(tf, "__internal__", None), "FuncGraph", None)
    if exported is not None:
        return exported
    from tensorflow.python.framework.func_graph import FuncGraph

    return FuncGraph


def outermost(graph: Any) -> Any:
    """Return the graph of the function that was called, for a graph inside it; the eager one does not count."""
    while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def gradient_table() -> Dict[str, Dict[str, Any]]:
    """Return TensorFlow's own table of gradient functions by op type."""
    from tensorflow.python.framework import ops

    registry = getattr(ops, "gradient_registry", None) or ops._gradient_registry
    table: Dict[str, Dict[str, Any]] = registry._registry
    return table
