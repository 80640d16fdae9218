"""A softmax inside the last layer, split off to compute in float32: the layer itself stays on the Tensor Cores."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tcprobe.audit.fix.literals import parents_of
from tcprobe.audit.fix.text import Read, edited, line_starts, offsets
from tcprobe.audit.fix.wants import NotCertain
from tcprobe.rules.precision.dtypes import SPLIT
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Layer
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

_COUNTS: Final = frozenset({"get_layer", "pop"})
_REST: Final = re.compile(r"(?P<comma>,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")
_SEQUENTIAL: Final = "keras.Sequential"


def splits(finding: Finding) -> bool:
    """Say whether a finding asks for an activation to be split off."""
    return finding.says.kind == SPLIT


def split_off(finding: Finding, sources: Mapping[str, Source], read: Read) -> Fix:
    """Return the fix: the activation leaves the call, and follows as a layer of its own in float32.

    The edited file is read again: it must have the same layers in the same dtypes, but for these two.

    Args:
        finding: one that `splits`.
        sources: the files that may be edited, by absolute path.
        read: returns the models that a file constructs, which proves the fix.

    Raises:
        NotCertain: the layer stands neither in a Sequential's list nor in a call, or its activation elsewhere; or code
            counts on the layers that are there.
    """
    place = finding.place
    source = sources.get(place.file) if place is not None else None
    call = _call(source, place) if source is not None and place is not None else None
    if source is None or call is None:
        raise NotCertain(say("not_split"))
    if _counts_layers(source):
        raise NotCertain(say("layers_counted"))
    edits = tuple(sorted(_edits(source, call, parents_of(source.tree)), key=lambda e: e.place))
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
    name, imported = _beside(source, call, "Activation")
    text = f'{name}({source.segment(source.place(given.value))}, dtype="float32")'
    taken = [*imported, _dropped(source, call, given)]
    parent = parents.get(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node and parent.args and not parent.keywords:
        start = source.place(parent)
        at = Place(start.file, start.line, start.column, start.line, start.column)
        return [*taken, Edit(at, "", f"{text}("), _insert(source, parent, ")")]
    if isinstance(parent, ast.List | ast.Tuple) and _in_sequential(source, parent, parents):
        return [*taken, _element(source, call, text)]
    raise NotCertain(say("not_split"))


def _dropped(source: Source, call: Call, given: ast.keyword) -> Edit:
    """Return the edit that takes an argument out, with the comma before it."""
    own = source.place(given)
    others = [source.place(node) for node in (*call.node.args, *call.node.keywords) if node is not given]
    before = max((place for place in others if place < own), default=None)
    if before is None or before.end_line is None or before.end_column is None:
        raise NotCertain(say("not_split"))
    gap = Place(own.file, before.end_line, before.end_column, own.end_line, own.end_column)
    text = source.segment(gap)
    if "#" in text:
        raise NotCertain(say("not_split"))
    return Edit(gap, text, "")


def _prove(source: Source, call: Call, edits: tuple[Edit, ...], read: Read) -> None:
    before = [layer for model in read(source) for layer in model.layers]
    mended = source.edited(edited(source.text, list(edits), source.path))
    after = [layer for model in read(mended) for layer in model.layers]
    mine = [layer for layer in before if layer.place == source.place(call.node)]
    if len(mine) != 1 or not mine[0].is_last or mine[0].calls != 1:
        raise NotCertain(say("not_split"))
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


def _in_sequential(source: Source, node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a list is that of a Sequential's layers."""
    outer = parents.get(node)
    if isinstance(outer, ast.keyword):
        outer = parents.get(outer)
    return isinstance(outer, ast.Call) and source.name_of(outer.func) == _SEQUENTIAL


def _beside(source: Source, call: Call, name: str) -> tuple[str, tuple[Edit, ...]]:
    """Return how to write a class of layers where a layer's own is written so, and what imports it if nothing does.

    Raises:
        NotCertain: the name stands for something else, or nothing tells where to import it from.
    """
    func = call.node.func
    if isinstance(func, ast.Attribute):
        return f"{ast.unparse(func.value)}.{name}", ()
    written = func.id if isinstance(func, ast.Name) else ""
    imports = [n for n in source.tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("layers")]
    if any(alias.name == name and alias.asname is None for node in imports for alias in node.names):
        return name, ()
    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(source.tree)):
        raise NotCertain(say("not_split"))
    own = [alias for node in imports for alias in node.names if (alias.asname or alias.name) == written]
    if len(own) != 1:
        raise NotCertain(say("not_split"))
    return name, (_insert(source, own[0], f", {name}"),)


def _element(source: Source, call: Call, text: str) -> Edit:
    """Return the edit that adds an element to a list behind a call: on a line of its own where the call has one."""
    start, end = offsets(source.place(call.node), line_starts(source.text))
    begin = max(source.text.rfind("\n", 0, start), source.text.rfind("\r", 0, start)) + 1
    before, rest = source.text[begin:start], _REST.match(source.text, end)
    if before.strip() or rest is None:
        return _insert(source, call.node, f", {text}")
    first = source.lines[0]
    line_end = first[len(first.rstrip("\r\n")) :]
    if not rest["comma"]:
        return _insert(source, call.node, f",{line_end}{before}{text}")
    place = source.place(call.node)
    line, column = (place.end_line or place.line), (place.end_column or place.column) + len(rest[0])
    return Edit(Place(place.file, line, column, line, column), "", f"{line_end}{before}{text},")


def _insert(source: Source, node: ast.AST, text: str) -> Edit:
    """Return the edit that adds text behind a node."""
    end = source.place(node)
    line, column = (end.end_line or end.line), (end.end_column or end.column)
    return Edit(Place(end.file, line, column, line, column), "", text)
