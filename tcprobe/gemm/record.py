"""Read an op's shapes, attributes and dtypes from JSON, and sum FLOPs."""

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
