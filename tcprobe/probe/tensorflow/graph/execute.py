"""Tells what executes of what was traced: TensorFlow prunes, merges, fuses and renames ops before it runs them."""

from __future__ import annotations

import re
from typing import Any, Container, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .called import BRANCHES, bare_type, is_gemm
from .walk import Visit, fused_names

ENDS = frozenset(("_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"))
CLUSTERS = frozenset(("_XlaRun", "_XlaCompile", "XlaLaunch", "_XlaLaunch"))
ALIKE = 0.5  # least share that a collected and a traced graph have of each other's nodes
DEEPEST_FUNCTION = 8
_COUNTER = re.compile(r"/(then|else|body|cond|branch|branches)/_\d+/")
# A loop or branch that a gradient goes back through is made anew under another number, what is in it is not.
_NUMBER = re.compile(r"_\d+(?=/(?:then|else|body|cond|branch|branches)/_N/)")
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

    @property
    def in_no_loop(self) -> bool:
        """Whether it runs once a call, as its name tells: in no loop, branch or function of its own."""
        return self.final and _COUNTER.search(self.name) is None


class Match(NamedTuple):
    """What is known of one traced product's execution; the values stand until something else is known."""

    executes: str
    name: Optional[str] = None
    op_type: Optional[str] = None
    aliases: Tuple[str, ...] = ()


NEVER = Match("no")


class Collector:
    """TensorFlow's own collection of the graphs that it optimises, on for a while."""

    def __init__(self, gaps: Any) -> None:
        self._gaps = gaps
        self._context: Any = None  # TensorFlow's, while this collects

    @property
    def on(self) -> bool:
        """Whether graphs are collected."""
        return self._context is not None

    def start(self) -> None:
        """Collect from now on; not where the script itself does (tf.summary.trace_on uses the same switch)."""
        if self.on:
            return
        if _script_collects():
            self._gaps.add("graph collection", "tf.summary.trace_on is active in the script")
            return
        from tensorflow.python.eager import context

        context.context().enable_graph_collection()
        self._context = context.context()

    def take(self) -> List[Any]:
        """Return the FunctionGraphs collected since the start or the last take."""
        collected = self._context.export_run_metadata() if self.on else None
        return [] if collected is None else list(collected.function_graphs)

    def stop(self) -> None:
        """Collect no more."""
        if self.on and not _script_collects():
            self._context.disable_graph_collection()
        self._context = None


def _script_collects() -> bool:
    from tensorflow.python.ops import summary_ops_v2

    return getattr(summary_ops_v2, "_current_trace_context", None) is not None


def assign(collected: Iterable[Any], roots: Sequence[Any]) -> Dict[int, Any]:
    """Return the collected graph of each root by its index: the one whose nodes it traced.

    Pairs with most nodes in common come first, and both must share: a graph of a few nodes (an eager Identity) has
    names that any function has. Of like roots the last is meant: Keras 2 traces twice and runs the second.
    """
    names = [{op.name for op in root.get_operations() if op.type != "Placeholder"} for root in roots]
    left = dict(enumerate(collected))
    pairs: List[Tuple[int, int, int]] = []  # how many nodes they share, the root, the graph from the last
    for place, graphs in left.items():
        nodes = {n.name for n in graphs.pre_optimization_graph.node if n.op not in ENDS}
        for root, traced in enumerate(names):
            shared = len(nodes & traced)
            if shared >= ALIKE * max(len(nodes), len(traced), 1):
                pairs.append((shared, root, -place))
    found: Dict[int, Any] = {}
    for _, root, place in sorted(pairs, reverse=True):
        if root not in found and -place in left:
            found[root] = left.pop(-place)
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
    clustered = False
    for graph in graphs.partition_graphs:
        library = {f.signature.name: f.node_def for f in graph.library.function}
        for op in _of_nodes(graph.node, library, "", 0):
            found.setdefault((op.path, op.op_type), op)
        for node in graph.node:
            calls.update((normalised(node.name), function) for step, function in _called(node) if step == "/")
            clustered = clustered or node.op in CLUSTERS
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
    if "_XlaMustCompile" in node.attr and node.attr["_XlaMustCompile"].b:
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


