"""Finds whose output features an op works on: back from its operand to the products and tables that made them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..tensorflow.graph.called import GEMM_TYPES, Frames, beyond, operation
from ..tensorflow.graph.passes import VARIABLES

# Every output feature of these comes from the same feature of each input of as many dimensions.
ELEMENTWISE = frozenset(
    (
        "Abs Acos Add AddN AddV2 Atan Cast Ceil CheckNumerics ClipByValue Cos DivNoNan Elu EnsureShape Erf Erfc Exp"
        " Expm1 Floor Identity IdentityN IsFinite LeakyRelu Log Log1p Maximum Minimum Mul MulNoNan Neg Pow"
        " PreventGradient RealDiv Reciprocal Relu Relu6 Round Rsqrt Select SelectV2 Selu Sigmoid Sign Sin Snapshot"
        " Softmax Softplus Softsign Sqrt Square SquaredDifference StopGradient Sub Tanh Xdivy"
    ).split()
)
# These keep the features of their first input apart; the others are weights, sizes and statistics.
FIRST_INPUT = frozenset(
    (
        "AvgPool AvgPool3D BatchToSpaceND BiasAdd BiasAddV1 CropAndResize ExpandDims FusedBatchNorm FusedBatchNormV2"
        " FusedBatchNormV3 LRN MaxPool MaxPool3D MaxPoolV2 MirrorPad Pad PadV2 ResizeArea ResizeBicubic"
        " ResizeBilinear ResizeNearestNeighbor ReverseV2 ScaleAndTranslate SpaceToBatchND Squeeze Transpose"
    ).split()
)
# These do so where the last dimension is as long behind them as before.
SAME_LAST = frozenset(
    "BroadcastTo Concat ConcatV2 GatherV2 GatherNd Max Mean Min Pack Slice Split SplitV StridedSlice Sum Tile"
    " Unpack".split()
)
JOINS = frozenset(("Concat", "ConcatV2"))  # behind these along the last dimension the features of all inputs are
DEPTHWISE = frozenset(("DepthwiseConv2dNative",))  # no product; keeps features where it makes one of each
RESHAPES = frozenset(("Reshape",))
DATA = frozenset(
    (
        "IteratorGetNext IteratorGetNextSync OptionalGetValue RandomUniform RandomStandardNormal TruncatedNormal"
        " StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomNormal StatelessRandomNormalV2"
        " StatelessTruncatedNormalV2 RandomUniformInt OneHot Fill"
    ).split()
)
MOST_TENSORS = 4000  # tensors that one search looks at
Key = Tuple[int, str]


class Fed(NamedTuple):
    """What an operand's features are.

    Attributes:
        layers: layers whose output features they are, whole, reshaped or joined, nearest first.
        reshaped: a reshape lies between.
        data: features of what the function is given, or of random numbers, are among them.
    """

    layers: List[str]
    reshaped: bool
    data: bool


def key_of(tensor: Any) -> Key:
    """Return what tells a graph tensor from all others of a live function."""
    return id(tensor.op.graph), tensor.name


class Feeds:
    """Searches the graphs that a function reaches.

    Args:
        ways: the functions around each graph, by its id; an eager step is in none.
        product: name of a product's layer, None for one of the user's own.
        tables: layers that make features without a product (`Embedding`), by their output.
        made: every innermost layer that was called, by its output.
    """

    def __init__(
        self,
        ways: Dict[int, Frames],
        product: Callable[[Any], Optional[str]],
        tables: Dict[Key, str],
        made: Dict[Key, str],
    ) -> None:
        self._product = product
        self._tables = tables
        self._made = made
        self._ways = ways

    def features(self, tensor: Any, frames: Optional[Frames] = None) -> Fed:
        """Return the layers whose output features arrive in `tensor`, with only ops between that keep them apart."""
        layers: Dict[str, None] = {}
        reshaped = data = False
        for found, op in self._search([tensor], frames, self._back):
            if self._ends(found, op):
                name = self._tables.get(key_of(found)) or self._product(op)
                layers.update({name: None} if name else {})
            reshaped = reshaped or op.type in RESHAPES
            data = data or op.type in DATA or op.type == "Placeholder"
        return Fed(list(layers), reshaped, data)

    def maker(self, tensor: Any) -> Optional[str]:
        """Return the innermost layer that made a tensor; None where ops between layers did."""
        return self._made.get(key_of(tensor))

    def sources(self, tensors: Iterable[Any], own: Sequence[str]) -> List[str]:
        """Return the layers whose outputs arrive in `tensors`, through whatever ops; `own` are names of the taker."""
        layers: Dict[str, None] = {}

        def back(tensor: Any, op: Any) -> Iterable[Any]:
            name = self._made.get(key_of(tensor))
            if name is not None and name not in own:
                layers[name] = None
                return ()
            return () if op.type in VARIABLES else list(op.inputs)

        for _ in self._search(list(tensors), None, back):
            pass
        return list(layers)

    def _ends(self, tensor: Any, op: Any) -> bool:
        """Return whether features are made here: by a product, a table, or a convolution that multiplies channels."""
        if op.type in DEPTHWISE:
            return not (_last(op.inputs[0]) == _last(tensor) is not None)
        return op.type in GEMM_TYPES or key_of(tensor) in self._tables

    def _back(self, tensor: Any, op: Any) -> Iterable[Any]:
        """Return the inputs of `op` whose features come out of it apart."""
        if self._ends(tensor, op):
            return ()
        if op.type in ELEMENTWISE:
            rank = tensor.shape.rank
            return [t for t in op.inputs if rank is None or t.shape.rank in (None, rank) or rank == 0]
        if op.type in FIRST_INPUT or op.type in RESHAPES or op.type in DEPTHWISE:
            return list(op.inputs[:1])
        if op.type in JOINS and _joins_features(tensor, op):
            return [t for t in op.inputs if t.shape.rank == tensor.shape.rank]
        if op.type in SAME_LAST:
            return [t for t in op.inputs if _last(t) is not None and _last(t) == _last(tensor)]
        return ()

    def _search(
        self, tensors: List[Any], frames: Optional[Frames], back: Callable[[Any, Any], Iterable[Any]]
    ) -> Iterator[Tuple[Any, Any]]:
        """Yield every tensor that `back` leads to, across calls, with its op; a placeholder only where it is data."""
        todo = [(t, self._ways.get(id(t.op.graph), ()) if frames is None else frames) for t in tensors]
        seen: Set[Tuple[int, str, int]] = set()
        while todo and len(seen) < MOST_TENSORS:
            tensor, around = todo.pop(0)
            op = operation(tensor)
            key = (id(getattr(op, "graph", None)), getattr(tensor, "name", ""), len(around))
            if op is None or key in seen or tensor.dtype.name == "resource":
                continue
            seen.add(key)
            passed = None if key_of(tensor) in self._tables else beyond(tensor, around)
            if passed is not None and operation(passed[0]) is not None:
                todo.append(passed)
                continue
            yield tensor, op
            todo.extend((t, around) for t in back(tensor, op))


def _joins_features(tensor: Any, op: Any) -> bool:
    """Return whether the last dimensions of what is concatenated add up to that of the result."""
    sizes = [_last(t) for t in op.inputs if t.shape.rank == tensor.shape.rank]
    return None not in sizes and sum(s for s in sizes if s is not None) == _last(tensor)


def _last(tensor: Any) -> Optional[int]:
    rank = tensor.shape.rank
    return None if not rank or tensor.shape[-1] is None else int(tensor.shape[-1])
