"""Indexes: what a subscript makes of a tensor's shape."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Literal

from tcprobe.audit.source.kinds import Named, SourceValue, Tensor
from tcprobe.source.values import Known

IndexKind = Literal["all", "some", "one", "new", "rest"] | slice | None
"""One index: ``:``, a slice whose ends are not known, a number, ``None``, ``...``, a slice; None where unknown."""


def index_kind(part: ast.expr, value: Callable[[ast.expr], SourceValue]) -> IndexKind:
    """Return what an index is, `value` evaluating it."""
    if isinstance(part, ast.Slice):
        return _slice(part, value)
    if isinstance(part, ast.Constant) and part.value is ...:
        return "rest"
    found = value(part)
    if type(found) is Known:
        return "new" if found.value is None else "one" if type(found.value) is int else None
    return "new" if type(found) is Named and found.name.endswith(".newaxis") else None


def _slice(part: ast.Slice, value: Callable[[ast.expr], SourceValue]) -> IndexKind:
    if part.lower is None and part.upper is None and part.step is None:
        return "all"
    ends: list[int | None] = []
    for bound in (part.lower, part.upper, part.step):
        found = value(bound) if bound is not None else None
        if found is not None and not (type(found) is Known and type(found.value) is int):
            return "some"
        ends.append(found.value if found is not None else None)
    return slice(*ends) if ends[2] != 0 else "some"


def indexed(tensor: Tensor, kinds: Sequence[IndexKind]) -> Tensor:
    """Return a part of a tensor; its shape is unknown where the tensor's is, or an index."""
    every = _spread(kinds, len(tensor.shape)) if tensor.shape is not None else None
    if tensor.shape is None or every is None:
        return Tensor(None, None, tensor.sources, tensor.symbolic, tensor.fresh)
    sizes: list[int | None] = []
    rest = list(tensor.shape)
    for kind in every:
        if kind == "new":
            sizes.append(1)
            continue
        size = rest.pop(0)
        if isinstance(kind, slice):
            sizes.append((len(range(*kind.indices(size))) or None) if size else None)
        elif kind != "one":
            sizes.append(size if kind == "all" else None)
    # Whose features they are is told only where the last dimension arrives whole.
    sources = tensor.sources if every and every[-1] == "all" else ()
    batch, rows = _batch(tensor, every)
    return Tensor(tuple(sizes), None, sources, tensor.symbolic, tensor.fresh, rows, batch)


def _batch(tensor: Tensor, every: Sequence[IndexKind]) -> tuple[int, int | None]:
    """Return where the batch's dimension is in a part of a tensor, and how many of it make one sample."""
    at, new = -1, -1
    for kind in every:
        at += kind != "new"
        new += kind != "one"
        if at == tensor.batch and kind not in ("new", "one"):
            whole = kind == "all" or not tensor.symbolic  # some of the data are data
            return new, tensor.rows if whole else None
    return 0, None


def _spread(kinds: Sequence[IndexKind], rank: int) -> list[IndexKind] | None:
    """Return one index for each dimension, dots spelled out; None where one is not known, or they do not fit."""
    left = rank - sum(kind not in ("new", "rest") for kind in kinds)
    if None in kinds or kinds.count("rest") > 1 or left < 0:
        return None
    at = kinds.index("rest") if "rest" in kinds else len(kinds)
    whole: list[IndexKind] = ["all"] * left
    return [*kinds[:at], *whole, *kinds[at + 1 :]]
