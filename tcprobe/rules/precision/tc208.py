"""TC208: finds mixed-precision API that Keras 3 no longer has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.keras.catalogue import by_path
from tcprobe.keras.names import KERAS_2, known
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import keeps_keras_2, keras_major
from tcprobe.rules.precision.tree import Tree, keyword, name_of, tree_of
from tcprobe.schema.finding import Edit, Finding, Fix, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC208",
    name="gone-in-keras-3",
    summary="The code uses mixed-precision API that Keras 3 does not have.",
    explanation=(
        "Keras 3, which is tf.keras from TensorFlow 2.16 on, has no keras.mixed_precision.experimental, no loss_scale "
        "argument of a policy or of LossScaleOptimizer, and no get_scaled_loss and get_unscaled_gradients: "
        "optimizer.scale_loss scales, and apply_gradients divides by itself. The graph rewrite refuses optimizers of "
        "Keras 3.\n\n"
        "Code that asks first (hasattr, getattr, try, a test of the version) or that calls both names is left alone, "
        "and so is code that takes Keras 2 by name: import tf_keras, or TF_USE_LEGACY_KERAS=1 set in the file. "
        "dynamic=False is TC203's; initial_scale and dynamic_growth_steps exist in Keras 3 too."
    ),
    severity="error where Keras 3 or later is known to run the code; note where the version is not known or is 2.",
    bad=(
        "from tensorflow.keras.mixed_precision import experimental as mixed_precision\n"
        'mixed_precision.set_policy(mixed_precision.Policy("mixed_float16", loss_scale="dynamic"))\n'
    ),
    good='from tensorflow import keras\nkeras.mixed_precision.set_global_policy("mixed_float16")\n',
    sources=(
        "Keras 3.15.1, keras/src/optimizers/loss_scale_optimizer.py and keras/src/dtype_policies/dtype_policy.py",
        "Tried with TensorFlow 2.21 and Keras 3.15.1: keras.mixed_precision.experimental and both methods raise "
        "AttributeError, Policy(loss_scale=) TypeError, LossScaleOptimizer(loss_scale=) and "
        "enable_mixed_precision_graph_rewrite ValueError",
        "keras-team/keras#19479 and #20894, tensorflow/tensorflow#64124: get_scaled_loss is gone from TensorFlow 2.16",
    ),
    fixable=True,
)
SAYS: Final[Says] = {
    "policy_graph_rewrite": (
        "enable_mixed_precision_graph_rewrite refuses optimizers of Keras 3",
        "set the policy with keras.mixed_precision.set_global_policy('mixed_float16') before the layers",
    ),
    "loss_scale_gone": (
        "{name} is gone",
        "keras.mixed_precision.LossScaleOptimizer scales dynamically by itself",
    ),
    "no_loss_scale_argument": (
        "{name} has no argument loss_scale in Keras 3",
        "wrap the optimizer in LossScaleOptimizer",
    ),
    "api_gone": ("{name} is gone in Keras 3", ""),
    "api_renamed": ("{name} is gone in Keras 3", "use keras.mixed_precision.{new}"),
    "api_renamed_without_scale": (
        "{name} is gone in Keras 3",
        "use keras.mixed_precision.{new}, without loss_scale",
    ),
    "scaled_loss_gone": ("get_scaled_loss is gone in Keras 3", "use scale_loss"),
    "unscaled_gradients_gone": (
        "get_unscaled_gradients is gone in Keras 3",
        "apply_gradients divides by the scale itself",
    ),
    "call_renamed": "call {new}",
    "scale_as_keras_3": "scale the loss as Keras 3 does",
}

_HINT: Final = re.compile(r"experimental|set_policy|loss_scale|get_scaled_loss|get_unscaled|graph_rewrite|LossScale")
_EXPERIMENTAL: Final = re.compile(r"keras\.mixed_precision\.experimental\.(\w+)")
_SET_POLICY: Final = "keras.mixed_precision.set_policy"
_REWRITE: Final = re.compile(r"tensorflow\.(?:\w++\.)*enable_mixed_precision_graph_rewrite(?:_v1)?")
_LOSS_SCALE: Final = re.compile(r"tensorflow\.(?:mixed_precision|train)\.experimental\.(?:Dynamic|Fixed)?LossScale")
_FIRST_WITHOUT: Final = 3
_Gone: TypeAlias = tuple[Statement[FindingKind], Fix | None]


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the calls that Keras 3 lacks."""
    major = keras_major(subject)
    severity: Severity = "error" if major is not None and major >= _FIRST_WITHOUT else "note"
    for source in subject.sources.values():
        if not _HINT.search(source.text) or keeps_keras_2(source):
            continue
        tree = tree_of(source)
        for node in tree.calls:
            said = _named(source, node) or _method(source, tree, node, severity)
            if said is not None and not _asked(tree, node):
                says, fix = said
                yield Finding(DOC.code, says, source.place(node), severity, fix=fix)


