"""TC202: finds a custom training loop in float16 that does not scale its loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import (
    GUIDE,
    HALF_POLICIES,
    is_wrapper,
    keras_major,
    policy_of,
    scales,
    setters,
    touched,
)
from tcprobe.rules.precision.tree import Tree, is_model_class
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC202",
    name="float16-without-loss-scaling",
    summary="A custom training loop in float16 applies gradients of a loss that nobody scaled.",
    explanation=(
        "Gradients below 6e-8 become 0 in float16, and small ones lose digits. Scaling the loss by a large number, and "
        "the gradients back, keeps them. Model.fit does it under the policy mixed_float16: compile wraps the optimizer "
        "in a LossScaleOptimizer, and the default train_step scales the loss. A loop of your own must do both.\n\n"
        "In Keras 3 half of it is worse than nothing. LossScaleOptimizer.apply_gradients always divides by the scale, "
        "so a train_step that overrides Keras' own and does not call self.optimizer.scale_loss hands its optimizer "
        "1/32768 of every gradient, and less as the scale doubles every 2,000 steps: SGD stands still, and Adam's "
        "epsilon may outweigh what is left. In Keras 2 apply_gradients divides nothing, and the loop goes unscaled. "
        "Other policies need no scaling: bfloat16 has float32's range.\n\n"
        "A policy counts wherever the files set it, also inside functions. Where they set two different ones it is "
        "unknown, and nothing is listed."
    ),
    severity=(
        "error where Keras 3 is known to divide gradients that were never multiplied; otherwise warning: how many "
        "gradients underflow depends on the model."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n...\nwith tf.GradientTape() as tape:\n'
        "    loss = loss_fn(y, model(x, training=True))\n"
        "gradients = tape.gradient(loss, model.trainable_variables)\n"
        "optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n...\n"
        "with tf.GradientTape() as tape:\n    loss = loss_fn(y, model(x, training=True))\n"
        "    scaled = optimizer.scale_loss(loss)  # Keras 2: optimizer.get_scaled_loss(loss)\n"
        "gradients = tape.gradient(scaled, model.trainable_variables)\n"
        "# Keras 2 only: gradients = optimizer.get_unscaled_gradients(gradients)\n"
        "optimizer.apply_gradients(zip(gradients, model.trainable_variables))\n"
    ),
    sources=(
        f"{GUIDE}, sections Loss scaling and Training the model with a custom training loop",
        "Keras 3.15.1, keras/src/trainers/trainer.py, compile: wraps where the policy's name is mixed_float16; "
        "keras/src/optimizers/loss_scale_optimizer.py: apply divides by dynamic_scale, initially 2**15",
        "Measured with Keras 3.15.1: SGD's update of a train_step without scale_loss is 1/32768 of that with it",
        "Keras 2, mixed_precision/loss_scale_optimizer.py (API documentation r2.7): get_scaled_loss and "
        "get_unscaled_gradients must be called where a tf.GradientTape is used",
    ),
)
_NEVER: Final = "this train_step never calls self.optimizer.scale_loss"
_DIVIDED: Final = "compile() wraps the optimizer in LossScaleOptimizer, which divides all gradients by its scale"
_NEW: Final = "scale_loss(loss)"
_OLD: Final = "get_scaled_loss(loss), and apply get_unscaled_gradients of the result"
SAYS: Final[Says] = {
    "gradients_unscaled": lambda fields: (
        "{optimizer}.apply_gradients applies float16 gradients of an unscaled loss, and those below 6e-8 are 0",
        f"wrap the optimizer in LossScaleOptimizer and differentiate its {_OLD if fields['keras_2'] else _NEW}",
    ),
    "step_never_scales": (
        "this train_step never scales the loss, so float16 gradients below 6e-8 are 0",
        "differentiate self.optimizer.get_scaled_loss(loss), and apply get_unscaled_gradients of the result",
    ),
    "step_divided_alone": (f"{_NEVER}, yet {_DIVIDED}", "at first they are 1/32768 of what they should be"),
    "step_scales_nothing": (_NEVER, f"in Keras 3, {_DIVIDED}; in Keras 2 small float16 gradients are 0"),
    "scale_divided_alone": (
        "LossScaleOptimizer divides these gradients by its scale (32768 at first), and nobody multiplied the loss "
        "by it",
        "differentiate optimizer.scale_loss(loss)",
    ),
    "loss_never_scaled": (
        "the optimizer is a LossScaleOptimizer, but the loss is never scaled",
        "differentiate optimizer.scale_loss(loss) (Keras 2: get_scaled_loss, and get_unscaled_gradients of the result)",
    ),
    "pure_float16": (
        "policy 'float16' keeps weights in float16 and compile() scales no loss for it",
        "use 'mixed_float16'",
    ),
}

_Verdict: TypeAlias = tuple[Statement[FindingKind], Severity]


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the loops that apply unscaled gradients; none if any file scales a loss."""
    policy, files = policy_of(subject), list(touched(subject))
    if any(scales(tree.words) for _, tree in files):
        return
    named = any("LossScaleOptimizer" in tree.words for _, tree in files)
    for source, tree in files:
        for node, optimizer in _loops(tree) if policy in HALF_POLICIES else ():
            major = keras_major(subject, source)
            if _is_compiled(tree, node, optimizer):
                verdict = _compiled(major) if policy == "mixed_float16" else None
            else:
                verdict = _own(source, tree, optimizer, major, named)
            if verdict is not None:
                says, severity = verdict
                yield Finding(DOC.code, says, source.place(node), severity, dtype="float16")
        if not named:
            yield from _pure_float16(source, tree)


