"""From a layer to the ops of one training step, as TensorFlow would run them.

Products that code calls by itself (``tf.matmul``, ``tf.nn.conv2d``, ``tf.einsum``) as ops of a training step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from tcprobe.keras.catalogue import canonical_kind, class_of
from tcprobe.keras.products.conv import conv, conv_recurrent, conv_transpose, separable
from tcprobe.keras.products.passes import (
    InputShapes,
    Passes,
    Records,
    activations,
    einsum,
    einsum_dense,
    fully_connected,
    multiplied,
    times,
)
from tcprobe.keras.products.sequences import attention, grouped_query, multi_head, recurrent
from tcprobe.keras.row import ProductRule
from tcprobe.keras.settings import LayerSettings, size_of, wrapped_layer
from tcprobe.keras.shapes import dot_axes, einsum_sizes, reads_backwards
from tcprobe.schema.model import Layer
from tcprobe.schema.op import OpRecord, Shape, Size, product

OwnOp: TypeAlias = Literal["matmul", "conv", "einsum"]
_KINDS: Final = {3: "Conv1D", 4: "Conv2D", 5: "Conv3D"}


class Operand(Struct, frozen=True):
    """One of the two things that are multiplied."""

    shape: Shape | None  # None where its rank is not known
    trained: bool  # whether anything behind it is trained, so that a step computes its gradient
    weights: bool = False  # whether it is weights itself


def own_records(op: OwnOp, a: Operand, b: Operand, dtype: str | None, settings: dict[str, Any]) -> Records:
    """Return the ops of a product and of its gradients; nothing where a size that they need is not known.

    Where weights are known, what they multiply may be open but for its features, which are theirs.

    Args:
        op: which product.
        a: the first operand.
        b: the second.
        dtype: that it computes in; None where unknown.
        settings: ``transpose_a`` and ``transpose_b`` of a matmul, ``equation`` of an einsum, of a convolution what
            Keras calls ``strides``, ``padding`` and ``dilation_rate``; ``...`` where unknown.
    """
    if b.shape is None or None in b.shape or any(value is ... for value in settings.values()):
        return []
    passes = Passes(dtype, data=a.trained, weights=b.trained)
    if op == "conv":
        return _convolved(passes, a.shape, b.shape, settings)
    if op == "matmul" and b.weights and len(b.shape) == 2 and not settings["transpose_a"]:
        a = Operand(_with_features(a.shape, _matrix(b.shape, settings["transpose_b"])[0]), a.trained)
    elif a.shape is None or None in a.shape:
        return []
    if a.shape is None:
        return []
    if op == "einsum":
        return _by_equation(passes, settings["equation"], a.shape, b.shape, b.weights)
    return _matmul(passes, a.shape, b.shape, settings["transpose_a"], settings["transpose_b"], b.weights)


def _with_features(shape: Shape | None, features: Size) -> Shape:
    """Return a shape with features that it must have; of unknown rank as a matrix of unknown rows."""
    if not shape:
        return None, features
    return (*shape[:-1], features) if shape[-1] is None else shape


def _matmul(passes: Passes, a: Shape, b: Shape, turn_a: bool, turn_b: bool, weights: bool) -> Records:
    if len(a) < 2 or len(b) < 2 or _matrix(a, turn_a)[1] != _matrix(b, turn_b)[0]:
        return []
    if len(a) > 2 and len(b) > 2 and a[:-2] != b[:-2]:
        return []
    return multiplied(passes, a, b, turn_a, turn_b, weights)


def _matrix(shape: Shape, turned: bool) -> tuple[Size, Size]:
    rows, columns = shape[-2:]
    return (columns, rows) if turned else (rows, columns)


def _by_equation(passes: Passes, equation: str, a: Shape, b: Shape, weights: bool) -> Records:
    left, _, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    plain = len(operands) == 2 and all(part.isalpha() for part in operands) and (result.isalpha() or not result)
    repeats = any(len(set(part)) < len(part) for part in (*operands, result))
    if not plain or not result or repeats or [len(part) for part in operands] != [len(a), len(b)]:
        return []
    sizes = dict(zip(operands[0], a, strict=True))
    agrees = all(sizes.get(label, size) == size for label, size in zip(operands[1], b, strict=True))
    known = set(result) <= set(operands[0] + operands[1])
    return einsum(passes, f"{left}->{result}", a, b, weights) if agrees and known else []


def _convolved(passes: Passes, image: Shape | None, kernel: Shape, settings: dict[str, Any]) -> Records:
    kind = _KINDS.get(len(kernel))
    if kind is None or (image is not None and len(kernel) != len(image)):
        return []
    *taps, channels, filters = kernel
    image = (*(image or (None,) * len(kernel))[:-1], image[-1] if image and image[-1] else channels)
    last = image[-1]
    if not channels or last is None or last % channels:
        return []
    config = {"filters": filters, "kernel_size": tuple(taps), "groups": last // channels, **settings}
    return conv(passes, kind, config, [image])


__all__ = ["records_kept", "records_of"]


def records_of(layer: Layer, batch: int) -> list[tuple[OpRecord, float]]:
    """Return the ops of a layer that multiply matrices in one training step, and how often each runs.

    The ops are those of Keras 3 on TensorFlow on a GPU without XLA, gradients included: of the weights unless
    `layer.trainable` is False, of the inputs unless `layer.is_first` is True.

    Args:
        layer: kind, config, input_shapes, dtype, trainable, is_first, calls and samples count. In its config an absent
            setting has Keras' default; one of a wrong type (``...``) is not known.
        batch: samples where the input shapes leave them open.

    Returns:
        (op, executions a step); nothing where it multiplies no matrices or is none of Keras' layers. A size that
        is not known is None, so that its GEMMs are unknown too. Where the number of time steps of a loop is not
        known, one step with unknown rows stands for all.
    """
    passes = Passes(layer.dtype, data=layer.is_first is not True, weights=layer.trainable is not False)
    rows = None if layer.samples is None else batch * layer.samples
    shapes = [(rows, *s[1:]) if s and s[0] is None else s for s in layer.input_shapes] or [None]
    return times(_records(passes, canonical_kind(layer.kind), layer.config, shapes), layer.calls)


def records_kept(layer: Layer, batch: int, kept: dict[object, Records]) -> Records:
    """Return the same; `kept` has those of layers before, since models have many that are alike."""
    if class_of(layer.kind).products not in _READERS:
        return []
    runs = layer.is_first, layer.trainable, layer.calls, layer.samples
    key = (layer.kind, repr(layer.config), layer.input_shapes, layer.dtype, *runs)
    if key not in kept:
        kept[key] = records_of(layer, batch)
    return kept[key]


def _records(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    reader = _READERS.get(class_of(kind).products)
    return [] if reader is None else reader(passes, kind, config, shapes)


def _dense(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    shape = shapes[0]
    rows, inputs = (None, None) if not shape else (product(shape[:-1]), shape[-1])
    return fully_connected(passes, rows, inputs, size_of(config, "units"))


def _einsum_dense(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    equation = config.get("equation")
    shape = shapes[0]
    if shape is None and isinstance(equation, str) and "." not in equation:
        shape = (None,) * len(equation.replace(" ", "").split(",")[0])
    known = None if shape is None else einsum_sizes(config, shape)
    if known is None:
        return passes.keep(*(passes.op("Einsum", (), (), pass_) for pass_ in ("forward", "dgrad", "wgrad")))
    return einsum_dense(passes, known[0], dict(known[1]), dots="..." in str(equation))


def _reversible(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """The tied projection onto the vocabulary; looking tokens up multiplies nothing."""
    shape = shapes[0]
    if not reads_backwards(config, shape):
        return []
    rows = None if shape is None else product(shape[:-1])
    return fully_connected(passes, rows, size_of(config, "output_dim"), size_of(config, "input_dim"))


def _dot(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Keras' batch_dot squashes what is not contracted into one dimension of each side."""
    known = [shape for shape in shapes if shape is not None]
    axes = dot_axes(config, known)
    if axes is None or len(shapes) != 2:
        return []
    left, right = known
    rows = product(size for index, size in enumerate(left[1:], 1) if index != axes[0])
    columns = product(size for index, size in enumerate(right[1:], 1) if index != axes[1])
    return activations(passes, (left[0], rows, left[axes[0]]), (right[0], right[axes[1]], columns))


