"""Read an op's shapes, attributes and dtypes from JSON, and sum FLOPs.

Which sizes suit Tensor Cores: multiples of 16 bytes in the contiguous dimension, and of 8 elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tcprobe.jsonfile import parse
from tcprobe.schema.op import Gemm, Shape, Size, known_shape, known_size

MOST_SHAPE_DIMENSIONS: Final = 16  # no framework allows more


def flops_of(gemms: Iterable[Gemm]) -> Size:
    """Return the total FLOPs of an op's multiplications; None if one is unknown or there are none."""
    counts = [g.flops for g in gemms]
    if not counts or any(c is None for c in counts):
        return None
    return sum(c for c in counts if c is not None)


def first_known(*sizes: Size) -> Size:
    """Return the first known size; None if all are unknown."""
    return next((s for s in sizes if s is not None), None)


def parse_json_shapes(text: str | None) -> tuple[Shape | None, ...]:
    """Return the shapes in a JSON list of shapes; empty if there is no such list."""
    return tuple(_shape(item) for item in _items(text))


def parse_shape(text: str | None) -> Shape | None:
    """Return the shape in a JSON list of sizes; None if there is no such list."""
    return _shape(_load(text))


def has_no_sizes(text: str) -> bool:
    """Say whether a JSON list of sizes or shapes gives as a size what none is."""
    listed = [v for item in _items(text, odd=str) for v in (item if isinstance(item, list) else [item])]
    return any(v is not None and known_size(v) is None for v in listed)


def parse_object(text: str | None) -> dict[str, Any]:
    """Return a JSON object; empty if there is none."""
    value = _load(text)
    return value if isinstance(value, dict) else {}


def parse_dtype(text: str | None) -> str | None:
    """Return the dtype in a JSON list of input dtypes: one name, or several joined by ``+``."""
    names = dict.fromkeys(str(item) for item in _items(text) if item)
    kept = [n for n in names if not n.startswith(("int32", "int64", "resource"))] or list(names)
    return join_dtypes(kept)


def join_dtypes(dtypes: Iterable[str | None]) -> str | None:
    """Return the dtypes of several tensors joined by ``+``, each once and in order; None where none is known."""
    return "+".join(dict.fromkeys(dtype for dtype in dtypes if dtype)) or None


def _load(text: str | None, odd: Callable[[str], Any] = lambda _: None) -> Any:
    try:
        return parse(text, odd) if text else None
    except ValueError:
        return None


def _items(text: str | None, odd: Callable[[str], Any] = lambda _: None) -> list[Any]:
    value = _load(text, odd)
    return value if isinstance(value, list) else []


def _shape(value: Any) -> Shape | None:
    if not isinstance(value, list) or len(value) > MOST_SHAPE_DIMENSIONS:
        return None
    return known_shape(value)


ALIGN_BYTES: Final = 16  # cuBLAS 12, "Tensor Core Usage": every condition is on (contiguous size * bytes) % 16
RULE_OF_EIGHT: Final = 8  # TensorFlow's mixed precision guide: "make sure most tensor dimensions are a multiple of 8"

_BYTES: Final = {
    "float64": 8, "double": 8,
    "float32": 4, "float": 4, "tf32": 4, "int32": 4,
    "float16": 2, "half": 2, "bfloat16": 2,
    "int8": 1, "uint8": 1,
}  # fmt: skip


def bytes_of(dtype: str | None) -> int | None:
    """Return the bytes per element; None if the dtype is unknown or mixed."""
    if dtype is None:
        return None
    return 1 if dtype.startswith(("float8", "f8")) else _BYTES.get(dtype)


def multiple_for(dtype: str | None) -> int:
    """Return what a contiguous dimension should be a multiple of: 16 bytes' worth, and at least 8 elements.

    8 for types of 2 bytes or more (TF32 needs only a multiple of 4, but the size should still suit float16 when the
    precision is switched), 16 for 1-byte types.

    Source: NVIDIA, Matrix Multiplication Background User's Guide, table 1.
    """
    size = bytes_of(dtype)
    return RULE_OF_EIGHT if size is None else max(RULE_OF_EIGHT, ALIGN_BYTES // size)


def next_size(size: int, multiple: int) -> int:
    """Return `size` rounded up to a multiple of `multiple`."""
    return -(-size // multiple) * multiple


def is_aligned(size: int | None, dtype: str | None) -> bool | None:
    """Return whether `size` elements fill whole 16-byte units; None if size or dtype is unknown."""
    width = bytes_of(dtype)
    return None if size is None or width is None else size * width % ALIGN_BYTES == 0


def all_aligned(sizes: tuple[int | None, ...], dtype: str | None) -> bool | None:
    """Return whether all `sizes` are aligned: False if one is not, None if that is not known."""
    answers = [is_aligned(s, dtype) for s in sizes]
    if False in answers:
        return False
    return None if not answers or None in answers else True
