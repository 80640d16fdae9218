"""Sizes written once more by hand: a shape in a call that must stay in step with what changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix_links import NotCertain
from tcprobe.audit.fix_text import inside
from tcprobe.place import Place

if TYPE_CHECKING:
    from tcprobe.audit.fix_tree import Tree
    from tcprobe.syntax.source import Source

# Functions and methods that are told a shape or sizes of parts, by the last part of their name.
_TOLD: Final = frozenset(
    ("reshape", "Reshape", "RepeatVector", "ensure_shape", "set_shape", "broadcast_to", "split", "one_hot")
)


def told_sizes(tree: Tree) -> list[tuple[Place, frozenset[int]]]:
    """Return every shape in a call that is no layer of Keras', and every bound of a slice, with the sizes in it."""
    parts: list[ast.expr] = []
    for node in tree.of(ast.Call):
        if isinstance(node, ast.Call) and _name(node) in _TOLD and not _is_layer(tree.source, node):
            parts += [*node.args, *(k.value for k in node.keywords)]
    for node in tree.of(ast.Slice):
        if isinstance(node, ast.Slice):
            parts += [part for part in (node.lower, node.upper) if part is not None]
    found = [(tree.source.place(part), _numbers(tree.source, part)) for part in parts]
    return [(place, numbers) for place, numbers in found if numbers]


def refuse_leftovers(tree: Tree, sizes: Iterable[int], asked: Iterable[Place]) -> None:
    """See that no size that changes stands somewhere else in the file as part of a shape, or bounds a slice.

    Whether such a number means the same size, nobody can tell; then there is no fix.

    Raises:
        NotCertain: one does.
    """
    known, places = {size for size in sizes if size > 1}, list(asked)
    for place, numbers in tree.told:
        if numbers & known and not any(inside(place, other) for other in places):
            raise NotCertain("the size stands in a shape as well")


def _is_layer(source: Source, node: ast.Call) -> bool:
    """Say whether a call makes a layer of Keras', which has been followed."""
    return (source.name_of(node.func) or "").startswith("keras.layers.")


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _numbers(source: Source, node: ast.expr) -> frozenset[int]:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return frozenset(n for e in elements for known in source.alternatives(e) for n in _flat(known.value))


def _flat(value: Any) -> set[int]:
    if isinstance(value, tuple):
        return {number for item in value for number in _flat(item)}
    return {value} if type(value) is int else set()