def _asked(tree: Tree, node: ast.AST) -> bool:
    """Say whether the code around a call checks that the API exists: by try, or a test of a version or attribute."""
    for ancestor in tree.ancestors(node):
        if isinstance(ancestor, ast.Try):
            return True
        if isinstance(ancestor, ast.If | ast.IfExp) and re.search(
            r"version|hasattr|getattr|keras_?[23]", ast.unparse(ancestor.test), re.IGNORECASE
        ):
            return True
    return False


def _named(source: Source, node: ast.Call) -> _Gone | None:
    name = name_of(source, node.func)
    if (source.written_name_of(node.func) or "").startswith(KERAS_2):
        return None
    experimental = _EXPERIMENTAL.fullmatch(name)
    if experimental is not None or name == _SET_POLICY:
        return _renamed(source, node, name)
    if _REWRITE.fullmatch(name):
        return say("policy_graph_rewrite"), None
    if _LOSS_SCALE.fullmatch(name):
        return say("loss_scale_gone", name=name), None
    if _sets_precision(name) and keyword(node, "loss_scale") is not None:
        return say("no_loss_scale_argument", name=name.rpartition(".")[2]), None
    return None


def _sets_precision(name: str) -> bool:
    """Say whether a name is that of a policy or of an optimizer that scales the loss."""
    row = by_path().get(name)
    return row is not None and row.module == "mixed_precision"


def _renamed(source: Source, node: ast.Call, name: str) -> _Gone:
    old = name.rpartition(".")[2]
    new = "set_global_policy" if old == "set_policy" else old
    if not known(f"keras.mixed_precision.{new}"):
        return say("api_gone", name=name), None
    if keyword(node, "loss_scale") is not None or (old != "set_policy" and len(node.args) > 1):
        return say("api_renamed_without_scale", name=name, new=new), None
    return say("api_renamed", name=name, new=new), _rename(source, node.func, new)


def _rename(source: Source, node: ast.expr, new: str) -> Fix | None:
    """Return the edit that renames a function written with its module; None if an import must change too."""
    text = source.segment(source.place(node))
    match = re.fullmatch(r"((?:\w++\.)*mixed_precision)(\.experimental)?\.\w+", text)
    spelled = match is not None and (match.group(2) or ".experimental." not in name_of(source, node))
    if match is None or not spelled:
        return None
    edit = Edit(source.place(node), text, f"{match.group(1)}.{new}")
    return Fix(say("call_renamed", new=new), (edit,), safe=True)


def _method(source: Source, tree: Tree, node: ast.Call, severity: Severity) -> _Gone | None:
    """Judge get_scaled_loss and get_unscaled_gradients; code that also has the new name is taken to check by itself."""
    if not isinstance(node.func, ast.Attribute) or "scale_loss" in tree.words:
        return None
    attribute = node.func.attr
    if attribute == "get_scaled_loss":
        return say("scaled_loss_gone"), None
    if attribute == "get_unscaled_gradients":
        fix = _unscaled(source, tree, node) if severity == "error" else None
        return say("unscaled_gradients_gone"), fix
    return None


def _unscaled(source: Source, tree: Tree, node: ast.Call) -> Fix | None:
    """Return the edits that turn both calls in a function into Keras 3's; None unless there is one of each."""
    nodes = (n for n in ast.walk(tree.function_of(node) or tree.root) if isinstance(n, ast.Call))
    methods = [n.func for n in nodes if isinstance(n.func, ast.Attribute)]
    scaled = [method for method in methods if method.attr == "get_scaled_loss"]
    alone = sum(method.attr == "get_unscaled_gradients" for method in methods) == 1
    if len(scaled) != 1 or not alone or len(node.args) != 1 or node.keywords:
        return None
    name, call = source.place(scaled[0]), source.place(node)
    text = source.segment(name)
    edits = (
        Edit(name, text, text.removesuffix("get_scaled_loss") + "scale_loss"),
        Edit(call, source.segment(call), source.segment(source.place(node.args[0]))),
    )
    return Fix(say("scale_as_keras_3"), tuple(sorted(edits, key=lambda edit: edit.place)), safe=True)
