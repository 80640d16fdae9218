"""Walks from a traced function to its products, through every function that it calls."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .types import FUSED_AFTER, GEMM_TYPES

BRANCHES = {"then_branch": "then", "else_branch": "else", "body": "body", "cond": "cond", "branches": "branch"}
DEEPEST_GRAPH = 16
ALIAS_DEPTH = 6
MOST_ALIASES = 24
OuterTensors = Tuple[Dict[str, Any], ...]  # per graph on the way in: placeholder name -> tensor of the graph outside


class Called(NamedTuple):
    """A call on the way to an op: its path, and the name of the function that it calls."""

    path: str
    function: str


class Visit(NamedTuple):
    """One product of a traced function.

    Attributes:
        op: the tf.Operation.
        path: its name with those of the calls around it, joined by ``/``; ``/_N/`` stands for TensorFlow's counter.
        names: other names that a profile may give it: relative to a function that was not inlined.
        env: what the placeholders around it stand for.
        live: False where no output of the function needs it.
        repeats: None where it runs an unknown number of times a call (loops, branches, datasets), else 1.
        inlined: False in functions that a dataset runs for itself.
        compiled: True where XLA compiles the function around it.
        calls: every call around it, from the outside in.
    """

    op: Any
    path: str
    names: Tuple[str, ...]
    env: OuterTensors
    live: bool
    repeats: Optional[float]
    inlined: bool
    compiled: bool
    calls: Tuple[Called, ...]


class _Place(NamedTuple):
    """A graph that the walk has come to; the fields are those of `Visit`, but for the graph's own.

    Attributes:
        graph: a FuncGraph.
        prefixes: what stands before the names of its ops, from the outermost function in.
        outputs: indices of its outputs that are used outside; None is all.
    """

    graph: Any
    prefixes: Tuple[str, ...]
    env: OuterTensors
    outputs: Optional[Set[int]]
    live: bool
    repeats: Optional[float]
    inlined: bool
    compiled: bool
    calls: Tuple[Called, ...]


def walk(root: Any, compiled: bool = False) -> List[Visit]:
    """Return the products of the FuncGraph `root` and of all functions that it calls.

    Args:
        root: the graph of a tf.function.
        compiled: whether XLA compiles it as a whole.
    """
    found: List[Visit] = []
    todo = [
        _Place(
            graph=root,
            prefixes=("",),
            env=({},),
            outputs=None,
            live=True,
            repeats=1.0,
            inlined=True,
            compiled=compiled,
            calls=(),
        )
    ]
    while todo:
        place = todo.pop()
        live, used = living(place.graph, place.outputs) if place.live else (set(), {})
        for op in place.graph.get_operations():
            if op.type in GEMM_TYPES:
                path, *names = [prefix + op.name for prefix in place.prefixes]
                found.append(
                    Visit(
                        op=op,
                        path=path,
                        names=tuple(names),
                        env=place.env,
                        live=op.name in live,
                        repeats=place.repeats,
                        inlined=place.inlined,
                        compiled=place.compiled,
                        calls=place.calls,
                    )
                )
            if len(place.env) < DEEPEST_GRAPH:
                todo.extend(_inside(place, op, op.name in live, used.get(op.name, set())))
    return found


def alternatives(graphs: Iterable[Any], visits: Sequence[Visit]) -> List[Visit]:
    """Return the cuDNN ops of `graphs` that no visit reached.

    Keras 2 registers a second form of LSTM and GRU that nothing calls; TensorFlow puts it in the first one's
    place when it optimises the function for a GPU.
    """
    seen = {id(visit.op.graph) for visit in visits}
    return [
        Visit(op, op.name, (), ({},), live=True, repeats=None, inlined=False, compiled=False, calls=())
        for graph in graphs
        if id(graph) not in seen
        for op in graph.get_operations()
        if op.type.startswith("CudnnRNN")
    ]


def _inside(place: _Place, op: Any, live: bool, used: Set[int]) -> Iterator[_Place]:
    """Yield the functions that `op` calls."""
    dataset = "Dataset" in op.type
    for attribute in function_attributes(op):
        value = op.get_attr(attribute)
        kind = BRANCHES.get(attribute, "")
        for function in value if isinstance(value, (list, tuple)) else [value]:
            name = str(getattr(function, "name", function))
            graph = function_graph(place.graph, name)
            if graph is None:
                continue
            skipped = 1 if kind in ("then", "else", "branch") else 0
            outside = list(op.inputs)[skipped:]
            env = {inner.op.name: outside[i] for i, inner in enumerate(graph.inputs) if i < len(outside)}
            step = op.name + ("/%s/_N/" % kind if kind else "/")
            prefixes = tuple(prefix + step for prefix in place.prefixes) + ("",)
            every = kind in ("body", "cond") or dataset
            yield _Place(
                graph=graph,
                prefixes=tuple(dict.fromkeys(prefixes)),
                env=place.env + (env,),
                outputs=None if every else used,
                live=live,
                repeats=None if kind or dataset else place.repeats,
                inlined=place.inlined and not dataset,
                compiled=place.compiled or is_compiled(op),
                calls=(*place.calls, Called(place.prefixes[0] + op.name, name)),
            )


def is_compiled(op: Any) -> bool:
    """Return whether a call is one that XLA must compile."""
    try:
        return bool(op.get_attr("_XlaMustCompile"))
    except ValueError:
        return False


_attributes: Dict[str, Tuple[str, ...]] = {}


def function_attributes(op: Any) -> Tuple[str, ...]:
    """Return the names of an op's attributes that hold functions."""
    known = _attributes.get(op.type)
    if known is None:
        definition = op.op_def
        listed = [a.name for a in definition.attr if a.type in ("func", "list(func)")] if definition else []
        known = _attributes[op.type] = tuple(listed)
    return known


