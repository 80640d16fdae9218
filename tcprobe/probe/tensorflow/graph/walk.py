"""Walks from a traced function to its products, through every function that it calls."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .called import (
    CALLS,
    CHOICES,
    FUSED_AFTER,
    GEMM_TYPES,
    LOOPS,
    CalledFunction,
    Frames,
    called_function,
    called_functions,
    entered,
    is_compiled,
    outermost_frame,
)
from .loops import ALWAYS, DATASET_LOOPS, counts_steps, holds, repeats_condition, turns

DEEPEST_GRAPH = 16
ALIAS_DEPTH = 6
MOST_ALIASES = 24


Outputs = Optional[FrozenSet[int]]  # indices of the outputs that are used; None is all


class Living(NamedTuple):
    """What of a graph runs.

    Attributes:
        ops: names of the ops that the used outputs, or a side effect, need.
        used: the outputs of each op that are used.
        inputs: indices of the graph's inputs that are needed.
    """

    ops: Set[str]
    used: Dict[str, Set[int]]
    inputs: FrozenSet[int]


class Liveness:
    """Finds what lives in the graphs of one walk; each graph is searched once for each set of used outputs."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, Outputs], Living] = {}

    def of(self, graph: Any, outputs: Outputs = None) -> Living:
        """Return what runs of a FuncGraph of which `outputs` are used outside."""
        key = (id(graph), outputs)
        if key not in self._known:
            self._known[key] = self._search(graph, outputs)
        return self._known[key]

    def loop(self, op: Any, used: FrozenSet[int]) -> FrozenSet[int]:
        """Return the variables of a loop that live: those used outside, or needed by the next turn of one that lives.

        A gradient that every turn adds to and that nobody reads does not.
        """
        condition, body = called_function(op, "cond"), called_function(op, "body")
        if condition is None or body is None:
            return frozenset(range(len(op.inputs)))
        kept = used | self.of(condition).inputs
        while True:
            more = kept | self.of(body, kept).inputs
            if more == kept:
                return kept
            kept = more

    def _search(self, graph: Any, outputs: Outputs) -> Living:
        used: Dict[str, Set[int]] = {}
        live: Dict[str, int] = {}  # how many outputs of an op were used as it was looked at last
        todo: List[Any] = list(graph.control_outputs)

        def use(tensors: Iterable[Any]) -> None:
            for tensor in tensors:
                used.setdefault(tensor.op.name, set()).add(tensor.value_index)
                todo.append(tensor.op)

        use(t for i, t in enumerate(graph.outputs) if t is not None and (outputs is None or i in outputs))
        while todo:
            op = todo.pop()
            indices = used.setdefault(op.name, set())
            if live.get(op.name) != len(indices):
                todo.extend(op.control_inputs if op.name not in live else ())
                live[op.name] = len(indices)
                inputs = op.inputs
                use(inputs[index] for index in self._needed(op, frozenset(indices)))
        given = frozenset(i for i, t in enumerate(graph.inputs) if t.op.name in live)
        return Living(set(live), used, given)

    def _needed(self, op: Any, used: FrozenSet[int]) -> FrozenSet[int]:
        """Return the indices of the inputs that these outputs of `op` need."""
        every = frozenset(range(len(op.inputs)))
        if op.type in LOOPS:
            return self.loop(op, used) & every
        if op.type not in CALLS and op.type not in CHOICES:
            return every
        functions = list(called_functions(op))
        skipped = 1 if op.type in CHOICES else 0
        if not functions:
            return every
        needed = {i + skipped for function in functions for i in self.of(function.graph, used).inputs}
        return frozenset(needed.union(range(skipped))) & every


class Called(NamedTuple):
    """A call on the way to an op: its path, and the name of the function that it calls."""

    path: str
    function: str


class Times(NamedTuple):
    """How often something runs in one call of the outermost function.

    Attributes:
        number: None where it is unknown whether it runs at all.
        at_least: whether it may run more often: the data decides how long a loop around it runs.
        steps_loop: path of the loop around it whose turns, of unknown number, are the steps of a call; the others are
            then those of one turn.
    """

    number: Optional[float] = 1.0
    at_least: bool = False
    steps_loop: Optional[str] = None

    def times(self, count: Optional[float]) -> "Times":
        """Return how often something runs that each of these times runs `count` times; None is unknown."""
        return self._replace(number=None if count is None or self.number is None else self.number * count)


class Site(NamedTuple):
    """A function's graph where the walk has come to it: the same function may be called from several places.

    Attributes:
        frames: the functions around its ops, from the outermost in, its own the last.
        prefixes: what stands before the names of its ops, from the outermost function in; ``/_N/`` stands for
            TensorFlow's counter. By all but the first a profile may name an op whose function was not inlined.
        outputs: indices of its outputs that are used outside; None is all.
        live: False where no output of the outermost function needs it.
        times: how often it runs in one call of the outermost function.
        inlined: False in functions that a dataset runs for itself.
        compiled: True where XLA compiles it.
        calls: every call around it, from the outside in.
    """

    frames: Frames
    prefixes: Tuple[str, ...] = ("",)
    outputs: Outputs = None
    live: bool = True
    times: Times = Times()
    inlined: bool = True
    compiled: bool = False
    calls: Tuple[Called, ...] = ()


