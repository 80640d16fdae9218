"""TC208: finds mixed-precision API that Keras 3 no longer has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from tcprobe.keras.catalogue import KERAS_2, by_path, known
from tcprobe.rules.base import Says, Subject
from tcprobe.rules.precision.file import File, keyword
from tcprobe.rules.precision.policy import files_of, keras_major
from tcprobe.schema.finding import Edit, Finding, FindingKind, Fix, Severity
from tcprobe.schema.statement import Both, Statement, say

SAYS: Final[Says] = {
    "policy_graph_rewrite": Both(
        "enable_mixed_precision_graph_rewrite refuses optimizers of Keras 3",
        "set the policy with keras.mixed_precision.set_global_policy('mixed_float16') before the layers",
    ),
    "loss_scale_gone": lambda name: Both(
        f"{name} is gone",
        "keras.mixed_precision.LossScaleOptimizer scales dynamically by itself",
    ),
    "no_loss_scale_argument": lambda name: Both(
        f"{name} has no argument loss_scale in Keras 3",
        "wrap the optimizer in LossScaleOptimizer",
    ),
    "api_gone": lambda name: Both(f"{name} is gone in Keras 3", ""),
    "api_renamed": lambda name, new: Both(f"{name} is gone in Keras 3", f"use keras.mixed_precision.{new}"),
    "api_renamed_without_scale": lambda name, new: Both(
        f"{name} is gone in Keras 3",
        f"use keras.mixed_precision.{new}, without loss_scale",
    ),
    "scaled_loss_gone": Both("get_scaled_loss is gone in Keras 3", "use scale_loss"),
    "unscaled_gradients_gone": Both(
        "get_unscaled_gradients is gone in Keras 3",
        "apply_gradients divides by the scale itself",
    ),
    "call_renamed": lambda new: f"call {new}",
    "scale_as_keras_3": "scale the loss as Keras 3 does",
}

_HINT: Final = re.compile(r"experimental|set_policy|loss_scale|get_scaled_loss|get_unscaled|graph_rewrite|LossScale")
_EXPERIMENTAL: Final = re.compile(r"keras\.mixed_precision\.experimental\.(\w+)")
_SET_POLICY: Final = "keras.mixed_precision.set_policy"
_REWRITE: Final = re.compile(r"tensorflow\.(?:\w++\.)*enable_mixed_precision_graph_rewrite(?:_v1)?")
_LOSS_SCALE: Final = re.compile(r"tensorflow\.(?:mixed_precision|train)\.experimental\.(?:Dynamic|Fixed)?LossScale")
_FIRST_WITHOUT: Final = 3
_METHODS: Final[dict[str, FindingKind]] = {
    "get_scaled_loss": "scaled_loss_gone",
    "get_unscaled_gradients": "unscaled_gradients_gone",
}
_Gone: TypeAlias = tuple[Statement[FindingKind], Fix | None]


def tc208(subject: Subject) -> Iterator[Finding]:
    """Yield the calls that Keras 3 lacks."""
    major = keras_major(subject)
    severity: Severity = "error" if major is not None and major >= _FIRST_WITHOUT else "note"
    for file in files_of(subject):
        if not _HINT.search(file.text) or file.keeps_keras_2:
            continue
        for node in file.calls:
            gone = _named(file, node) or _method(file, node)
            if gone is not None and not file.asks_first(node):
                says, fix = gone
                if says.kind == "unscaled_gradients_gone" and severity == "error":
                    fix = _unscaled(file, node)
                yield Finding("TC208", says, file.place(node), severity, fix=fix)


def _named(file: File, node: ast.Call) -> _Gone | None:
    name = file.name(node.func)
    if (file.source.names.written(node.func) or "").startswith(KERAS_2):
        return None
    if _EXPERIMENTAL.fullmatch(name) or name == _SET_POLICY:
        return _renamed(file, node, name)
    if _REWRITE.fullmatch(name):
        return say("policy_graph_rewrite"), None
    if _LOSS_SCALE.fullmatch(name):
        return say("loss_scale_gone", name=name), None
    row = by_path().get(name)  # of a policy, or of an optimizer that scales the loss
    if row is not None and row.module == "mixed_precision" and keyword(node, "loss_scale") is not None:
        return say("no_loss_scale_argument", name=name.rpartition(".")[2]), None
    return None


def _renamed(file: File, node: ast.Call, name: str) -> _Gone:
    old = name.rpartition(".")[2]
    new = "set_global_policy" if old == "set_policy" else old
    if not known(f"keras.mixed_precision.{new}"):
        return say("api_gone", name=name), None
    scaled = keyword(node, "loss_scale") is not None or (old != "set_policy" and len(node.args) > 1)
    kind: FindingKind = "api_renamed_without_scale" if scaled else "api_renamed"
    return say(kind, name=name, new=new), None if scaled else _rename(file, node.func, new)


def _rename(file: File, node: ast.expr, new: str) -> Fix | None:
    """Return the edit that renames a function written with its module; None if an import must change too."""
    text = file.segment(node)
    match = re.fullmatch(r"((?:\w++\.)*mixed_precision)(\.experimental)?\.\w+", text)
    if match is None or (match.group(2) is None and ".experimental." in file.name(node)):
        return None
    edit = Edit(file.place(node), text, f"{match.group(1)}.{new}")
    return Fix(say("call_renamed", new=new), (edit,), safe=True)


def _method(file: File, node: ast.Call) -> _Gone | None:
    """Judge get_scaled_loss and get_unscaled_gradients; code that also has the new name is taken to check by itself."""
    kind = _METHODS.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
    return None if kind is None or "scale_loss" in file.words else (say(kind), None)


def _unscaled(file: File, node: ast.Call) -> Fix | None:
    """Return the edits that turn both calls in a function into Keras 3's; None unless there is one of each."""
    nodes = (n for n in ast.walk(file.function_of(node) or file.root) if isinstance(n, ast.Call))
    methods = [n.func for n in nodes if isinstance(n.func, ast.Attribute) and n.func.attr in _METHODS]
    scaled = [method for method in methods if method.attr == "get_scaled_loss"]
    if len(scaled) != 1 or len(methods) != 2 or len(node.args) != 1 or node.keywords:
        return None
    text = file.segment(scaled[0])
    edits = (
        Edit(file.place(scaled[0]), text, text.removesuffix("get_scaled_loss") + "scale_loss"),
        Edit(file.place(node), file.segment(node), file.segment(node.args[0])),
    )
    return Fix(say("scale_as_keras_3"), tuple(sorted(edits, key=lambda edit: edit.place)), safe=True)
