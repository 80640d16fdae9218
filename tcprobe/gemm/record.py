"""What goes in and what comes out: one op with its shapes, and one matrix multiplication."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Size: TypeAlias = int | None
Shape: TypeAlias = tuple[Size, ...]

MOST_DIMENSIONS: Final = 16  # no framework goes past it; with LARGEST it keeps every product a finite float64
LARGEST: Final = 2**40


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


def flops_of(gemms: Iterable[Gemm]) -> Size:
    """Return the summed FLOPs of an op's multiplications; None where one is unknown or there are none."""
    counts = [g.flops for g in gemms]
    if not counts or any(c is None for c in counts):
        return None
    return sum(c for c in counts if c is not None)


def first_known(*sizes: Size) -> Size:
    """Return the first size that is known; None where none is."""
    return next((s for s in sizes if s is not None), None)


def parse_shapes(text: str | None) -> tuple[Shape | None, ...]:
    """Return the shapes of a JSON list of shapes; nothing where it is absent or is no such list."""
    return tuple(_shape(item) for item in _items(text))


def parse_shape(text: str | None) -> Shape | None:
    """Return the shape of a JSON list of sizes; None where it is absent or is no such list."""
    return _shape(_load(text))


def parse_object(text: str | None) -> dict[str, Any]:
    """Return a JSON object; an empty one where it is absent or is no object."""
    value = _load(text)
    return value if isinstance(value, dict) else {}


def parse_dtype(text: str | None) -> str | None:
    """Return the dtype of a JSON list of input dtypes: one name, or several joined by ``+``."""
    names = dict.fromkeys(str(item) for item in _items(text) if item)
    kept = [n for n in names if not n.startswith(("int32", "int64", "resource"))] or list(names)
    return "+".join(kept) or None


def _load(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _items(text: str | None) -> list[Any]:
    value = _load(text)
    return value if isinstance(value, list) else []


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list) or len(value) > MOST_DIMENSIONS:
        return None
    return tuple(v if isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= LARGEST else None for v in value)
