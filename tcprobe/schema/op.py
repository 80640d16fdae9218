"""One op with its shapes, and one matrix multiplication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Size: TypeAlias = int | None
Shape: TypeAlias = tuple[Size, ...]
PASSES: Final = ("forward", "dgrad", "wgrad", "other")
"""Passes of training in their order: forward, the gradient of the input, that of the weight, any other."""


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op as a graph or a profile recorded it.

    Attributes:
        op_type: TensorFlow type (``_FusedConv2D``) or HLO opcode (``dot``).
        input_shapes: one shape per input; None for an unknown rank, None inside it for an unknown dimension.
        output_shape: shape of the first output, None where unknown.
        attributes: as in the contract of `graph_ops`; empty where the source has none.
        dtype: dtype of the inputs (``float16``), None where unknown.
        pass_: forward, dgrad, wgrad, other; None where unknown.
    """

    op_type: str
    input_shapes: tuple[Shape | None, ...] = ()
    output_shape: Shape | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None
    pass_: str | None = None

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input; None where there is no such input or its rank is unknown."""
        return self.input_shapes[index] if index < len(self.input_shapes) else None


@dataclass(frozen=True, slots=True)
class Contiguous:
    """A dimension that is innermost in the memory of an operand or of the result.

    Attributes:
        role: ``m``, ``n`` or ``k`` of a matrix multiplication; ``channels`` or ``filters`` of a convolution
            (of one group, where it is grouped).
        size: its size in elements, None where unknown.
    """

    role: str
    size: Size


@dataclass(frozen=True, slots=True)
class Gemm:
    """C[M,N] = A[M,K] B[K,N], row-major, done `batch` times; None is unknown."""

    m: Size
    n: Size
    k: Size
    batch: Size = 1
    contiguous: tuple[Contiguous, ...] = ()

    @property
    def flops(self) -> Size:
        """2 * batch * m * n * k: one multiplication and one addition per term; None where a size is unknown."""
        count = product((self.m, self.n, self.k, self.batch))
        return None if count is None else 2 * count


UNKNOWN = Gemm(None, None, None, None)


def product(sizes: Iterable[Size]) -> Size:
    """Return the product; None where a factor is unknown; 1 of nothing."""
    known = list(sizes)
    return None if any(s is None for s in known) else math.prod(s for s in known if s is not None)
