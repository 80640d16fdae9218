"""`OpRecord`, one op with its shapes, `Gemm`, one matrix multiplication, and `Part`, the part of a step ops are of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import force_setattr

from tcprobe.schema.records import as_dict

Size: TypeAlias = int | None
Shape: TypeAlias = tuple[Size, ...]
LARGEST_SIZE: Final = 2**40
"""Elements; a dimension past it is in no memory, and products of such dimensions are past what a float holds."""
PASSES: Final = ("forward", "dgrad", "wgrad", "other")
"""Passes of training in their order: forward, the gradient of the input, that of the weight, any other."""


def known_size(value: Any, least: int = 1) -> Size:
    """Return what is given as a size: a whole number from `least` to `LARGEST_SIZE`; None, unknown, for all else."""
    return value if type(value) is int and least <= value <= LARGEST_SIZE else None


def known_shape(sizes: Iterable[Any]) -> Shape:
    """Return what a source gives as sizes, unknown where one is none."""
    return tuple(map(known_size, sizes))


class OpRecord(Struct, frozen=True):
    """One op as recorded in a graph or profile; what is given as a size and is none is unknown."""

    op_type: str  # TensorFlow type (``_FusedConv2D``) or HLO opcode (``dot``)
    # one shape per input; None for an unknown rank, None inside a shape for an unknown dimension
    input_shapes: tuple[Shape | None, ...] = ()
    output_shape: Shape | None = None  # shape of the first output; None if unknown
    # named as in the contract of `graph_ops`; empty if the source has none
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: str | None = None  # dtype of the inputs (``float16``); None if unknown
    pass_: str | None = None  # forward, dgrad, wgrad or other; None if unknown

    def __post_init__(self) -> None:
        inputs = tuple(None if shape is None else known_shape(shape) for shape in self.input_shapes)
        force_setattr(self, "input_shapes", inputs)
        if self.output_shape is not None:
            force_setattr(self, "output_shape", known_shape(self.output_shape))

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input; None if there is no such input or its rank is unknown."""
        return self.input_shapes[index] if index < len(self.input_shapes) else None


class Contiguous(Struct, frozen=True):
    """A dimension that is innermost in memory, of an operand or of the result."""

    # ``m``, ``n`` or ``k`` of a matrix multiplication; ``channels`` or ``filters`` of a convolution (per group, if it
    # is grouped)
    role: str
    size: Size  # in elements; None if unknown


class Gemm(Struct, frozen=True):
    """`batch` products C[M,N] = A[M,K] B[K,N], all row-major; None for an unknown size."""

    m: Size
    n: Size
    k: Size
    batch: Size = 1
    contiguous: tuple[Contiguous, ...] = ()
    # multiplications that the op needs, None if unknown; unset where they are batch * m * n * k. Of a gradient of a
    # convolution they are not: its sizes also count what falls outside the output.
    needed: Size | UnsetType = UNSET

    @property
    def dense_flops(self) -> Size:
        """2 * batch * m * n * k: what a library computes that multiplies all of it; None if a size is unknown."""
        return _flops(product((self.m, self.n, self.k, self.batch)))

    @property
    def flops(self) -> Size:
        """FLOPs of the arithmetic, one multiplication and one addition per term; None if unknown."""
        return self.dense_flops if self.needed is UNSET else _flops(self.needed)


class Part(Struct, frozen=True):
    """A part of training that a step calls: a function, with the variables that it trains."""

    key: int  # number of the part, as in `graph_ops.part`
    name: str  # of the function; empty where unknown
    calls_per_step: float | None  # calls in a step; None where unknown
    recorded: bool = True  # whether what it multiplies is in the graph

    @classmethod
    def all_of(cls, text: object) -> tuple[Part, ...]:
        """Return the parts in a JSON list of `phases.parts`; none of a text that is no such list."""
        try:
            given = json.loads(str(text))
            return tuple(cls(o["key"], o["name"], o["calls_per_step"], o.get("recorded", True)) for o in given)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return ()

    @staticmethod
    def text_of(parts: Iterable[Part]) -> str:
        """Return parts as `phases.parts` holds them; `recorded` stands there only where it is false."""
        made = [as_dict(part) for part in parts]
        return json.dumps([{k: v for k, v in one.items() if k != "recorded" or not v} for one in made])


def _flops(multiplications: Size) -> Size:
    return None if multiplications is None else 2 * multiplications


UNKNOWN_GEMM = Gemm(None, None, None, None)


LARGEST_PRODUCT: Final = 2**200
"""No computer counts as far: sizes that multiply to more are damaged. FLOPs made of less stay a finite float64."""


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of `sizes`: None if one is unknown or it is past `LARGEST_PRODUCT`, 1 if there are none."""
    known = list(sizes)
    if any(size is None for size in known):
        return None
    found = math.prod(size for size in known if size is not None)
    return found if found <= LARGEST_PRODUCT else None