def function_graph(graph: Any, name: str) -> Any:
    """Return the FuncGraph of a function that `graph` or one around it knows, None where it has none."""
    while graph is not None:
        find = getattr(graph, "_get_function", None)
        function = find(name) if find else None
        if function is not None:
            return getattr(function, "graph", None) or getattr(function, "_graph", None)
        graph = getattr(graph, "outer_graph", None)
    return None


def living(graph: Any, outputs: Optional[Set[int]] = None) -> Tuple[Set[str], Dict[str, Set[int]]]:
    """Return the ops that the outputs need, and which outputs of each op are used.

    Args:
        graph: a FuncGraph.
        outputs: indices of its outputs that are used outside; None is all.
    """
    roots = [t for i, t in enumerate(graph.outputs) if t is not None and (outputs is None or i in outputs)]
    used: Dict[str, Set[int]] = {}
    live: Set[str] = set()
    todo = [_use(t, used) for t in roots] + list(getattr(graph, "control_outputs", ()))
    while todo:
        op = todo.pop()
        if op.name not in live:
            live.add(op.name)
            todo.extend(_use(t, used) for t in op.inputs)
            todo.extend(op.control_inputs)
    return live, used


def _use(tensor: Any, used: Dict[str, Set[int]]) -> Any:
    used.setdefault(tensor.op.name, set()).add(tensor.value_index)
    return tensor.op


def fused_names(op: Any) -> List[str]:
    """Return the names of the ops after `op` that a fused op may bear, nearest first."""
    found: Dict[str, None] = {}
    level: Sequence[Any] = [op]
    for _ in range(ALIAS_DEPTH):
        after = [c for o in level for t in o.outputs[:1] for c in t.consumers()]
        level = [c for c in after if c.type in FUSED_AFTER and c.name not in found]
        found.update((c.name, None) for c in level)
        if len(found) >= MOST_ALIASES:
            break
    return list(found)[:MOST_ALIASES]
