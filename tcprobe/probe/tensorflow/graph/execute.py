"""Tells what executes of what was traced: TensorFlow prunes, merges, fuses and renames ops before it runs them."""

from __future__ import annotations

import re
from typing import Any, Container, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from .called import BRANCHES
from .types import bare_type, is_gemm
from .walk import Visit, fused_names

ENDS = frozenset(("_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"))
CLUSTERS = frozenset(("_XlaRun", "_XlaCompile", "XlaLaunch", "_XlaLaunch"))
ALIKE = 0.5  # least share that a collected and a traced graph have of each other's nodes
DEEPEST_FUNCTION = 8
_COUNTER = re.compile(r"/(then|else|body|cond|branch|branches)/_\d+/")
_REWRITE = re.compile(r"(?:ArithmeticOptimizer|ConstantFolding)/(?:FoldTransposeInto\w*?_|FoldMultiplyInto\w*?_)")


class Executed(NamedTuple):
    """One product of an optimised graph.

    Attributes:
        name, op_type: as a profile shows them.
        path: the name with the calls around it where its function was not inlined.
        final: False in such a function, which is optimised only as it starts.
    """

    name: str
    op_type: str
    path: str
    final: bool


class Match(NamedTuple):
    """What is known of one traced product's execution."""

    executes: str
    name: Optional[str]
    op_type: Optional[str]
    aliases: Tuple[str, ...]


class Collector:
    """TensorFlow's own collection of the graphs that it optimises, on for a while."""

    def __init__(self, gaps: Any) -> None:
        self._gaps = gaps
        self.on = False

    def start(self) -> None:
        """Collect from now on; not where the script itself does (tf.summary.trace_on uses the same switch)."""
        from tensorflow.python.eager import context

        if self.on:
            return
        if _script_collects():
            self._gaps.add("graph collection", "tf.summary.trace_on is active in the script")
            return
        context.context().enable_graph_collection()
        self.on = True

    def take(self) -> List[Any]:
        """Return the FunctionGraphs collected since the start or the last take."""
        from tensorflow.python.eager import context

        if not self.on:
            return []
        collected = context.context().export_run_metadata()
        return list(collected.function_graphs) if collected is not None else []

    def stop(self) -> None:
        """Collect no more."""
        from tensorflow.python.eager import context

        if self.on and not _script_collects():
            context.context().disable_graph_collection()
        self.on = False


def _script_collects() -> bool:
    from tensorflow.python.ops import summary_ops_v2

    return getattr(summary_ops_v2, "_current_trace_context", None) is not None


class Pair(NamedTuple):
    """A root and a collected graph that may be one another's: their indices, the nodes that they share, the graph."""

    root: int
    place: int
    shared: int
    graphs: Any


def assign(collected: Iterable[Any], roots: Sequence[Any]) -> Dict[int, Any]:
    """Return the collected graph of each root by its index: the one whose nodes it traced.

    Pairs with most nodes in common come first, and both must share: a graph of a few nodes (an eager Identity) has
    names that any function has. Of like roots the last is meant: Keras 2 traces twice and runs the second.
    """
    names = [{op.name for op in root.get_operations() if op.type != "Placeholder"} for root in roots]
    pairs: List[Pair] = []
    for place, graphs in enumerate(collected):
        nodes = {n.name for n in graphs.pre_optimization_graph.node if n.op not in ENDS}
        shared = [len(nodes & known) for known in names]
        pairs += [
            Pair(i, place, n, graphs) for i, n in enumerate(shared) if n >= ALIKE * max(len(nodes), len(names[i]), 1)
        ]
    found: Dict[int, Any] = {}
    taken: Set[int] = set()
    for pair in sorted(pairs, key=lambda pair: (-pair.shared, -pair.root, pair.place)):
        if pair.root not in found and pair.place not in taken:
            found[pair.root] = pair.graphs
            taken.add(pair.place)
    return found


class Optimised(NamedTuple):
    """What a FunctionGraphs message says.

    Attributes:
        ops: the products, inlined or in the functions that its nodes call.
        calls: name of the function that each call left in the graph runs, by the call's path.
        clustered: True where auto-clustering gave parts of it to XLA; no collected graph shows what is in them.
    """

    ops: List[Executed]
    calls: Dict[str, str]
    clustered: bool


def optimised(graphs: Any) -> Optimised:
    """Read the partitioned graphs, which are what the executor runs."""
    found: Dict[Tuple[str, str], Executed] = {}
    calls: Dict[str, str] = {}
    for graph in graphs.partition_graphs:
        library = {f.signature.name: f.node_def for f in graph.library.function}
        for op in _of_nodes(graph.node, library, "", 0):
            found.setdefault((op.path, op.op_type), op)
        for node in graph.node:
            calls.update((normalised(node.name), function) for step, function in _called(node) if step == "/")
    clustered = any(node.op in CLUSTERS for graph in graphs.partition_graphs for node in graph.node)
    return Optimised(list(found.values()), calls, clustered)


