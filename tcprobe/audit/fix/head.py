"""A convolution with very few filters at the end of a model: more filters, and only the first ones kept.

One filter is what the output is, so the number cannot simply change; a slice gives it back. The model's parameters
change with it, as with every size.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix.links import NotCertain, WantedSize
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.text import line_starts, offsets
from tcprobe.keras.catalogue import class_of
from tcprobe.keras.row import LayerKind
from tcprobe.rules.model.links import IMAGE_CHANNELS
from tcprobe.schema.finding import Edit, Finding
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

_CONVOLUTIONS: Final[tuple[LayerKind, ...]] = ("convolution", "transposed convolution")
# Each filter by itself, so that those cut off leave the rest as it was; softmax is not.
_ELEMENTWISE: Final = frozenset(
    (
        *(None, "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "swish", "silu", "mish"),
        *("sigmoid", "hard_sigmoid", "log_sigmoid", "tanh", "hard_tanh", "hard_swish", "hard_silu", "softplus"),
        *("softsign", "exponential"),
    )
)
_REST: Final = re.compile(r"(?P<comma>,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")
_SEQUENTIAL: Final = "keras.Sequential"


def is_image_head(finding: Finding, model: Model) -> bool:
    """Say whether a finding is about a convolution whose filters are an image, as the rules on sizes have it."""
    layer = model.layer(finding.layer)
    few = finding.dimension == "filters" and finding.size is not None and finding.size <= IMAGE_CHANNELS
    return layer is not None and few and class_of(layer.kind).kind in _CONVOLUTIONS


def wanted_of(finding: Finding, layer: Layer) -> frozenset[WantedSize]:
    """Return the one argument that changes.

    Raises:
        NotCertain: the activation mixes filters, or filters are not the last axis.
    """
    if finding.size is None or finding.suggested is None:
        raise NotCertain(say("no_size_named"))
    if layer.config.get("activation") not in _ELEMENTWISE or layer.config.get("groups", 1) != 1:
        raise NotCertain(say("filters_depend"))
    if layer.config.get("data_format") == "channels_first":
        raise NotCertain(say("filters_not_last"))
    return frozenset([WantedSize(layer.name, "filters", None, finding.size, finding.suggested)])


def additions(finding: Finding, layer: Layer, files: Files) -> tuple[Edit, ...]:
    """Return what keeps only the first filters: a Lambda in a Sequential's list, a slice of a call's result.

    Raises:
        NotCertain: the filters are no literal in the call itself, or the call stands in neither.
    """
    place = layer.arguments.get("filters")
    source = files.sources.get(place.file) if place else None
    call = _call(source, place) if source and place else None
    if source is None or call is None or not isinstance(call.arguments["filters"].node, ast.Constant):
        raise NotCertain(say("filters_no_literal"))
    parents = files.tree(source.path).parents
    parent = parents.get(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node and len(parent.args) == 1 and not parent.keywords:
        return (_insert(source, parent, f"[..., :{finding.size}]"),)
    if isinstance(parent, ast.List | ast.Tuple) and _in_sequential(source, parent, parents):
        name, imported = _beside(source, call)
        return (*imported, _element(source, call, f"{name}(lambda images: images[..., :{finding.size}])"))
    raise NotCertain(say("stands_elsewhere"))


def _call(source: Source, place: Place) -> Call | None:
    found = [c for c in source.calls() if "filters" in c.arguments and c.arguments["filters"].place == place]
    return found[0] if len(found) == 1 else None


def _in_sequential(source: Source, node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    outer = parents.get(node)
    if isinstance(outer, ast.keyword):
        outer = parents.get(outer)
    return isinstance(outer, ast.Call) and source.name_of(outer.func) == _SEQUENTIAL


def _beside(source: Source, call: Call) -> tuple[str, tuple[Edit, ...]]:
    """Return how to write Lambda where the layer's own class is written so, and what imports it if nothing does."""
    func = call.node.func
    if isinstance(func, ast.Attribute):
        return f"{ast.unparse(func.value)}.Lambda", ()
    written = func.id if isinstance(func, ast.Name) else ""
    imports = [n for n in source.tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("layers")]
    if any(alias.name == "Lambda" and alias.asname is None for node in imports for alias in node.names):
        return "Lambda", ()
    if any(isinstance(n, ast.Name) and n.id == "Lambda" for n in ast.walk(source.tree)):
        raise NotCertain(say("lambda_other"))
    own = [alias for node in imports for alias in node.names if (alias.asname or alias.name) == written]
    if len(own) != 1:
        raise NotCertain(say("lambda_missing"))
    return "Lambda", (_insert(source, own[0], ", Lambda"),)


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
    end = source.place(node)
    line, column = (end.end_line or end.line), (end.end_column or end.column)
    return Edit(Place(end.file, line, column, line, column), "", text)
