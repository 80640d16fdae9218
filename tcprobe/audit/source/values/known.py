"""What a value holds, as far as it is known: constants, sequences, tensors, sizes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from tcprobe.audit.source.values.kinds import Entries, Items, SourceValue, Tensor
from tcprobe.schema.op import Shape, Size, known_size
from tcprobe.source.values import MOST_LEAVES, Known, tuple_of

_MOST_PARTS: Final = 200_000


class SpentError(Exception):
    """The program is too long to be followed to its end, or makes too much."""


def sequence(values: list[SourceValue], node: ast.expr) -> SourceValue:
    """Return a tuple of constants where all are and they are not too many, else the list of them."""
    known = [v for v in values if isinstance(v, Known)]
    told = len(known) == len(values) and sum(k.leaves for k in known) <= MOST_LEAVES
    return tuple_of(known, node) if told else Items(list(values))


def items_of(value: SourceValue) -> list[SourceValue] | None:
    """Return the elements of a list or tuple; None where it is none or may hold others."""
    if isinstance(value, Items):
        return list(value.items) if value.open is None else None
    if isinstance(value, Known) and isinstance(value.value, tuple):
        return list(value.elements)
    return None


def tensors_of(value: SourceValue) -> list[Tensor]:
    """Return the tensors in a value.

    Raises:
        SpentError: as `parts_of`.
    """
    return [part for part in parts_of(value) if isinstance(part, Tensor)]


def parts_of(value: SourceValue) -> Iterator[SourceValue]:
    """Yield a value and all that its lists and dictionaries hold, in their order, a list before its elements.

    Raises:
        SpentError: they hold too much, or one another: of ``x = [x, x]`` in 60 lines nobody sees all.
    """
    pending = [value]
    for _ in range(_MOST_PARTS):
        if not pending:
            return
        part = pending.pop()
        yield part
        if isinstance(part, Items):
            pending.extend(reversed(part.items))
        elif isinstance(part, Entries):
            pending.extend(reversed(part.entries.values()))
    raise SpentError


def with_tensors(value: SourceValue, make: Callable[[Tensor], Tensor]) -> SourceValue:
    """Return a value with another tensor for each in its lists; as it is where it holds none."""
    if isinstance(value, Tensor):
        return make(value)
    items = items_of(value)
    return Items([with_tensors(v, make) for v in items]) if items is not None and tensors_of(value) else value


def shape_from(value: SourceValue) -> Shape | None:
    """Return the shape that a tuple of sizes is, unknown sizes as None; None where its rank is unknown."""
    if isinstance(value, Known) and type(value.value) is int:
        return (size_from(value),)
    items = items_of(value)
    if items is None:
        return None
    return tuple(size_from(item) for item in items)


def size_from(value: SourceValue) -> Size:
    """Return a size; None where it is none or not known."""
    return known_size(value.value) if isinstance(value, Known) else None


def either(a: Tensor, b: Tensor) -> Tensor:
    """Return what two tensors have in common."""
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    fresh = a.fresh if a.fresh == b.fresh else None
    sources = tuple(dict.fromkeys((*a.sources, *b.sources)))
    features = a.last if a.last == b.last else None
    samples = a.samples if a.samples == b.samples else None
    return Tensor(shape, features, sources, a.symbolic or b.symbolic, fresh, samples)
