"""A product with weights or of two activations as the TensorFlow ops of its passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.schema.op import OpRecord, Shape, Size, product

Records: TypeAlias = list[tuple[OpRecord, float]]
"""Ops and how often each runs in one step."""
InputShapes: TypeAlias = Sequence[Shape | None]


class Passes(Struct, frozen=True):
    """Which gradients a step computes, and in which dtype."""

    dtype: str | None  # of the products, None where unknown
    data: bool = True  # whether anything below needs the gradient of the layer's inputs
    weights: bool = True  # whether its weights are trained

    @property
    def backward(self) -> bool:
        """Whether any gradient goes through the layer."""
        return self.data or self.weights

    @property
    def inside(self) -> Passes:
        """The passes of a product behind weights of the same layer: its input is data that needs a gradient."""
        return replace(self, data=self.backward)

    @property
    def both(self) -> Passes:
        """The passes of a product of two activations: it has both gradients or neither."""
        return replace(self, data=self.backward, weights=self.backward)

    def op(
        self, op_type: str, inputs: Iterable[Shape | None], output: Shape, pass_: str, **attributes: Any
    ) -> OpRecord:
        """Return one op of the step."""
        return OpRecord(op_type, tuple(inputs), output, attributes, self.dtype, pass_)

    def keep(self, forward: OpRecord, dgrad: OpRecord, wgrad: OpRecord) -> Records:
        """Return those of the three that the step runs, once each."""
        runs = ((forward, True), (dgrad, self.data), (wgrad, self.weights))
        return [(op, 1.0) for op, does in runs if does]


def times(records: Records, count: float | None) -> Records:
    """Return the ops, each running `count` times as often; as often where that is not known."""
    return [(record, calls * (1 if count is None else count)) for record, calls in records]


def multiplied(
    passes: Passes, a: Shape, b: Shape, turn_a: bool = False, turn_b: bool = False, weights: bool = True
) -> Records:
    """Return the passes of op(a) op(b), as TensorFlow's own gradient of MatMul and BatchMatMulV2 writes them.

    The gradient of weights that several matrices share is one product for each, which TensorFlow sums up after it.

    Args:
        passes: of the layer.
        a: shape of the first operand, of two dimensions or more.
        b: shape of the second.
        turn_a, turn_b: whether an operand is transposed.
        weights: whether the second operand is weights; else both are activations.
    """
    flat = len(a) == len(b) == 2
    name, flags = ("MatMul", ("transpose_a", "transpose_b")) if flat else ("BatchMatMulV2", ("adj_x", "adj_y"))
    y = (*(a[:-2] or b[:-2]), a[-1] if turn_a else a[-2], b[-2] if turn_b else b[-1])
    gradient = b if len(b) > 2 else (*y[:-2], *b)

    def op(left: Shape, right: Shape, output: Shape, pass_: str, *turned: bool) -> OpRecord:
        return passes.op(name, (left, right), output, pass_, **dict(zip(flags, turned, strict=True)))

    backward = "wgrad" if weights else "dgrad"
    return passes.keep(
        op(a, b, y, "forward", turn_a, turn_b),
        op(b, y, a, "dgrad", turn_b, True) if turn_a else op(y, b, a, "dgrad", False, not turn_b),
        op(y, a, gradient, backward, True, turn_a) if turn_b else op(a, y, gradient, backward, not turn_a, False),
    )


def fully_connected(passes: Passes, rows: Size, inputs: Size, units: Size) -> Records:
    """Return the passes of x[rows, inputs] W[inputs, units]."""
    return multiplied(passes, (rows, inputs), (inputs, units))


def activations(passes: Passes, a: Shape, b: Shape) -> Records:
    """Return a[..., m, k] b[..., k, n] and both gradients; a step that goes no further back has neither."""
    return multiplied(passes.both, a, b, weights=False)


def einsum(passes: Passes, equation: str, a: Shape, b: Shape, weights: bool) -> Records:
    """Return an Einsum and its gradients as tf.einsum's gradient writes them: (dy, b) -> a and (dy, a) -> b.

    Args:
        passes: of the layer.
        equation: two operands, without dots.
        a: shape of the first operand, activations.
        b: shape of the second.
        weights: whether the second operand is weights; else both are activations.
    """
    left, right, result = equation.replace("->", ",").split(",")
    sizes: dict[str, Size] = {**dict(zip(left, a, strict=True)), **dict(zip(right, b, strict=True))}
    y = tuple(sizes[label] for label in result)

    def gradient(labels: str, other: str, shape: Shape, pass_: str) -> OpRecord:
        """A label that only one operand has is summed out before anything is multiplied: it has no part here."""
        kept = "".join(label for label in labels if label in other + result)
        output = tuple(sizes[label] for label in kept)
        return passes.op("Einsum", (y, shape), output, pass_, equation=f"{result},{other}->{kept}")

    return (passes if weights else passes.both).keep(
        passes.op("Einsum", (a, b), y, "forward", equation=equation),
        gradient(left, right, b, "dgrad"),
        gradient(right, left, a, "wgrad" if weights else "dgrad"),
    )


# Equations that Keras runs as tf.matmul of reshaped operands (keras/src/backend/tensorflow/numpy.py, einsum), whose
# second operand can be weights. Those of three kernel labels need every size but the batch's.
_ANY_SHAPE = frozenset(("ab,bc->ac", "ab,cb->ac", "abc,cd->abd", "abc,dc->abd"))
_KNOWN_SHAPE = frozenset(
    ("abc,cde->abde", "abc,dce->abde", "abc,dec->abde", "abcd,cde->abe", "abcd,ced->abe", "abcd,ecd->abe")
)


def einsum_dense(passes: Passes, labels: tuple[str, str, str], sizes: dict[str, Size], dots: bool = False) -> Records:
    """Return the passes of an EinsumDense: Keras' form for the equations it knows, else Einsum ops.

    Args:
        passes: of the layer.
        labels: of input, kernel and output.
        sizes: of every label; None where unknown.
        dots: whether the equation has ``...``, which Keras leaves to tf.einsum. The gradient of its weights is one
            product for each row, summed up after it; here the rows are contracted, which is the same arithmetic.
    """
    left, right, result = labels
    shape = [sizes[label] for label in left]
    form = "" if dots else canonical_equation(f"{left},{right}->{result}")
    if form in _ANY_SHAPE or (form in _KNOWN_SHAPE and None not in [*shape[1:], *(sizes[c] for c in right)]):
        rows = tuple(sizes[label] for label in left if label in result)
        inputs = product(sizes[label] for label in left if label not in result)
        units = product(sizes[label] for label in result if label not in left)
        return multiplied(passes, (*rows, inputs), (inputs, units))
    kernel = tuple(sizes[label] for label in right)
    return einsum(passes, f"{left},{right}->{result}", tuple(shape), kernel, weights=True)


def canonical_equation(equation: str) -> str:
    """Return the equation with its labels renamed a, b, c, ... in the order in which they occur."""
    labels = dict.fromkeys(filter(str.isalpha, equation))
    names = {label: chr(ord("a") + place) for place, label in enumerate(labels)}
    return "".join(names.get(label, label) for label in equation)
