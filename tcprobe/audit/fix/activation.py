"""A softmax inside the last layer, split off to compute in float32: the layer itself stays on the Tensor Cores."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.audit.fix.inserted import beside, element, in_sequential, insert
from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.text import edited
from tcprobe.rules.precision.tc201 import SPLIT
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

Read: TypeAlias = "Callable[[Source], list[Model]]"
_COUNTS: Final = frozenset({"get_layer", "pop"})


def splits(finding: Finding) -> bool:
    """Say whether a finding asks for an activation to be split off."""
    return finding.says.kind == SPLIT


def split_off(finding: Finding, files: Files, read: Read | None) -> Fix:
    """Return the fix: the activation leaves the call, and follows as a layer of its own in float32.

    The edited file is read again: it must have the same layers in the same dtypes, but for these two.

    Args:
        finding: one that `splits`.
        files: that may be edited.
        read: returns the models that a file constructs; None where nothing can prove the fix.

    Raises:
        NotCertain: the layer stands neither in a Sequential's list nor in a call, or its activation elsewhere; or code
            counts on the layers that are there.
    """
    place = finding.place
    source = files.sources.get(place.file) if place is not None else None
    call = _call(source, place) if source is not None and place is not None else None
    if source is None or call is None:
        raise NotCertain(say("activation_elsewhere"))
    if read is None:
        raise NotCertain(say("unproven"))
    if _counts_layers(source):
        raise NotCertain(say("layers_counted"))
    edits = tuple(sorted(_edits(source, call, files.tree(source.path).parents), key=lambda e: e.place))
    _prove(source, call, edits, read)
    about = About(finding.layer_class or "", finding.layer or "")
    return Fix(say("activation_split", activation=finding.says.get("activation"), subject=about), edits, safe=True)


def _call(source: Source, place: Place) -> Call | None:
    """Return the call that a keyword ``activation`` stands in."""
    for call in source.calls():
        given = next((k for k in call.node.keywords if k.arg == "activation"), None)
        if given is not None and source.place(given.value) == place and "dtype" not in call.arguments:
            return call if all(k.arg is not None for k in call.node.keywords) else None
    return None


def _counts_layers(source: Source) -> bool:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "layers":
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COUNTS:
            return True
    return False


def _edits(source: Source, call: Call, parents: Mapping[ast.AST, ast.AST]) -> list[Edit]:
    given = next(k for k in call.node.keywords if k.arg == "activation")
    name, imported = beside(source, call, "Activation")
    text = f'{name}({source.segment(source.place(given.value))}, dtype="float32")'
    taken = [*imported, _dropped(source, call, given)]
    parent = parents.get(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node and parent.args and not parent.keywords:
        start = source.place(parent)
        at = Place(start.file, start.line, start.column, start.line, start.column)
        return [*taken, Edit(at, "", f"{text}("), insert(source, parent, ")")]
    if isinstance(parent, ast.List | ast.Tuple) and in_sequential(source, parent, parents):
        return [*taken, element(source, call, text)]
    raise NotCertain(say("stands_elsewhere"))


def _dropped(source: Source, call: Call, given: ast.keyword) -> Edit:
    """Return the edit that takes an argument out, with the comma before it."""
    own = source.place(given)
    others = [source.place(node) for node in (*call.node.args, *call.node.keywords) if node is not given]
    before = max((place for place in others if place < own), default=None)
    if before is None or before.end_line is None or before.end_column is None:
        raise NotCertain(say("activation_elsewhere"))
    gap = Place(own.file, before.end_line, before.end_column, own.end_line, own.end_column)
    text = source.segment(gap)
    if "#" in text:
        raise NotCertain(say("activation_elsewhere"))
    return Edit(gap, text, "")


def _prove(source: Source, call: Call, edits: tuple[Edit, ...], read: Read) -> None:
    before = [layer for model in read(source) for layer in model.layers]
    mended = source.edited(edited(source.text, list(edits), source.path))
    after = [layer for model in read(mended) for layer in model.layers]
    mine = [layer for layer in before if layer.place == source.place(call.node)]
    if len(mine) != 1 or not mine[0].is_last or mine[0].calls != 1:
        raise NotCertain(say("activation_elsewhere"))
    index = before.index(mine[0])
    wanted = [_essence(layer) for layer in before]
    config = {**mine[0].config, "activation": None}
    wanted[index] = _essence(replace(mine[0], config=config, is_last=False))
    behind = [_essence(layer) for layer in after]
    added = [layer for layer in after if layer.kind == "Activation" and layer.is_last and layer.dtype == "float32"]
    own = [layer for layer in added if layer.inputs_from == (mine[0].name,)]
    if len(own) != 1:
        raise NotCertain(say("unproven"))
    behind.remove(_essence(own[0]))
    if behind != wanted:
        raise NotCertain(say("unproven"))


def _essence(layer: Layer) -> tuple[object, ...]:
    settings = sorted((name, repr(value)) for name, value in layer.config.items() if value is not None)
    return layer.kind, layer.dtype, layer.input_shapes, layer.output_shape, layer.is_last, tuple(settings)
