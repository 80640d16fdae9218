"""Makes the records of a trace: its products, what of them executes, how often and in which sizes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.gaps import Guard
from ..hooks.fits import Datasets, Fit
from .execute import match, optimised, swapped_in, unoptimised
from .passes import GraphPasses
from .records import Record, executed_record, op_record
from .shapes import (
    CallSizes,
    OpShapes,
    first_arguments,
    has_unknown,
    infer,
    infer_loop,
    ordered,
    shape_list,
    sizes_of_call,
)
from .store import Function, Store
from .trace import Tracer
from .types import is_gemm
from .walk import Visit, alternatives, walk


class Trace(NamedTuple):
    """A FuncGraph traced during a call of the function `key`."""

    graph: Any
    key: Hashable


class FunctionCall(NamedTuple):
    """A call of a tf.function from outside any other.

    Attributes:
        key: the runtime's, of the function.
        thread: that calls.
        arguments: positional and keyword arguments.
        fit: the `fit` of Keras around it, None outside any.
    """

    key: Hashable
    thread: int
    arguments: Tuple[Any, Any]
    fit: Optional[Fit]


class Resolver:
    """Resolves traces.

    Args:
        store: takes the records.
        tracer: knows what was noted as ops were made.
        datasets: knows what datasets deliver.
        gaps: takes what fails.

    Attributes:
        tf: TensorFlow, once it is imported.
        on_trace: called with a trace, its products and their records, in the same order; it may add to the records.
    """

    def __init__(self, store: Store, tracer: Tracer, datasets: Datasets, gaps: Any) -> None:
        self.tf: Any = None
        self.on_trace: Optional[Callable[[Trace, Sequence[Visit], List[Record]], None]] = None
        self._store = store
        self._tracer = tracer
        self._datasets = datasets
        self._gaps = gaps

    def resolve(self, trace: Trace, graphs: Any) -> None:
        """Keep the records of a trace; `graphs` are those that TensorFlow made of it, None where they are unknown."""
        function = self._store.functions.get(trace.key)
        if function is None:
            return
        self._store.made_by(self._tracer.scopes(trace.graph))
        concrete = _concrete(function, trace.graph)
        call, sizes = function.call, self._sizes(function, trace.graph)
        visits = walk(trace.graph, _is_compiled(function, concrete))
        if visits:
            function.sizes = sizes
            function.traces += 1
            record: Record = {
                "name": text_of(getattr(concrete, "name", trace.graph.name)),
                "python_name": function.name,
                "executed_basis": _basis(visits, graphs),
                "ops": self._ops(trace.graph, visits, graphs, sizes),
            }
            if self.on_trace is not None:
                with Guard(self._gaps, "notes on a trace"):
                    self.on_trace(trace, visits, record["ops"])
            self._store.keep(trace.key, record)
        elif not function.traces:  # TensorFlow's own initializer of variables: it captures nothing of the function's
            function.call, function.sizes = call, None

    def _sizes(self, function: Function, graph: Any) -> CallSizes:
        """Return the sizes of the first call, which is over; the first trace knows its arguments best."""
        if function.sizes is None:
            call, function.call, function.sizes = function.call, None, CallSizes(None, ())
            with Guard(self._gaps, "sizes of the first call"):
                function.sizes = self._sizes_of(function, call, graph)
        sizes = function.sizes
        if function.traces or graph.name.startswith("__backward"):
            return sizes
        return sizes._replace(arguments=first_arguments(graph, sizes.arguments))

    def _sizes_of(self, function: Function, call: Optional[FunctionCall], graph: Any) -> CallSizes:
        if call is None:
            return CallSizes(None, ())
        arguments = ordered(function.reference(), *call.arguments)
        sizes = sizes_of_call(self.tf, self._datasets, arguments, call.fit, graph)
        if sizes.replicas > 1 and hasattr(self._gaps, "note"):
            message = "a step runs on %d replicas: each has products of its own, for its share of the batch"
            self._gaps.note("replicas", message % sizes.replicas, level="note")
        return sizes

    def _ops(self, root: Any, visits: Sequence[Visit], graphs: Any, sizes: CallSizes) -> List[Record]:
        graph = None if graphs is None else optimised(graphs)
        matches, extra = (list(map(unoptimised, visits)), []) if graph is None else match(visits, graph)
        inferred: Dict[str, OpShapes] = {}
        if graphs is not None and _shapes_missing(visits):
            with Guard(self._gaps, "shapes of partial batches"):
                inferred = infer(self.tf, graphs.post_optimization_graph, sizes, is_gemm)
        loops = self._in_loops(visits, sizes)
        others = alternatives(self._tracer.within(root), visits)
        everything = [*zip(visits, matches), *((v, swapped_in(v, graph)) for v in others)]
        passes, records = GraphPasses(visits, lambda op: self._tracer.note(op.graph, op.name)), []
        for visit, found in everything:
            note = self._tracer.note(visit.op.graph, visit.op.name)
            shapes = loops.get((id(visit.op.graph), visit.op.name)) or inferred.get(found.name or "")
            records.append(op_record(visit, note, passes, found, shapes))
        return records + [executed_record(op, inferred.get(op.name)) for op in extra]

    def _in_loops(self, visits: Sequence[Visit], sizes: CallSizes) -> Dict[Tuple[int, str], OpShapes]:
        """Return the shapes of products that run for each element of a dataset and are unknown in the trace."""
        graphs = {id(v.op.graph): v.op.graph for v in visits if not v.inlined and _shapes_missing([v])}
        found: Dict[Tuple[int, str], OpShapes] = {}
        for number, graph in graphs.items() if sizes.batch else ():
            with Guard(self._gaps, "shapes of partial batches"):
                inside = infer_loop(self.tf, graph, sizes, is_gemm)
                found.update(((number, name), shapes) for name, shapes in inside.items())
        return found


def text_of(name: Any) -> str:
    """Return a name, which some versions of TensorFlow give as bytes."""
    return name.decode() if isinstance(name, bytes) else str(name)


def _concrete(function: Function, graph: Any) -> Any:
    """Return the ConcreteFunction whose graph this is, None where the tf.function lists none."""
    owner = function.reference()
    listed = getattr(owner, "_list_all_concrete_functions", lambda: ())()
    return next((c for c in listed if c.graph is graph), None)


def _is_compiled(function: Function, concrete: Any) -> bool:
    owner = function.reference()
    flag = getattr(owner, "_jit_compile", None) or getattr(owner, "_experimental_compile", None)
    if flag or concrete is None:
        return bool(flag)
    attributes = concrete.function_def.attr
    # To ask for what is not there would write it, and datasets refuse functions with an empty attribute.
    return "_XlaMustCompile" in attributes and bool(attributes["_XlaMustCompile"].b)


def _basis(visits: Sequence[Visit], graphs: Any) -> str:
    if all(visit.compiled for visit in visits):
        return "traced"
    return "liveness" if graphs is None else "graph collection"


def _shapes_missing(visits: Sequence[Visit]) -> bool:
    return any(has_unknown([shape_list(t) for t in (*v.op.inputs, *v.op.outputs)]) for v in visits)
