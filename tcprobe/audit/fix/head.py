"""A convolution with very few filters at the end of a model: more filters, and only the first ones kept.

One filter is what the output is, so the number cannot simply change; a slice gives it back. The model's parameters
change with it, as with every size.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix.inserted import beside, element, in_sequential, insert
from tcprobe.audit.fix.links import NotCertain, WantedSize
from tcprobe.audit.fix.source.files import Files
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
        return (insert(source, parent, f"[..., :{finding.size}]"),)
    if isinstance(parent, ast.List | ast.Tuple) and in_sequential(source, parent, parents):
        name, imported = beside(source, call, "Lambda")
        return (*imported, element(source, call, f"{name}(lambda images: images[..., :{finding.size}])"))
    raise NotCertain(say("stands_elsewhere"))


def _call(source: Source, place: Place) -> Call | None:
    found = [c for c in source.calls() if "filters" in c.arguments and c.arguments["filters"].place == place]
    return found[0] if len(found) == 1 else None
