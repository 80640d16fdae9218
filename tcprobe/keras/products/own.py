"""Products that code calls by itself (``tf.matmul``, ``tf.nn.conv2d``, ``tf.einsum``) as ops of a training step."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from tcprobe.keras.products.conv import conv
from tcprobe.keras.products.passes import Passes, Records, einsum, multiplied
from tcprobe.schema.op import Shape, Size

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
