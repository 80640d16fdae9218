"""TC203: finds a loss scale that is fixed, applied twice, or set where it is ignored."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import (
    GUIDE,
    HALF_POLICIES,
    SMALLEST_SCALE,
    by_hand,
    is_wrapper,
    keeps_keras_2,
    keras_major,
    policies_of,
    power_of_two,
    touched,
    wrappers,
)
from tcprobe.rules.precision.tree import Tree, keyword, name_of, number_of
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC203",
    name="fixed-or-doubled-loss-scale",
    summary="A loss scale is fixed, applied twice, or given where it is ignored.",
    explanation=(
        "A dynamic loss scale grows while gradients stay finite and halves when one overflows. A fixed one is a guess: "
        "too high and gradients pass 65504 and become infinite, with nobody to skip the step; too low and they "
        "underflow. Keras 3 has no dynamic=False any more and raises.\n\n"
        "Scaling twice is a mistake of another kind. A LossScaleOptimizer around a LossScaleOptimizer multiplies the "
        "loss once and divides gradients twice; a scale by hand on top of scale_loss is divided out only once, or "
        "overflows early. A loss_scale_factor on an optimizer that is wrapped does nothing: LossScaleOptimizer resets "
        "it. An explicit LossScaleOptimizer given to compile under mixed_float16 is fine: compile does not wrap it "
        "again."
    ),
    severity=(
        "error for a wrapper around a wrapper, and for dynamic=False under Keras 3, which raises; warning for a fixed "
        "scale in Keras 2 and for a scale on top of LossScaleOptimizer; note for a fixed scale that is multiplied and "
        "divided consistently, and for one that is ignored."
    ),
    bad=(
        "optimizer = keras.mixed_precision.LossScaleOptimizer(\n"
        "    keras.optimizers.Adam(), dynamic=False, initial_scale=1024)\n"
    ),
    good="optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n",
    sources=(
        f"{GUIDE}, section Loss scaling: anything other than a dynamic loss scale is not recommended",
        "Keras 3.15.1, keras/src/optimizers/loss_scale_optimizer.py: dynamic=False raises ValueError; the inner "
        "optimizer's loss_scale_factor is set to None; trainer.py: compile leaves a LossScaleOptimizer as it is",
        "Measured with Keras 3.15.1: two nested wrappers with a scale of 8 update by 1/8 of what they should",
    ),
)
_ADAPTS: Final = "LossScaleOptimizer adapts it, and skips steps that overflow"
SAYS: Final[Says] = {
    "wrapped_twice": (
        "LossScaleOptimizer around a LossScaleOptimizer",
        "the loss is multiplied once and gradients are divided twice; wrap the optimizer once",
    ),
    "fixed_scale": ("a fixed loss scale is not recommended", "leave it dynamic, so that it adapts"),
    "static_raises": (
        "LossScaleOptimizer(dynamic=False) raises ValueError in Keras 3",
        "leave the scale dynamic, or set loss_scale_factor on an optimizer that is not wrapped",
    ),
    "static_scale": lambda fields: (
        "LossScaleOptimizer(dynamic=False) fixes the loss scale"
        + ("" if fields["keras_2"] else ", and raises in Keras 3"),
        "leave it dynamic",
    ),
    "factor_ignored": ("loss_scale_factor={factor:g} does nothing", "LossScaleOptimizer resets it to None"),
    "factor_fixed": ("loss_scale_factor={factor:g} is a fixed loss scale", _ADAPTS),
    "scaled_twice": (
        "the loss is scaled twice, by LossScaleOptimizer and by {scale:g}",
        "drop the constant",
    ),
    "scaled_by_hand": ("the loss scale {scale:g} is fixed", _ADAPTS),
}

_RAISES: Final = 3  # Keras' major version without dynamic=False


def check(subject: Subject) -> Iterator[Finding]:
    """Yield doubled scaling and, unless the policy needs no scaling (TC210), fixed or ignored scales."""
    needed = bool(policies_of(subject) & {None, *HALF_POLICIES})
    for source, tree in touched(subject):
        major = keras_major(subject, source)
        made = wrappers(source, tree)
        for call in made:
            yield from _doubled(source, tree, call)
            if needed or (major is not None and major >= _RAISES):
                yield from _static(source, call, major)
        yield from _on_top(source, tree)
        if needed:
            yield from _factors(source, tree, made)
            yield from _manual(source, tree)


def _found(source: Source, node: ast.AST, says: Statement[FindingKind], severity: Severity) -> Finding:
    return Finding(DOC.code, says, source.place(node), severity, dtype="float16")


def _doubled(source: Source, tree: Tree, call: ast.Call) -> Iterator[Finding]:
    made = _wrapped(tree, call)
    if made is not call and is_wrapper(source, made):
        yield _found(source, call, say("wrapped_twice"), "error")


def _wrapped(tree: Tree, wrapper: ast.Call) -> ast.Call | None:
    """Return the call that makes the optimizer in a LossScaleOptimizer; None if it is not seen."""
    named = keyword(wrapper, "inner_optimizer") or keyword(wrapper, "optimizer")
    return tree.call_behind(wrapper.args[0] if wrapper.args else named)


def _static(source: Source, call: ast.Call, major: int | None) -> Iterator[Finding]:
    dynamic = keyword(call, "dynamic")
    known = source.known(dynamic) if dynamic is not None else None
    if known is not None and known.value is False:
        if major is not None and major >= _RAISES:
            yield _found(source, call, say("static_raises"), "error")
        else:
            yield _found(source, call, say("static_scale", keras_2=keeps_keras_2(source)), "warning")
    second = call.args[1] if ".experimental." in name_of(source, call.func) and len(call.args) > 1 else None
    fixed = keyword(call, "loss_scale") or second
    is_class = isinstance(fixed, ast.Call) and ast.unparse(fixed.func).endswith("FixedLossScale")
    if is_class or number_of(source, fixed) is not None:
        yield _found(source, call, say("fixed_scale"), "warning")


def _factors(source: Source, tree: Tree, made: list[ast.Call]) -> Iterator[Finding]:
    """Yield the optimizers with a loss_scale_factor: ignored if they are wrapped, else fixed."""
    if "loss_scale_factor" not in source.text:
        return
    inner = [_wrapped(tree, call) for call in made]
    for node in tree.calls:
        factor = number_of(source, keyword(node, "loss_scale_factor"))
        if factor is None:
            continue
        kind: FindingKind = "factor_ignored" if node in inner else "factor_fixed"
        yield _found(source, node, say(kind, factor=factor), "note")


def _on_top(source: Source, tree: Tree) -> Iterator[Finding]:
    """Yield the losses scaled both by LossScaleOptimizer and by a constant."""
    for call in tree.called("scale_loss", "get_scaled_loss"):
        parent = tree.parents.get(call)
        candidates = [*call.args[:1], *([parent] if isinstance(parent, ast.BinOp) else [])]
        for product in candidates:
            if isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult):
                values = [number_of(source, side) for side in (product.left, product.right)]
                scale = next((v for v in values if v is not None and v >= SMALLEST_SCALE and power_of_two(v)), None)
                if scale is not None:
                    yield _found(source, product, say("scaled_twice", scale=scale), "warning")


def _manual(source: Source, tree: Tree) -> Iterator[Finding]:
    for node, scale in by_hand(source, tree):
        yield _found(source, node, say("scaled_by_hand", scale=scale), "note")