def _loops(tree: Tree) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield each function that applies gradients in a file with a tape: the tape or the call, and the optimizer."""
    tapes = tree.called("GradientTape")
    if not tapes or not tree.called("gradient"):
        return
    seen: set[ast.AST] = set()
    for call in tree.called("apply_gradients"):
        function = tree.function_of(call) or tree.root
        if function not in seen and isinstance(call.func, ast.Attribute):
            seen.add(function)
            inside = [tape for tape in tapes if (tree.function_of(tape) or tree.root) is function]
            yield (inside[0] if inside else call), call.func.value


def _is_compiled(tree: Tree, node: ast.AST, optimizer: ast.expr) -> bool:
    """Say whether an optimizer is that of a model's own train_step, which compile() wraps."""
    own = tree.class_of(node)
    mine = own is not None and is_model_class(own) and ast.unparse(optimizer) == "self.optimizer"
    return mine and "auto_scale_loss" not in tree.words


def _own(source: Source, tree: Tree, optimizer: ast.expr, major: int | None, named: bool) -> _Verdict | None:
    made = tree.call_behind(optimizer)
    if is_wrapper(source, made):
        return _half_done(major)
    if named:
        return None  # an optimizer is wrapped, but perhaps not this one
    return say("gradients_unscaled", optimizer=ast.unparse(optimizer), keras_2=major == 2), "warning"


def _compiled(major: int | None) -> _Verdict:
    if major == 2:
        return say("step_never_scales"), "warning"
    return (say("step_scales_nothing"), "warning") if major is None else (say("step_divided_alone"), "error")


def _half_done(major: int | None) -> _Verdict:
    if major is not None and major >= 3:
        return say("scale_divided_alone"), "error"
    return say("loss_never_scaled"), "warning"


def _pure_float16(source: Source, tree: Tree) -> Iterator[Finding]:
    """Yield the policy float16 if the file trains with fit: compile wraps only for mixed_float16."""
    if not tree.called("fit"):
        return
    for setter in setters(source):
        if setter.policy == "float16":
            yield Finding(DOC.code, say("pure_float16"), setter.place, "warning", dtype="float16")
