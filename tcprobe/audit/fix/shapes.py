"""Sizes written once more by hand: a shape in a call that must stay in step with what changes."""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.slots import Slot
from tcprobe.audit.fix.text import inside
from tcprobe.rules.model.links import LinkedChange
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS
from tcprobe.schema.model import Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.audit.fix.tree import Files, FileTree
    from tcprobe.rules.model.step import Step
    from tcprobe.syntax.source import Call, Source

# Functions and methods that are told a shape or sizes of parts, by the last part of their name.
_TOLD: Final = frozenset(
    (
        "reshape",
        "Reshape",
        "RepeatVector",
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


def told_sizes(tree: FileTree) -> list[tuple[Place, frozenset[int]]]:
    """Return sizes told by hand: in a shape in a call that is no layer of Keras', in a slice, in a shape put out."""
    parts: list[ast.expr] = []
    for node in tree.of(ast.Call):
        if isinstance(node, ast.Call) and _name(node) in _TOLD and not _is_layer(tree.source, node):
            parts += [*node.args, *(k.value for k in node.keywords)]
    for node in tree.of(ast.Slice):
        if isinstance(node, ast.Slice):
            parts += [part for part in (node.lower, node.upper) if part is not None]
    for node in tree.of(ast.FunctionDef):
        if isinstance(node, ast.FunctionDef) and node.name == "compute_output_shape":
            parts += [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
    found = [(tree.source.place(part), _numbers(tree.source, part)) for part in parts]
    return [(place, numbers) for place, numbers in found if numbers]


def reshapes(changes: Sequence[LinkedChange], slots: Sequence[Slot], step: Step, files: Files) -> tuple[Slot, ...]:
    """Return where the user's own calls reshape an output that changes into channels that change with it.

    ``tf.reshape(x, (-1, 7, 7, 63))`` behind ``Dense(7 * 7 * 63)``; Reshape layers are among the slots already.

    Raises:
        NotCertain: an output becomes channels, and not exactly one call says so.
    """
    outputs = {c.layer: c for c in changes if c.dimension in OUTPUTS}
    found: dict[tuple[Place, int | None, int], Slot] = {}
    for change in changes if outputs else ():
        for output in (outputs[s] for s in step.sizes.feeds.get(change.layer, ()) if s in outputs):
            parts, rest = divmod(output.old, change.old)
            layer = any(slot.argument.name == "target_shape" and slot.old == change.old for slot in slots)
            if change.dimension in INPUTS and parts > 1 and not rest and not layer:
                slot = _reshape(change, output.old, {slot.source.path for slot in slots}, files)
                found[slot.key] = slot
    return tuple(found.values())


def _reshape(change: LinkedChange, whole: int, paths: Iterable[str], files: Files) -> Slot:
    trees = [files.tree(path) for path in paths]
    arguments = [(tree, c.arguments["shape"]) for tree in trees for c in tree.source.calls() if _is_reshape(c)]
    fitting = []
    for tree, argument in arguments:
        sizes = argument.known.value if argument.known else None
        if argument.known and isinstance(sizes, tuple) and sizes and sizes[-1] == change.old and whole in _tails(sizes):
            fitting.append(Slot(tree.source, argument, (argument.known.elements[-1],), -1, change.old, change.new))
    if len(fitting) != 1:
        raise NotCertain(say("channels_unknown", channels=change.old, of=whole))
    return fitting[0]


def _is_reshape(call: Call) -> bool:
    return call.name in ("tensorflow.reshape", "keras.ops.reshape") and "shape" in call.arguments


def _tails(sizes: Sequence[Any]) -> set[int]:
    """Return the products of the last sizes of a shape: of one, two, ..., as far as they are known."""
    known = list(itertools.takewhile(lambda size: type(size) is int and size > 0, reversed(sizes)))
    return set(itertools.accumulate(known, operator.mul))


def refuse_leftovers(tree: FileTree, sizes: Iterable[int], asked: Iterable[Place]) -> None:
    """See that no size that changes stands somewhere else in the file as part of a shape, or bounds a slice.

    Whether such a number means the same size, nobody can tell; then there is no fix.

    Raises:
        NotCertain: one does.
    """
    known, places = {size for size in sizes if size > 1}, list(asked)
    for place, numbers in tree.told:
        if numbers & known and not any(inside(place, other) for other in places):
            raise NotCertain(say("in_shape"))


def refuse_data(sizes: Iterable[int], model: Model, trees: Iterable[FileTree]) -> None:
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
    if not given.isdisjoint(sizes) and any(tree.joins for tree in trees):
        raise NotCertain(say("data_as_many"))


def joins_tensors(tree: FileTree) -> bool:
    """Say whether a file joins what may be tensors: by an operator on two values that are no constants, or a call."""
    for node in tree.of(ast.BinOp, ast.AugAssign, ast.Call):
        if isinstance(node, ast.Call) and _name(node) in _JOIN:
            return True
        sides = {ast.BinOp: ("left", "right"), ast.AugAssign: ("target", "value")}.get(type(node), ())
        if sides and not any(tree.source.alternatives(getattr(node, side)) for side in sides):
            return True
    return False


def _is_layer(source: Source, node: ast.Call) -> bool:
    """Say whether a call makes a layer of Keras', which has been followed."""
    return (source.name_of(node.func) or "").startswith("keras.layers.")


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _numbers(source: Source, node: ast.expr) -> frozenset[int]:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    found = {n for e in elements for known in source.alternatives(e) for n in _flat(known.value)}
    return frozenset(found.union(*(_tails(k.value) for k in source.alternatives(node) if isinstance(k.value, tuple))))


def _flat(value: Any) -> set[int]:
    if isinstance(value, tuple):
        return {number for item in value for number in _flat(item)}
    return {value} if type(value) is int else set()