class Visit(NamedTuple):
    """One product of a traced function: the tf.Operation, where it stands, and whether an output needs it."""

    op: Any
    site: Site
    live: bool = True

    @property
    def names(self) -> Tuple[str, ...]:
        """Return its name with those of the calls around it, then relative to each of the functions."""
        return tuple(prefix + self.op.name for prefix in self.site.prefixes)


def walk(root: Any, compiled: bool = False) -> List[Visit]:
    """Return the products of the FuncGraph `root` and of all functions that it calls.

    Args:
        root: the graph of a tf.function.
        compiled: whether XLA compiles it as a whole.
    """
    found: List[Visit] = []
    liveness = Liveness()
    todo = [Site(outermost_frame(root), compiled=compiled)]
    while todo:
        site = todo.pop()
        graph = site.frames[-1].graph
        living = liveness.of(graph, site.outputs) if site.live else None
        for op in graph.get_operations():
            live = living is not None and op.name in living.ops
            if op.type in GEMM_TYPES:
                found.append(Visit(op, site, live))
            if len(site.frames) < DEEPEST_GRAPH:
                used = frozenset(living.used.get(op.name, ()) if living is not None else ())
                todo.extend(_inside(site, op, live, used, liveness))
    if len({visit.site.times.steps_loop for visit in found} - {None}) <= 1:
        return found
    # Which of several loops makes how many of the steps is not known.
    return [v._replace(site=v.site._replace(times=_at_least(v.site.times))) for v in found]


def _at_least(times: Times) -> Times:
    return Times(times.number, True) if times.steps_loop else times


def ways(visits: Iterable[Visit]) -> Dict[int, Frames]:
    """Return the functions around each graph that was visited, by its id; of several ways in the first."""
    found: Dict[int, Frames] = {}
    for visit in visits:
        found.setdefault(id(visit.op.graph), visit.site.frames)
    return found


def _inside(site: Site, op: Any, live: bool, used: FrozenSet[int], liveness: Liveness) -> Iterator[Site]:
    """Yield the functions that `op` calls."""
    dataset = "Dataset" in op.type
    path = site.prefixes[0] + op.name
    for function in called_functions(op):
        step = op.name + ("/%s/_N/" % function.kind if function.kind else "/")
        prefixes = tuple(prefix + step for prefix in site.prefixes) + ("",)
        chosen = _chosen(op, function, site)
        outputs: Outputs = used if live and not dataset else None
        if op.type in LOOPS and live:
            outputs = liveness.loop(op, used) if function.kind == "body" else None
        yield Site(
            frames=entered(site.frames, op, function.graph),
            prefixes=tuple(dict.fromkeys(prefixes)),
            outputs=outputs,
            live=live and chosen is not False,
            times=_times(op, function, path, site) if chosen is not None else site.times.times(None),
            inlined=site.inlined and not dataset,
            compiled=site.compiled or is_compiled(op),
            calls=(*site.calls, Called(path, function.name)),
        )


def _chosen(op: Any, function: CalledFunction, site: Site) -> Optional[bool]:
    """Return whether a branch is the one that always runs, None where the data chooses; True of no branch."""
    if op.type not in CHOICES:
        return True
    if repeats_condition(op.inputs[0], site.frames):
        return function.kind == "then"
    held = holds(op.inputs[0], site.frames) if function.kind in ("then", "else") else None
    return None if held is None else (held == ALWAYS) == (function.kind == "then")


def _times(op: Any, function: CalledFunction, path: str, site: Site) -> Times:
    """Return how often a function that `op` calls runs, but for branches."""
    around = site.times
    if op.type not in LOOPS and op.type not in DATASET_LOOPS:
        return around.times(None) if "Dataset" in op.type else around
    known = turns(op, site.frames) if op.type in LOOPS else None
    if known is not None:
        return around.times(known + 1 if function.kind == "cond" else known)
    if counts_steps(function.graph):
        return around._replace(number=around.number and 1.0, steps_loop=path)
    return around._replace(at_least=True)


def alternatives(graphs: Iterable[Any], visits: Sequence[Visit]) -> List[Visit]:
    """Return the cuDNN ops of `graphs` that no visit reached.

    Keras 2 registers a second form of LSTM and GRU that nothing calls; TensorFlow puts it in the first one's
    place when it optimises the function for a GPU: one op for a whole loop.
    """
    seen = {id(visit.op.graph) for visit in visits}
    return [
        Visit(op, Site(outermost_frame(graph), inlined=False))
        for graph in graphs
        if id(graph) not in seen
        for op in graph.get_operations()
        if op.type.startswith("CudnnRNN")
    ]


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
