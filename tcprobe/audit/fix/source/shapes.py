"""Sizes that a file tells by hand, in shapes and slices, which would have to stay in step with what changes."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.text import inside
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.keras.catalogue import LAYER_CLASSES
from tcprobe.schema.model import Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

# Functions and methods that are told a shape or sizes of parts, by the last part of their name.
_TOLD: Final = frozenset(
    (
        "reshape",
        *(row.name for row in LAYER_CLASSES if row.kind == "reshaping"),
        "ensure_shape",
        "set_shape",
        "broadcast_to",
        "split",
        "one_hot",
        "add_weight",
        *("zeros", "ones", "full", "fill", "Variable", "normal", "uniform", "truncated_normal", "rand", "randn"),
    )
)
# Functions that join tensors whose features must be as many, by the last part of their name.
_JOIN: Final = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum", "where", "add_n", "stack"))


class StatedShapes:
    """The sizes that one file tells by hand, and whether its operators may tie them to data."""

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self._source = tree.source

    def refuse_leftovers(self, sizes: Iterable[int], asked: Iterable[Place]) -> None:
        """See that no size that changes stands somewhere else in the file as part of a shape, or bounds a slice.

        Whether such a number means the same size, nobody can tell; then there is no fix.

        Raises:
            NotCertain: one does.
        """
        known, places = {size for size in sizes if size > 1}, list(asked)
        for place, numbers in self._told:
            if numbers & known and not any(inside(place, other) for other in places):
                raise NotCertain(say("in_shape"))

    @cached_property
    def _told(self) -> list[tuple[Place, frozenset[int]]]:
        """Sizes in a shape in a call that is no layer of Keras', in a slice, in a shape put out."""
        parts: list[ast.expr] = []
        for node in self._tree.of(ast.Call):
            if isinstance(node, ast.Call) and _name(node) in _TOLD and not _is_layer(self._source, node):
                parts += [*node.args, *(k.value for k in node.keywords)]
        for node in self._tree.of(ast.Slice):
            if isinstance(node, ast.Slice):
                parts += [part for part in (node.lower, node.upper) if part is not None]
        for node in self._tree.of(ast.FunctionDef):
            if isinstance(node, ast.FunctionDef) and node.name == "compute_output_shape":
                parts += [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
        found = [(self._source.place(part), _numbers(self._source, part)) for part in parts]
        return [(place, numbers) for place, numbers in found if numbers]

    @cached_property
    def joins(self) -> bool:
        """Whether the file joins what may be tensors: by an operator on two values that are no constants, or a call."""
        for node in self._tree.of(ast.BinOp, ast.AugAssign, ast.Call):
            if isinstance(node, ast.Call) and _name(node) in _JOIN:
                return True
            sides = {ast.BinOp: ("left", "right"), ast.AugAssign: ("target", "value")}.get(type(node), ())
            if sides and not any(self._source.alternatives(getattr(node, side)) for side in sides):
                return True
        return False


def refuse_data(sizes: Iterable[int], model: Model, files: Iterable[StatedShapes]) -> None:
    """See that no data of a size that changes comes in where the file joins tensors by operators.

    ``x + self.dense(x)`` ties the units to the data, which no record of layers or products shows.

    Raises:
        NotCertain: both are so.
    """
    given = {
        shape[-1]
        for layer in model.layers
        if layer.is_first is not False or not layer.inputs_from
        for shape in layer.input_shapes
        if shape
    }
    if not given.isdisjoint(sizes) and any(file.joins for file in files):
        raise NotCertain(say("data_as_many"))


def tails(sizes: Sequence[Any]) -> set[int]:
    """Return the products of the last sizes of a shape: of one, two, ..., as far as they are known."""
    known = list(itertools.takewhile(lambda size: type(size) is int and size > 0, reversed(sizes)))
    return set(itertools.accumulate(known, operator.mul))


def _is_layer(source: Source, node: ast.Call) -> bool:
    """Say whether a call makes a layer of Keras', which has been followed."""
    return (source.name_of(node.func) or "").startswith("keras.layers.")


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _numbers(source: Source, node: ast.expr) -> frozenset[int]:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    found = {n for e in elements for known in source.alternatives(e) for n in _flat(known.value)}
    return frozenset(found.union(*(tails(k.value) for k in source.alternatives(node) if isinstance(k.value, tuple))))


def _flat(value: Any) -> set[int]:
    if isinstance(value, tuple):
        return {number for item in value for number in _flat(item)}
    return {value} if type(value) is int else set()
