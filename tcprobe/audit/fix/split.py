"""A softmax inside the last layer, split off to compute in float32: the layer itself stays on the Tensor Cores."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from tcprobe.audit.fix.text import edited
from tcprobe.audit.fix.wants import NotCertain, Read
from tcprobe.rules.precision.dtypes import SPLIT
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Layer, Place
from tcprobe.schema.statement import About, say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

_COUNTS: Final = re.compile(r"\.layers\s*\[|\bget_layer\b|\.pop\b")
"""Code that takes layers of a model by number or name."""


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
    source = sources.get(finding.place.file) if finding.place is not None else None
    edits = _edits(source, finding.place) if source is not None and not _COUNTS.search(source.text) else None
    if source is None or edits is None:
        raise NotCertain(say("not_split"))
    if not _is_proven(source, edits, read):
        raise NotCertain(say("unproven"))
    about = About(finding.layer_class or "", finding.layer or "")
    return Fix(say("activation_split", activation=finding.says.get("activation"), subject=about), edits, safe=True)


def _edits(source: Source, place: Place | None) -> tuple[Edit, ...] | None:
    """Return the edits that split the keyword ``activation`` at a place off its call; None where they are not known."""
    for call in source.calls():
        given = next((k for k in call.node.keywords if k.arg == "activation"), None)
        if given is not None and source.place(given.value) == place and "dtype" not in call.arguments:
            return _moved(source, call, given)
    return None


def _moved(source: Source, call: Call, given: ast.keyword) -> tuple[Edit, ...] | None:
    """Return the edits that take an activation out of a call, with the comma before it, and put a layer behind."""
    parts, name = [*call.node.args, *call.node.keywords], _beside(source, call)
    spread = any(isinstance(part, ast.Starred) or getattr(part, "arg", "") is None for part in parts)
    if parts[0] is given or name is None or spread:
        return None
    gap = _between(source.place(parts[parts.index(given) - 1]), source.place(given))
    dropped = Edit(gap, source.segment(gap), "")
    text = f'{name}({source.segment(source.place(given.value))}, dtype="float32")'
    around = next(node for node in ast.walk(source.tree) if call.node in ast.iter_child_nodes(node))
    match around:
        case ast.Call(func=called, args=[_, *_], keywords=[]) if called is call.node:
            start, end = source.place(around), _end(source.place(around))
            first = replace(start, end_line=start.line, end_column=start.column)
            edits: tuple[Edit, ...] = Edit(first, "", f"{text}("), dropped, Edit(end, "", ")")
        case ast.List() if _is_sequential(source, around):
            edits = dropped, Edit(_end(source.place(call.node)), "", f", {text}")
        case _:
            return None
    return edits if "#" not in dropped.before else None


def _beside(source: Source, call: Call) -> str | None:
    """Return how to write ``Activation`` where a layer's own class is written so; None where it is not imported."""
    if isinstance(call.node.func, ast.Attribute):
        return f"{ast.unparse(call.node.func.value)}.Activation"
    imports = (n for n in source.tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("layers"))
    found = any((alias.name, alias.asname) == ("Activation", None) for node in imports for alias in node.names)
    return "Activation" if found else None


def _is_sequential(source: Source, listed: ast.List) -> bool:
    """Say whether a list is that of a Sequential's layers."""
    calls = (call for call in source.calls() if call.name == "keras.Sequential")
    return any(argument.node is listed for call in calls for argument in call.arguments.values())


def _end(place: Place) -> Place:
    return _between(place, place)


def _between(before: Place, after: Place) -> Place:
    """Return the text from the end of one place to that of another behind it."""
    line, column = before.end_line or before.line, before.end_column or before.column
    return replace(after, line=line, column=column)


def _is_proven(source: Source, edits: tuple[Edit, ...], read: Read) -> bool:
    """Say whether the edited file has the same layers, the last one's activation apart."""
    after = source.edited(edited(source.text, edits, source.path))
    before, behind = ([layer for model in read(one) for layer in model.layers] for one in (source, after))
    added = [layer for layer in behind if layer.kind == "Activation" and layer.is_last and layer.dtype == "float32"]
    names = [layer.inputs_from for layer in added]
    mine = [layer for layer in before if layer.is_last and layer.calls == 1 and (layer.name,) in names]
    if len(mine) != 1 or len(added) - sum(layer in before for layer in added) != 1:
        return False
    (own,) = mine
    wanted = [replace(x, config={**x.config, "activation": None}, is_last=False) if x is own else x for x in before]
    left = [layer for layer in behind if layer.inputs_from != (own.name,)]
    return [_essence(layer) for layer in left] == [_essence(layer) for layer in wanted]


def _essence(layer: Layer) -> tuple[object, ...]:
    settings = sorted((name, repr(value)) for name, value in layer.config.items() if value is not None)
    return layer.kind, layer.dtype, layer.input_shapes, layer.output_shape, layer.is_last, tuple(settings)
