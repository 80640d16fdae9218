"""A product with weights or of two activations as the TensorFlow ops of its passes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tcprobe.schema.op import OpRecord, Shape, Size, product

Records: TypeAlias = list[tuple[OpRecord, float]]
"""Ops and how often each runs in one step."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Which gradients a step computes, and in which dtype.

    Attributes:
        dtype: of the products, None where unknown.
        data: whether anything below needs the gradient of the layer's inputs.
        weights: whether its weights are trained.
    """

    dtype: str | None
    data: bool = True
    weights: bool = True

    @property
    def backward(self) -> bool:
        """Whether any gradient goes through the layer."""
        return self.data or self.weights

    @property
    def inside(self) -> Passes:
        """The passes of a product behind weights of the same layer: its input is data that needs a gradient."""
        return replace(self, data=self.backward)

    def op(
        self, op_type: str, inputs: Iterable[Shape | None], output: Shape, pass_: str, **attributes: Any
    ) -> OpRecord:
        """Return one op of the step."""
        return OpRecord(op_type, tuple(inputs), output, attributes, self.dtype, pass_)

    def keep(self, forward: OpRecord, dgrad: OpRecord | None, wgrad: OpRecord | None) -> Records:
        """Return those of the three that the step runs, once each."""
        ops = (forward, dgrad if self.data else None, wgrad if self.weights else None)
        return [(op, 1.0) for op in ops if op is not None]


def times(records: Records, count: float) -> Records:
    """Return the ops, each running `count` times as often."""
    return [(record, calls * count) for record, calls in records]


def with_attributes(records: Records, **attributes: Any) -> Records:
    """Return the ops with more attributes."""
    return [(replace(r, attributes={**r.attributes, **attributes}), calls) for r, calls in records]


def fully_connected(passes: Passes, rows: Size, inputs: Size, units: Size) -> Records:
    """Return the passes of x[rows, inputs] W[inputs, units] as TensorFlow's MatMul."""
    x, w, y = (rows, inputs), (inputs, units), (rows, units)
    return passes.keep(
        passes.op("MatMul", (x, w), y, "forward", transpose_a=False, transpose_b=False),
        passes.op("MatMul", (y, w), x, "dgrad", transpose_a=False, transpose_b=True),
        passes.op("MatMul", (x, y), w, "wgrad", transpose_a=True, transpose_b=False),
    )


def batched_dense(passes: Passes, leading: Shape, inputs: Size, units: Size) -> Records:
    """Return the passes of x[..., inputs] W[inputs, units] as tf.matmul runs them without flattening x.

    The gradient of W is one product for each entry of the first dimensions, which TensorFlow sums up after it.
    """
    x, w, y = (*leading, inputs), (inputs, units), (*leading, units)
    return passes.keep(
        passes.op("BatchMatMulV2", (x, w), y, "forward", adj_x=False, adj_y=False),
        passes.op("BatchMatMulV2", (y, w), x, "dgrad", adj_x=False, adj_y=True),
        passes.op("BatchMatMulV2", (x, y), (*leading[:-1], *w), "wgrad", adj_x=True, adj_y=False),
    )


def activations(passes: Passes, a: Shape, b: Shape) -> Records:
    """Return a[..., m, k] b[..., k, n] and both gradients; a step that goes no further back has neither."""
    y = (*a[:-1], b[-1])
    found = [passes.op("BatchMatMulV2", (a, b), y, "forward", adj_x=False, adj_y=False)]
    if passes.backward:
        found.append(passes.op("BatchMatMulV2", (y, b), a, "dgrad", adj_x=False, adj_y=True))
        found.append(passes.op("BatchMatMulV2", (a, y), b, "dgrad", adj_x=True, adj_y=False))
    return [(op, 1.0) for op in found]


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
    # A label that only one operand has is summed out before anything is multiplied, and has no part in the gradients.
    kept_left, kept_right = _kept(left, right + result), _kept(right, left + result)
    forward = passes.op("Einsum", (a, b), y, "forward", equation=equation)
    dgrad = passes.op("Einsum", (y, b), _shape(kept_left, sizes), "dgrad", equation=f"{result},{right}->{kept_left}")
    wgrad = passes.op(
        "Einsum", (y, a), _shape(kept_right, sizes), "wgrad" if weights else "dgrad",
        equation=f"{result},{left}->{kept_right}",
    )  # fmt: skip
    if weights:
        return passes.keep(forward, dgrad, wgrad)
    return [(op, 1.0) for op in ((forward, dgrad, wgrad) if passes.backward else (forward,))]


def _kept(labels: str, others: str) -> str:
    return "".join(label for label in labels if label in others)


def _shape(labels: str, sizes: dict[str, Size]) -> Shape:
    return tuple(sizes[label] for label in labels)


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
        if len(rows) == 1:
            return fully_connected(passes, rows[0], inputs, units)
        return batched_dense(passes, rows, inputs, units)
    return einsum(passes, f"{left},{right}->{result}", tuple(shape), _shape(right, sizes), weights=True)


def canonical_equation(equation: str) -> str:
    """Return the equation with its labels renamed a, b, c, ... in the order in which they occur."""
    names: dict[str, str] = {}
    for label in equation:
        if label.isalpha() and label not in names:
            names[label] = chr(ord("a") + len(names))
    return "".join(names.get(label, label) for label in equation)
