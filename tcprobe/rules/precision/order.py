"""TC205: finds a mixed policy set after layers were built."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.row import PREPARES, LayerKind
from tcprobe.rules.base import Says, Subject
from tcprobe.rules.precision.file import File, Setter, keyword
from tcprobe.rules.precision.policy import (
    MIXED,
    Saved,
    call_of,
    files_of,
    half_of,
    has_cores_for,
    saved,
    setters_of,
    with_saving,
)
from tcprobe.schema.finding import ERROR_PCT, Finding
from tcprobe.schema.model import Layer, Place
from tcprobe.schema.statement import Both, say
from tcprobe.source.scopes import FunctionNode

_BUILT_ONE: Final = "a layer was built, which stays"
SAYS: Final[Says] = {
    "policy_after_layers": lambda policy, layers: Both(
        f"{policy} is set after {_BUILT_ONE if layers == 1 else f'{layers} layers were built, which stay'} float32",
        "set it first",
    ),
    "cost_unknown": "what it costs is not known",
    "built_before_policy": "built before the policy is set",
}

_LAYER: Final = re.compile(r"keras\.(?:\w++\.)*layers\.(?:\w++\.)*[A-Z]\w*|keras\.applications\.(?:\w++\.)*[A-Z]\w*")
# These compute nothing in 16 bits that matters: data goes through them in any dtype.
_LIGHT: Final[frozenset[LayerKind]] = PREPARES | {"input", "base"}
_SHOWN: Final = 3


def tc205(subject: Subject) -> Iterator[Finding]:
    """Yield the calls that set a mixed policy too late."""
    yield from list(_in_order(subject)) or _traced(subject)


def _in_order(subject: Subject) -> Iterator[Finding]:
    for file in files_of(subject):
        calls = [setter for setter in file.setters if setter.policy in MIXED]
        early = _before(file, calls[0]) if calls else []
        if early and _confirmed(subject):
            yield _finding(subject, calls[0], [file.place(node) for node in early])


def _finding(subject: Subject, setter: Setter, places: list[Place]) -> Finding:
    finding = Finding(
        code="TC205",
        says=say("policy_after_layers", policy=setter.policy, layers=len(places)),
        place=setter.place,
        dtype="float32",
        related=tuple((place, say("built_before_policy")) for place in places[:_SHOWN]),
    )
    found = with_saving(finding, subject, _gain(subject, setter), "cost_unknown")
    share = found.saving_pct
    return found if share is not None and share.mid >= ERROR_PCT else replace(found, severity="warning")


def _gain(subject: Subject, setter: Setter) -> Saved | None:
    """Return what the policy would save in all layers that are float32 for no other reason; None if unknown."""
    names = {layer.name for layer in _float32(subject)}
    half = half_of(setter.policy)
    if half is None or not has_cores_for(subject.step.target.gpu, half):
        return None
    return saved(subject, (product for product in subject.model.products if product.layer in names), half)


def _before(file: File, setter: Setter) -> list[ast.Call]:
    """Return the layers that certainly exist when the policy is set and are used afterwards.

    If others are built afterwards (a comparison of precisions), only if those take in the early ones.
    """
    block, at = _block_of(file, setter.node)
    builders = _builders(file)
    early = [call for statement in block[:at] for call in _built(file, statement, builders)]
    late = any(_built(file, statement, builders) for statement in block[at + 1 :])
    made = (node for statement in block[:at] for node in _surely(statement) if isinstance(node, ast.Assign))
    targets = (target for node in made if _built(file, node, builders) for target in node.targets)
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return early if early and _used(file, names, block[at + 1 :], feeds=late) else []


def _block_of(file: File, node: ast.AST) -> tuple[list[ast.stmt], int]:
    """Return the body of the function or module around a node, and the index of the statement with the node."""
    inner = node
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, FunctionNode | ast.Module) and inner in ancestor.body:
            return ancestor.body, ancestor.body.index(inner)
        inner = ancestor
    return [], 0


def _built(file: File, statement: ast.stmt, builders: dict[str, list[ast.Call]]) -> list[ast.Call]:
    """Return the layers that a statement certainly builds when it runs, itself or through a function of this file."""
    found: list[ast.Call] = []
    for node in _surely(statement):
        if isinstance(node, ast.Call):
            if _is_layer(file, node):
                found.append(node)
            elif isinstance(node.func, ast.Name):
                found.extend(builders.get(node.func.id, []))
    return found


def _is_layer(file: File, node: ast.Call) -> bool:
    name = file.name(node.func)
    if not _LAYER.fullmatch(name) or class_of(name.rpartition(".")[2]).kind in _LIGHT:
        return False
    return keyword(node, "dtype") is None and all(k.arg is not None for k in node.keywords)


def _surely(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run whenever a statement does: no branches, no function bodies."""
    if isinstance(
        statement, FunctionNode | ast.ClassDef | ast.Lambda | ast.If | ast.Try | ast.While | ast.Match | ast.IfExp
    ):
        return
    yield statement
    for child in ast.iter_child_nodes(statement):
        yield from _surely(child)


def _builders(file: File) -> dict[str, list[ast.Call]]:
    """Return the module's functions that build layers without setting a policy, with those layers."""
    functions = (f for f in file.root.body if isinstance(f, FunctionNode) and "policy" not in ast.unparse(f))
    return {f.name: [call for child in f.body for call in _built(file, child, {})] for f in functions}


def _used(file: File, names: set[str], later: list[ast.stmt], *, feeds: bool) -> bool:
    """Say whether later statements use one of the names before rebinding it, or even feed it to a layer."""
    nodes = [node for statement in later for node in ast.walk(statement) if isinstance(node, ast.Name)]
    rebound = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    loaded = (node for node in nodes if isinstance(node.ctx, ast.Load) and node.id in names - rebound)
    return any(not feeds or _feeds(file, node) for node in loaded)


def _feeds(file: File, node: ast.Name) -> bool:
    """Say whether a name is an argument of a layer, or in its list of inputs, but not the object of a method."""
    parent = file.parents.get(node)
    if isinstance(parent, ast.List | ast.Tuple):
        parent = file.parents.get(parent)
    return (
        isinstance(parent, ast.Call) and parent.func is not node and isinstance(parent.func, ast.Call | ast.Attribute)
    )


def _float32(subject: Subject) -> list[Layer]:
    """Return the layers with products that compute in float32 though no dtype was given."""
    used = {product.layer for product in subject.model.products}
    return [
        layer
        for layer in subject.model.layers
        if layer.dtype == "float32" and layer.name in used and layer.arguments and "dtype" not in layer.arguments
    ]


def _confirmed(subject: Subject) -> bool:
    """Say whether the known dtypes of the layers are consistent with it."""
    if subject.model.mode == "traced":
        return bool(_float32(subject))
    known = [layer for layer in subject.model.layers if layer.dtype is not None and "dtype" not in layer.arguments]
    return not known or any(layer.dtype == "float32" for layer in known)


def _traced(subject: Subject) -> Iterator[Finding]:
    """Yield the only call that sets a policy if layers of the same file are float32 nevertheless."""
    if subject.model.mode != "traced" or half_of(subject.model.policy) is None:
        return
    found = setters_of(subject)
    if len(found) != 1 or found[0].policy != subject.model.policy:
        return
    calls = [made for layer in _float32(subject) if (made := call_of(subject, layer)) is not None]
    places = [call.place for file, call in calls if _is_layer(file, call.node)]
    if places:
        yield _finding(subject, found[0], places)
