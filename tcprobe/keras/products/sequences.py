"""Recurrent layers: cuDNN's one op for all time steps, or Keras' loop of small products.

Source: keras/src/layers/rnn and keras/src/backend/tensorflow/rnn.py (cudnn_ok), Keras 3.

Attention layers as TensorFlow's ops, in the form in which Keras 3 calls them.

Source: keras/src/layers/attention, and dot_product_attention of keras/src/backend/tensorflow/nn.py.
"""

from __future__ import annotations

from collections.abc import Callable
from string import ascii_lowercase
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.passes import (
    InputShapes,
    Passes,
    Records,
    activations,
    einsum,
    einsum_dense,
    fully_connected,
    times,
)
from tcprobe.keras.settings import LayerSettings, flag_of, is_size, rate_of, shape_of, size_of, word_of, wrapped_layer
from tcprobe.keras.shapes import features_of
from tcprobe.schema.op import Shape, Size, product

MOST_QUERY_DIMENSIONS: Final = 8  # of a query: past it the labels of its equations run out


def operands(shapes: InputShapes) -> tuple[Shape, Shape, Shape] | None:
    """Return the shapes of query, value and key; the key is the value where it is not given.

    What is not known has as many dimensions as the others, three where none is. None where they do not fit.
    """
    given = [shapes[index] if index < len(shapes) else None for index in range(3)]
    ranks = {len(shape) for shape in given if shape is not None} or {3}
    rank = ranks.pop()
    if ranks or not 3 <= rank <= MOST_QUERY_DIMENSIONS:
        return None
    unknown: Shape = (next((s[0] for s in given if s is not None), None), *(None,) * (rank - 1))
    query, value, key = (unknown if shape is None else shape for shape in given)
    return query, value, value if len(shapes) < 3 else key