def _of_nodes(nodes: Iterable[Any], library: Dict[str, Any], prefix: str, depth: int) -> Iterator[Executed]:
    for node in nodes:
        if is_gemm(node.op):
            yield Executed(node.name, node.op, prefix + node.name, not depth)
        if depth < DEEPEST_FUNCTION:
            for step, function in _called(node):
                if function in library:
                    yield from _of_nodes(library[function], library, prefix + node.name + step, depth + 1)


def _called(node: Any) -> Iterator[Tuple[str, str]]:
    """Yield the functions that a node calls, each with what stands between the node's name and the op's.

    What XLA compiles is left out: its ops do not run as they stand there.
    """
    if node.attr["_XlaMustCompile"].b if "_XlaMustCompile" in node.attr else False:
        return
    yield "/", node.op
    for name, value in node.attr.items():
        kind = BRANCHES.get(name)
        step = "/%s/_N/" % kind if kind else "/"
        for function in [value.func, *value.list.func]:
            if function.name:
                yield step, function.name


def normalised(path: str) -> str:
    """Return a path without TensorFlow's counters and the marks of its rewrites."""
    return _REWRITE.sub("", _COUNTER.sub(r"/\1/_N/", path))


def in_no_loop(op: Executed) -> bool:
    """Return whether an op runs once a call, as its name tells: in no loop, branch or function of its own."""
    return op.final and _COUNTER.search(op.name) is None


def match(visits: Sequence[Visit], graph: Optimised) -> Tuple[List[Match], List[Executed]]:
    """Return what each visit executes as, and the executed ops that nothing traced explains.

    An op executes at most once under each path: exact names are given out first, then the names of fused ops
    to the traced op nearest before them.
    """
    taken: Dict[int, Executed] = {}
    left: Dict[Tuple[str, str], List[Executed]] = {}
    for op in graph.ops:
        left.setdefault((normalised(op.path), bare_type(op.op_type)), []).append(op)
    exact = [(0, index, visit.path) for index, visit in enumerate(visits) if not visit.compiled]
    for candidates in (exact, None):
        for _, index, path in candidates or sorted(_fusions(visits, taken)):
            same = left.get((path, bare_type(visits[index].op.type)))
            if same and index not in taken:
                taken[index] = same.pop(0)
    return [_matched(v, taken.get(i), graph) for i, v in enumerate(visits)], [op for ops in left.values() for op in ops]


def _fusions(visits: Sequence[Visit], done: Container[int]) -> Iterator[Tuple[int, int, str]]:
    """Yield distance, index of the visit and path of every fused op that may hold one of `visits`."""
    for index, visit in enumerate(visits):
        if index not in done and not visit.compiled:
            for distance, name in enumerate(fused_names(visit.op)):
                yield distance, index, visit.path[: len(visit.path) - len(visit.op.name)] + name


def _matched(visit: Visit, executed: Optional[Executed], graph: Optimised) -> Match:
    if visit.compiled:
        return compiled(visit)
    if executed is not None and executed.final:
        return Match("yes", executed.name, executed.op_type, visit.names)
    for call in visit.calls:
        # TensorFlow appends what it specialised the function for.
        if graph.calls.get(call.path, "").startswith(call.function):
            return unoptimised(visit, call.path + "/")
    if executed is not None or (visit.live and not visit.inlined):
        return unoptimised(visit)
    return compiled(visit) if graph.clustered else Match("no", None, None, ())


def swapped_in(visit: Visit, graph: Optional[Optimised]) -> Match:
    """Return whether the optimised graph calls the alternative that `visit` stands in; unknown where there is none."""
    if graph is None:
        return Match("unknown", None, None, (visit.path,))
    name = visit.op.graph.name  # __forward_<name>_12_specialized_for_... or __inference_<name>_12_...
    if any(name in function for function in graph.calls.values()):
        return Match("yes", visit.op.name, visit.op.type, ())
    return Match("no", None, None, ())


def compiled(visit: Visit) -> Match:
    """Return what is known of an op that XLA compiles: dead ops go; what becomes of the others the HLO module says."""
    return Match("unknown", None, None, (visit.path, *visit.names)) if visit.live else Match("no", None, None, ())


def unoptimised(visit: Visit, call: str = "") -> Match:
    """Return what an op executes as where its graph was not collected: it lives or not, and may be fused yet.

    Args:
        visit: the traced op.
        call: path of the call that was not inlined, with a slash; the function's ops are named relative to it.
    """
    if visit.compiled or not visit.live:
        return compiled(visit)
    own = (visit.path, *visit.names)
    best = visit.path[len(call) :] if visit.inlined else own[-1]
    prefixes = [name[: len(name) - len(visit.op.name)] for name in (best, *own)]
    fused = [prefix + name for prefix in dict.fromkeys(prefixes) for name in fused_names(visit.op)]
    return Match("yes", best, None, tuple(dict.fromkeys([*own, *fused])))