def _time_distributed(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """The layer inside once for each time step; of an unknown batch where their number is not known."""
    shape = shapes[0]
    if shape is None or len(shape) < 3:
        return _wrapper(passes, kind, config, [None])
    batch, steps, *rest = shape
    return times(_wrapper(passes, kind, config, [(None if steps is None else batch, *rest)]), steps)


def _bidirectional(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    forward, backward = wrapped_layer(config), wrapped_layer(config, "backward_layer")
    if forward is None:
        return []
    found = _records(passes, *forward, shapes)
    return found + _records(passes, *backward, shapes) if backward is not None else times(found, 2)


def _wrapper(passes: Passes, _: str, config: LayerSettings, shapes: InputShapes) -> Records:
    inner = wrapped_layer(config)
    return [] if inner is None else _records(passes, *inner, shapes)


_READERS: Final[Mapping[ProductRule, Callable[[Passes, str, LayerSettings, InputShapes], Records]]] = {
    "dense": _dense,
    "einsum": _einsum_dense,
    "reversible": _reversible,
    "dot": _dot,
    "multi head": multi_head,
    "grouped query": grouped_query,
    "attention": attention,
    "convolution": conv,
    "transposed convolution": conv_transpose,
    "separable convolution": separable,
    "recurrent convolution": conv_recurrent,
    "recurrent": recurrent,
    "time distributed": _time_distributed,
    "bidirectional": _bidirectional,
    "wrapped": _wrapper,
}