def match(visits: Sequence[Visit], graph: Optimised) -> Tuple[List[Match], List[Executed]]:
    """Return what each visit executes as, and the executed ops that nothing traced explains.

    An op executes at most once under each path: exact names are given out first, then the names of fused ops
    to the traced op nearest before them, then names in loops of another number where only one op fits.
    """
    taken: Dict[int, Executed] = {}
    left: Dict[Tuple[str, str], List[Executed]] = {}
    for op in graph.ops:
        left.setdefault((normalised(op.path), bare_type(op.op_type)), []).append(op)

    def give(index: int, path: str) -> None:
        same = left.get((path, bare_type(visits[index].op.type)))
        if same and index not in taken:
            taken[index] = same.pop(0)

    for index, visit in enumerate(visits):
        if not visit.site.compiled:
            give(index, visit.names[0])
    fusions = sorted(_fusions(visits, taken))
    for _, index, path in fusions:
        give(index, path)
    renumbered: Dict[Tuple[str, str], List[str]] = {}
    for path, kind in (key for key, ops in left.items() if ops):
        renumbered.setdefault((_NUMBER.sub("", path), kind), []).append(path)
    names = [(index, visit.names[0]) for index, visit in enumerate(visits) if not visit.site.compiled]
    for index, path in [*names, *((index, path) for _, index, path in fusions)]:
        alike = renumbered.get((_NUMBER.sub("", path), bare_type(visits[index].op.type)), [])
        if len(alike) == 1:
            give(index, alike[0])
    return [_matched(v, taken.get(i), graph) for i, v in enumerate(visits)], [op for ops in left.values() for op in ops]


def _fusions(visits: Sequence[Visit], done: Container[int]) -> Iterator[Tuple[int, int, str]]:
    """Yield distance, index of the visit and path of every fused op that may hold one of `visits`."""
    for index, visit in enumerate(visits):
        if index not in done and not visit.site.compiled:
            for distance, name in enumerate(fused_names(visit.op)):
                yield distance, index, visit.site.prefixes[0] + name


def _matched(visit: Visit, executed: Optional[Executed], graph: Optimised) -> Match:
    if visit.site.compiled:
        return _compiled(visit)
    if executed is not None and executed.final:
        return Match("yes", executed.name, executed.op_type, visit.names[1:])
    for call in visit.site.calls:
        # TensorFlow appends what it specialised the function for.
        if graph.calls.get(call.path, "").startswith(call.function):
            return unoptimised(visit, call.path + "/")
    if executed is not None or (visit.live and not visit.site.inlined):
        return unoptimised(visit)
    return _compiled(visit) if graph.clustered else NEVER


def swapped_in(visit: Visit, graph: Optional[Optimised]) -> Match:
    """Return whether the optimised graph calls the alternative that `visit` stands in; unknown where there is none."""
    if graph is None:
        return Match("unknown", aliases=visit.names)
    name = visit.op.graph.name  # __forward_<name>_12_specialized_for_... or __inference_<name>_12_...
    called = any(name in function for function in graph.calls.values())
    return Match("yes", visit.op.name, visit.op.type) if called else NEVER


def _compiled(visit: Visit) -> Match:
    """Return what is known of an op that XLA compiles: dead ops go; what becomes of the others the HLO module says."""
    return Match("unknown", aliases=visit.names) if visit.live else NEVER


def unoptimised(visit: Visit, call: str = "") -> Match:
    """Return what an op executes as where its graph was not collected: it lives or not, and may be fused yet.

    Args:
        visit: the traced op.
        call: path of the call that was not inlined, with a slash; the function's ops are named relative to it.
    """
    if visit.site.compiled or not visit.live:
        return _compiled(visit)
    own = visit.names
    prefixes = visit.site.prefixes
    best = prefixes[0][len(call) :] if visit.site.inlined else prefixes[-1]
    fused = [prefix + name for prefix in dict.fromkeys((best, *prefixes)) for name in fused_names(visit.op)]
    return Match("yes", best + visit.op.name, None, tuple(dict.fromkeys([*own, *fused])))
