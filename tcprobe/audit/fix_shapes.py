"""Sizes written once more by hand: a shape in a call that must stay in step with what changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix_links import NotCertain
from tcprobe.audit.fix_text import inside
from tcprobe.place import Place

if TYPE_CHECKING:
    from tcprobe.syntax.source import Source

# Functions and methods that are told a shape or sizes of parts, by the last part of their name.
_TOLD: Final = frozenset(
    ("reshape", "Reshape", "RepeatVector", "ensure_shape", "set_shape", "broadcast_to", "split", "one_hot")
)


def refuse_leftovers(source: Source, sizes: Iterable[int], asked: Iterable[Place]) -> None:
    """See that no size that changes stands somewhere else in the file as part of a shape, or bounds a slice.

    Whether such a number means the same size, nobody can tell; then there is no fix.

    Raises:
        NotCertain: one does.
    """
    known, places = {size for size in sizes if size > 1}, list(asked)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and (source.name_of(node.func) or "").startswith("keras.layers."):
            continue  # a layer of the model, which has been followed
        if isinstance(node, ast.Call):
            told = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            parts: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)] if told in _TOLD else []
        elif isinstance(node, ast.Slice):
            parts = [part for part in (node.lower, node.upper) if part is not None]
        else:
            continue
        for part in parts:
            if not any(inside(source.place(part), place) for place in places) and _says(source, part, known):
                raise NotCertain("the size stands in a shape as well")


def _says(source: Source, node: ast.expr, sizes: set[int]) -> bool:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return any(_flat(known.value) & sizes for e in elements for known in source.alternatives(e))


def _flat(value: Any) -> set[int]:
    if isinstance(value, tuple):
        return {number for item in value for number in _flat(item)}
    return {value} if type(value) is int else set()