def multi_head(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return a MultiHeadAttention: four projections, the scores QK^T and their product with the values."""
    heads, key_dim = size_of(config, "num_heads"), size_of(config, "key_dim")
    sizes = heads, heads, key_dim, size_of(config, "value_dim", key_dim)
    known = operands(shapes)
    features = None if config.get("output_shape") is None else features_of(config) or (None,)
    return [] if known is None else _of_heads(passes, config, known, sizes, features, _attend)


def grouped_query(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return a GroupedQueryAttention: keys and values have fewer heads, repeated before they meet the queries."""
    dim = size_of(config, "head_dim")
    sizes = size_of(config, "num_query_heads"), size_of(config, "num_key_value_heads"), dim, dim
    known = operands(shapes)
    plain = known is not None and len(known[0]) == 3
    return _of_heads(passes, config, known, sizes, None, _attend_grouped) if known and plain else []


def _of_heads(
    passes: Passes,
    config: LayerSettings,
    known: tuple[Shape, Shape, Shape],
    sizes: tuple[Size, Size, Size, Size],
    features: Shape | None,
    attend: Callable[[Passes, LayerSettings, Shape, Shape, Shape], Records],
) -> Records:
    """Return all products of a layer.

    Args:
        passes: of the layer.
        config: its settings.
        known: shapes of query, value and key.
        sizes: heads, those of keys and values, the size of a key and of a value in each.
        features: that it puts out; None for those of the query.
        attend: gives scores and their product with the values, from the shapes of query, key and value in heads.
    """
    (query, value, key), (heads, few, key_dim, value_dim) = known, sizes
    found = _project(passes, query, (heads, key_dim)) + _project(passes, key, (few, key_dim))
    found += _project(passes, value, (few, value_dim))
    if flag_of(config, "use_gate", False):
        found += _project(passes, query, (heads, value_dim))
    q, k, v = ((*shape[:-1], heads, dim) for shape, dim in ((query, key_dim), (key, key_dim), (value, value_dim)))
    found += attend(passes.inside, config, q, k, v)
    return found + _project(passes.inside, (*query[:-1], heads, value_dim), features or (query[-1],), bound=2)


def attention(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return an Attention layer (scores by a product, unless ``score_mode`` is concat) or an AdditiveAttention."""
    known = operands(shapes)
    if known is None or len(known[0]) != 3:
        return []
    query, value, key = known
    scored = kind == "Attention" and word_of(config, "score_mode", "dot") == "dot"
    found = activations(passes, query, (key[0], key[2], key[1])) if scored else []
    return found + activations(passes, (query[0], query[1], value[1]), value)


def _project(passes: Passes, shape: Shape, into: Shape, bound: int = 1) -> Records:
    """Return the projection of the last dimensions into others.

    Of a sequence into heads ``abc,cde->abde``, of its heads into features ``abcd,cde->abe``.
    """
    labels = ascii_lowercase[: len(shape) + len(into)]
    first = len(shape) - bound
    free, summed, out = labels[:first], labels[first : len(shape)], labels[len(shape) :]
    sizes = dict(zip(labels, (*shape, *into), strict=True))
    return einsum_dense(passes, (free + summed, summed + out, free + out), sizes)


def _attend(passes: Passes, config: LayerSettings, q: Shape, k: Shape, v: Shape) -> Records:
    """Return scores and their product with the values.

    Keras takes dot_product_attention unless there is dropout or the input has more than one sequence dimension;
    then it writes einsums, of which it runs those of one sequence dimension as tf.matmul.
    """
    axes = config.get("attention_axes")
    if len(q) == 4 and axes in (None, (1,), [1], 1):
        return _batched(passes, q, k, v, queries_first=False) if rate_of(config, "dropout") else _fused(passes, q, k, v)
    rank = len(q)
    chosen = tuple(range(1, rank - 2)) if axes is None else shape_of([axes] if is_size(axes) else axes)
    if chosen is None or any(a is None or not 0 < a < rank - 2 for a in chosen):
        return []
    return _by_equations(passes, _equations(rank, tuple(a for a in chosen if a is not None)), k, q, v)


def _by_equations(passes: Passes, equations: tuple[str, str], a: Shape, b: Shape, v: Shape) -> Records:
    """Return the scores of two operands and their product with the values."""
    scores = einsum(passes, equations[0], a, b, weights=False)
    return scores + einsum(passes, equations[1], scores[0][0].output_shape or (), v, weights=False)


def _attend_grouped(passes: Passes, config: LayerSettings, q: Shape, k: Shape, v: Shape) -> Records:
    return _batched(passes, q, k, v, queries_first=True) if rate_of(config, "dropout") else _fused(passes, q, k, v)


def _fused(passes: Passes, q: Shape, k: Shape, v: Shape) -> Records:
    return _by_equations(passes, ("BTNH,BSNH->BNTS", "BNTS,BSNH->BTNH"), q, k, v)


def _batched(passes: Passes, q: Shape, k: Shape, v: Shape, queries_first: bool) -> Records:
    (batch, steps, heads, dim), sources = q, k[1]
    if queries_first:
        scores = activations(passes, (batch, heads, steps, dim), (batch, heads, dim, sources))
    else:
        scores = activations(passes, (batch, heads, sources, dim), (batch, heads, dim, steps))
    return scores + activations(passes, (batch, heads, steps, sources), (batch, heads, sources, v[3]))


def _equations(rank: int, axes: tuple[int, ...]) -> tuple[str, str]:
    """Return Keras' equations for any attended dimensions (multi_head_attention.py, _build_attention_equation)."""
    target = ascii_lowercase[:rank]
    fresh = iter(ascii_lowercase[rank:])
    source = "".join(next(fresh) if index in axes else label for index, label in enumerate(target))
    batch = "".join(label for index, label in enumerate(target[:-1]) if index not in axes)
    scores = batch + "".join(target[a] for a in axes) + "".join(source[a] for a in axes)
    return f"{source},{target}->{scores}", f"{scores},{source}->{target}"


def uses_cudnn(kind: str, config: LayerSettings) -> bool | None:
    """Say whether an LSTM or GRU on a GPU runs in cuDNN; None where a setting it hangs on is not known.

    Source: keras/src/backend/tensorflow/rnn.py, _do_lstm_arguments_support_cudnn and _do_gru_...; a mask that is
    not padded at the right also keeps it off, which settings do not tell.
    """
    needs = class_of(kind).cudnn
    if not needs:
        return False
    answers = [meets(config, name, need) for name, need in needs]
    given = config.get("use_cudnn", "auto")
    answers.append(given is not False if given in ("auto", True, False) else None)
    return False if False in answers else None if None in answers else True


def meets(config: LayerSettings, name: str, need: str | float | bool) -> bool | None:
    """Say whether a setting is what cuDNN needs, which is Keras' default; None where it is not known."""
    value: str | float | None
    if isinstance(need, str):
        value = word_of(config, name, need)
    else:
        value = flag_of(config, name, need) if isinstance(need, bool) else rate_of(config, name)
    return None if value is None else value == need


def recurrent(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return an LSTM, GRU or SimpleRNN, or an RNN around cells of these.

    Where settings do not say whether cuDNN can run it, cuDNN's form is returned.
    """
    shape = shapes[0]
    if shape is None or len(shape) != 3:
        shape = (None, None, None)
    if kind == "RNN":
        return _cells(passes, config, shape)
    if uses_cudnn(kind, config) is not False:
        return _cudnn(passes, kind, size_of(config, "units"), shape)
    return _loop(passes, kind, config, shape, flag_of(config, "unroll", False) is True)


def _cudnn(passes: Passes, kind: str, units: Size, shape: Shape) -> Records:
    """The gradient op computes those of inputs, state and weights at once; its pass says the most it is needed for."""
    batch, steps, inputs = shape
    x, state, out = (steps, batch, inputs), (1, batch, units), (steps, batch, units)
    attributes = {"rnn_mode": kind.lower(), "direction": "unidirectional", "input_mode": "linear_input"}
    found = [(passes.op("CudnnRNNV3", (x, state, state), out, "forward", **attributes), 1.0)]
    if passes.backward:
        pass_ = "wgrad" if passes.weights else "dgrad"
        found.append((passes.op("CudnnRNNBackpropV3", (x, state, state), x, pass_, **attributes), 1.0))
    return found


def _cells(passes: Passes, config: LayerSettings, shape: Shape) -> Records:
    """Return the loops over a cell or a stack of cells, each of which takes the units of the one before."""
    found: Records = []
    unroll = flag_of(config, "unroll", False) is True
    for kind, settings in _stack(config.get("cell")):
        if not class_of(kind).gates:
            return []
        found += _loop(passes, kind, settings, shape, unroll)
        shape, passes = (*shape[:-1], size_of(settings, "units")), passes.inside
    return found


def _stack(cell: Any) -> list[tuple[str, LayerSettings]]:
    if isinstance(cell, list | tuple):
        return [pair for one in cell for pair in _stack(one)]
    inner = wrapped_layer({"cell": cell}, "cell")
    if inner is None:
        return []
    if inner[0] == "StackedRNNCells":
        return _stack(inner[1].get("cells"))
    return [(inner[0].removesuffix("Cell"), inner[1])]


def _loop(passes: Passes, kind: str, config: LayerSettings, shape: Shape, unroll: bool) -> Records:
    """Return the products of one time step, as often as there are steps; of unknown rows where that is not known."""
    batch, steps, inputs = shape
    rows = None if steps is None else batch
    units, gates = size_of(config, "units"), class_of(kind).gates
    of_input, of_state = _products(kind, config, gates)
    count = 1 if steps is None else steps
    found: Records = []
    for width in of_input:
        found += times(_step(passes, (rows, inputs, units), width, of_state=False), steps)
    scaled = kind == "GRU" and flag_of(config, "reset_after", True) is False
    for index, width in enumerate(of_state):
        step = _step(passes.inside, (rows, units, units), width, of_state=True)
        # Unrolled, nothing takes the gradient of the first state, unless a gate has scaled it before the product.
        spared = unroll and not (scaled and index == len(of_state) - 1)
        found += [(record, float(count - (spared and record.pass_ == "dgrad"))) for record, _ in step]
    return [(record, calls) for record, calls in found if calls]


def _products(kind: str, config: LayerSettings, gates: int) -> tuple[list[int], list[int]]:
    """Return how many gates each product of the input and each of the state computes at once."""
    dropped = rate_of(config, "recurrent_dropout")
    if kind != "SimpleRNN" and (config.get("implementation", 2) == 1 or dropped):
        return [1] * gates, [1] * gates
    if kind == "GRU" and flag_of(config, "reset_after", True) is False:
        return [3], [2, 1]
    return [gates], [gates]


def _step(passes: Passes, sizes: tuple[Size, Size, Size], gates: int, of_state: bool) -> Records:
    rows, inputs, units = sizes
    marks = {"gates": gates, "recurrent": of_state}
    found = fully_connected(passes, rows, inputs, product((gates, units)))
    return [(replace(record, attributes={**record.attributes, **marks}), calls) for record, calls in found]
