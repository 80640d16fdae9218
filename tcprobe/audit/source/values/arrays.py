"""Arrays of data: the shapes of Keras' own data sets, and what indexing makes of a shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Final, Literal

from tcprobe.audit.source.values.kinds import Items, Named, SourceValue, Tensor
from tcprobe.schema.op import Shape
from tcprobe.source.values import Known

IndexKind = Literal["all", "some", "one", "new", "rest"] | slice | None
"""One index: ``:``, a slice whose ends are not known, a number, ``None``, ``...``, a slice; None where unknown."""

_LOADED: Final = re.compile(r"keras\.datasets\.(\w+)\.load_data")
# Shapes of a sample and of its label. Source: docstrings of keras/src/datasets, Keras 3.
_SAMPLES: Final[dict[str, tuple[Shape, Shape]]] = {
    "mnist": ((28, 28), ()),
    "fashion_mnist": ((28, 28), ()),
    "cifar10": ((32, 32, 3), (1,)),
    "cifar100": ((32, 32, 3), (1,)),
    "boston_housing": ((13,), ()),
    "california_housing": ((8,), ()),
}


def data_set(name: str) -> SourceValue | None:
    """Return what ``load_data()`` of a data set of Keras' is, training part first; None for any other name.

    The number of samples is left open: it is no promise of a batch.
    """
    found = _LOADED.fullmatch(name)
    shapes = _SAMPLES.get(found[1]) if found else None
    if shapes is None:
        return None
    return Items([Items([Tensor((None, *shape), None, (), False, True) for shape in shapes]) for _ in range(2)])


def index_kind(part: ast.expr, value: Callable[[ast.expr], SourceValue]) -> IndexKind:
    """Return what an index is, `value` evaluating it."""
    if isinstance(part, ast.Slice):
        return _slice(part, value)
    if isinstance(part, ast.Constant) and part.value is ...:
        return "rest"
    found = value(part)
    if isinstance(found, Known):
        return "new" if found.value is None else "one" if type(found.value) is int else None
    return "new" if isinstance(found, Named) and found.name.endswith(".newaxis") else None


def _slice(part: ast.Slice, value: Callable[[ast.expr], SourceValue]) -> IndexKind:
    if part.lower is None and part.upper is None and part.step is None:
        return "all"
    ends: list[int | None] = []
    for bound in (part.lower, part.upper, part.step):
        found = value(bound) if bound is not None else None
        if found is not None and not (isinstance(found, Known) and type(found.value) is int):
            return "some"
        ends.append(found.value if found is not None else None)
    return slice(*ends) if ends[2] != 0 else "some"


def indexed(tensor: Tensor, kinds: Sequence[IndexKind]) -> Tensor:
    """Return a part of a tensor; its shape is unknown where the tensor's is, or an index."""
    none = Tensor(None, None, tensor.sources, tensor.symbolic, tensor.fresh)
    if tensor.shape is None or None in kinds or kinds.count("rest") > 1:
        return none
    taken = sum(kind not in ("new", "rest") for kind in kinds)
    left = len(tensor.shape) - taken
    if left < 0:
        return none
    at = kinds.index("rest") if "rest" in kinds else len(kinds)
    whole: list[IndexKind] = ["all"] * left
    every = [*kinds[:at], *whole, *kinds[at + 1 :]]
    sizes: list[int | None] = []
    rest = list(tensor.shape)
    for kind in every:
        if kind == "new":
            sizes.append(1)
            continue
        size = rest.pop(0)
        if isinstance(kind, slice):  # of the first dimension too little is known: it may be padded or dropped
            sizes.append(
                (len(range(*kind.indices(size))) or None) if size and len(rest) + 1 < len(tensor.shape) else None
            )
        elif kind != "one":
            sizes.append(size if kind == "all" else None)
    # Whose features they are is told only where the last dimension arrives whole.
    sources = tensor.sources if every and every[-1] == "all" else ()
    return Tensor(tuple(sizes), None, sources, tensor.symbolic, tensor.fresh) if sizes else none


def expanded(tensor: Tensor, axis: int | None) -> Tensor:
    """Return a tensor with one dimension of size 1 more, at `axis` of the result; None where that is not known."""
    rank = len(tensor.shape) + 1 if tensor.shape is not None else 0
    if axis is None or not -rank <= axis < rank:
        return indexed(tensor, (None,))
    before: list[IndexKind] = ["all"] * (axis % rank)
    return indexed(tensor, [*before, "new", "rest"])


def joined(tensors: Sequence[Tensor]) -> Shape | None:
    """Return the shape of tensors joined along their first dimension; None where they do not fit or are not known."""
    shapes = {t.shape[1:] for t in tensors if t.shape}
    return (None, *shapes.pop()) if len(shapes) == 1 and all(t.shape for t in tensors) else None
