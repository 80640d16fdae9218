"""TC202, TC203, TC210: a loss that float16 needs scaled and is not, is scaled twice or by a constant, or needlessly.

Where a training loop of its own applies a tape's gradients, and whether what these are made of was scaled.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from tcprobe.rules.base import Says, Subject
from tcprobe.rules.precision.file import File, is_model_class, keyword, last_name, words_of
from tcprobe.rules.precision.policy import (
    HALF_POLICIES,
    files_of,
    keras_major,
    policies_of,
    policy_of,
    touched,
)
from tcprobe.schema.finding import Finding, FindingKind, Severity
from tcprobe.schema.statement import Both, Statement, say
from tcprobe.source.scopes import FunctionNode

_APPLIES: Final = ("apply_gradients", "apply")


class Applied(NamedTuple):
    """A call that applies gradients of a tape."""

    node: ast.Call
    optimizer: ast.expr
    words: frozenset[str]  # every identifier of what led to the gradients: losses, and functions that they come from
    is_traced_back: bool  # whether the tape's `gradient` is among it; else it is not known where they come from


def applied(file: File, files: Sequence[File]) -> Iterator[Applied]:
    """Yield the calls in a file that apply gradients, of files of which one has a tape."""
    if not any(other.called("GradientTape") and other.called("gradient") for other in files):
        return
    functions: dict[str, list[ast.AST]] = {}
    for node in (node for other in files for node in other.nodes if isinstance(node, FunctionNode)):
        functions.setdefault(node.name, []).append(node)
    for call in file.called(*_APPLIES):
        function = file.function_of(call)
        if not isinstance(call.func, ast.Attribute) or (function is not None and function.name in _APPLIES):
            continue
        words = _words_behind(file, call, functions)
        is_traced_back = "gradient" in words
        if is_traced_back or (call.func.attr == "apply_gradients" and file.called("GradientTape", "gradient")):
            yield Applied(call, call.func.value, words, is_traced_back)


def _words_behind(file: File, call: ast.Call, functions: dict[str, list[ast.AST]]) -> frozenset[str]:
    """Return the identifiers of a call's arguments, of what is assigned to these, and of functions called on the way.

    Args:
        file: the call's.
        call: of which arguments.
        functions: all that may be called, by name.
    """
    words: set[str] = set()
    seen: set[ast.AST] = {call}
    pending: list[ast.AST] = [*call.args, *(keyword.value for keyword in call.keywords)]
    while pending:
        for node in ast.walk(pending.pop()):
            words.update(words_of(node))
            found: list[ast.AST] = []
            if isinstance(node, ast.Call):
                found += functions.get(last_name(node.func), ())
            if isinstance(node, ast.Name | ast.Attribute) and node in file.parents:
                found += file.given_to(node)
            pending += (one for one in found if one not in seen)
            seen.update(found)
    return frozenset(words)


SMALLEST_SCALE: Final = 8.0  # a smaller factor weighs a loss against others and is not a loss scale
_WRAPPER: Final = re.compile(r"keras\.(?:\w++\.)*LossScaleOptimizer(?:V3)?")
_SCALED: Final = frozenset({"scale_loss", "get_scaled_loss", "get_unscaled_gradients"})
_BY_HAND: Final = re.compile(r"loss_?scal|scaled?_?loss|grad\w*_?scal|scaled?_?grad|unscal", re.IGNORECASE)
_NOT_BY_HAND: Final = frozenset({"LossScaleOptimizer", "auto_scale_loss", "loss_scale_optimizer"})
_NEVER: Final = "this train_step never calls self.optimizer.scale_loss"
_DIVIDED: Final = "compile() wraps the optimizer in LossScaleOptimizer, which divides all gradients by its scale"
_NEW: Final = "scale_loss(loss)"
_OLD: Final = "get_scaled_loss(loss), and apply get_unscaled_gradients of the result"
_TRADE: Final = (
    "no step spends time on a look at all gradients, much of a small model's (TC312), and none that overflows is "
    "skipped: watch the loss"
)
_RAISES: Final = 3  # Keras' major version without dynamic=False
_NO_NEED: Final = ("mixed_bfloat16", "bfloat16", "float32")
SAYS: Final[Says] = {
    "gradients_unscaled": lambda call, keras_2: Both(
        f"{call} applies float16 gradients of an unscaled loss, and those below 6e-8 are 0",
        f"wrap the optimizer in LossScaleOptimizer and differentiate its {_OLD if keras_2 else _NEW}",
    ),
    "step_never_scales": Both(
        "this train_step never scales the loss, so float16 gradients below 6e-8 are 0",
        "differentiate self.optimizer.get_scaled_loss(loss), and apply get_unscaled_gradients of the result",
    ),
    "step_divided_alone": Both(f"{_NEVER}, yet {_DIVIDED}", "at first they are 1/32768 of what they should be"),
    "step_scales_nothing": Both(_NEVER, f"in Keras 3, {_DIVIDED}; in Keras 2 small float16 gradients are 0"),
    "scale_divided_alone": Both(
        "LossScaleOptimizer divides these gradients by its scale (32768 at first), and nobody multiplied the loss "
        "by it",
        "differentiate optimizer.scale_loss(loss)",
    ),
    "loss_never_scaled": Both(
        "the optimizer is a LossScaleOptimizer, but the loss is never scaled",
        "differentiate optimizer.scale_loss(loss) (Keras 2: get_scaled_loss, and get_unscaled_gradients of the result)",
    ),
    "pure_float16": Both(
        "policy 'float16' keeps weights in float16 and compile() scales no loss for it",
        "use 'mixed_float16'",
    ),
    "wrapped_twice": Both(
        "LossScaleOptimizer around a LossScaleOptimizer",
        "the loss is multiplied once and gradients are divided twice; wrap the optimizer once",
    ),
    "fixed_scale": Both("this LossScaleOptimizer fixes the loss scale", _TRADE),
    "static_raises": Both(
        "LossScaleOptimizer(dynamic=False) raises ValueError in Keras 3",
        "set loss_scale_factor on an optimizer that is not wrapped (compile(auto_scale_loss=False)), or leave the "
        "scale dynamic",
    ),
    "static_scale": Both("LossScaleOptimizer(dynamic=False) fixes the loss scale", _TRADE),
    "static_may_raise": Both(
        "LossScaleOptimizer(dynamic=False) fixes the loss scale in Keras 2, and raises ValueError in Keras 3",
        "in Keras 3 set loss_scale_factor on an optimizer that is not wrapped (compile(auto_scale_loss=False))",
    ),
    "factor_ignored": lambda factor: Both(
        f"loss_scale_factor={factor:g} does nothing", "LossScaleOptimizer resets it to None"
    ),
    "factor_fixed": lambda factor: Both(f"loss_scale_factor={factor:g} is a fixed loss scale", _TRADE),
    "scaled_twice": lambda scale: Both(
        f"the loss is scaled twice, by LossScaleOptimizer and by {scale:g}",
        "drop the constant",
    ),
    "scaled_by_hand": lambda scale: Both(f"the loss scale {scale:g} is fixed", _TRADE),
    "needless_api": lambda name, policy, dtype: Both(
        f"{name} under the policy {policy}", f"{dtype} needs no loss scaling"
    ),
    "needless_scale": lambda scale, policy, dtype: Both(
        f"a loss scale of {scale:g} under the policy {policy}", f"{dtype} needs no loss scaling"
    ),
}

_Verdict: TypeAlias = tuple[Statement[FindingKind], Severity]


def tc202(subject: Subject) -> Iterator[Finding]:
    """Yield where loops apply the gradients of a loss that nobody scaled."""
    policy, files = policy_of(subject), list(touched(subject))
    scaling = any(scales(file.words) for file in files)
    named = any("LossScaleOptimizer" in file.words for file in files)
    for file in files:
        for one in applied(file, files) if policy in HALF_POLICIES else ():
            if scales(one.words) or (scaling and not one.is_traced_back):
                continue
            compiled, major = _is_compiled(file, one.node, one.optimizer), keras_major(subject, file)
            verdict = _compiled(major) if compiled else _own(file, one, major, named)
            if verdict and (not compiled or policy == "mixed_float16"):
                yield Finding("TC202", verdict[0], file.place(one.node), verdict[1], dtype="float16")
        if not named and not scaling:
            yield from _pure_float16(file)


def _is_compiled(file: File, node: ast.AST, optimizer: ast.expr) -> bool:
    """Say whether an optimizer is that of a model's own train_step, which compile() wraps."""
    own = file.class_of(node)
    mine = own is not None and is_model_class(own) and ast.unparse(optimizer) == "self.optimizer"
    return mine and "auto_scale_loss" not in file.words


def _compiled(major: int | None) -> _Verdict:
    if major is None or major == 2:
        return say("step_scales_nothing" if major is None else "step_never_scales"), "warning"
    return say("step_divided_alone"), "error"


def _own(file: File, one: Applied, major: int | None, named: bool) -> _Verdict | None:
    made = file.call_behind(one.optimizer)
    if is_wrapper(file, made):
        if major is not None and major >= 3:
            return say("scale_divided_alone"), "error"
        return say("loss_never_scaled"), "warning"
    if named and (made is None or _is_given(file, one.optimizer)):
        return None  # an optimizer is wrapped, and perhaps it is this one
    return say("gradients_unscaled", call=ast.unparse(one.node.func), keras_2=major == 2), "warning"


def _is_given(file: File, optimizer: ast.expr) -> bool:
    """Say whether an optimizer is an argument of a function around its use."""
    around = (node.args for node in file.ancestors(optimizer) if isinstance(node, FunctionNode))
    names = {arg.arg for args in around for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    return isinstance(optimizer, ast.Name) and optimizer.id in names


def _pure_float16(file: File) -> Iterator[Finding]:
    """Yield the policy float16 if the file trains with fit: compile wraps only for mixed_float16."""
    if not file.called("fit"):
        return
    for setter in file.setters:
        if setter.policy == "float16":
            yield Finding("TC202", say("pure_float16"), setter.place, "warning", dtype="float16")


def tc203(subject: Subject) -> Iterator[Finding]:
    """Yield doubled scaling and, unless the policy needs no scaling (TC210), fixed or ignored scales."""
    needed = bool(policies_of(subject) & {None, *HALF_POLICIES})
    for file in touched(subject):
        major = keras_major(subject, file)
        made = wrappers(file)
        for call in made:
            if (inner := _wrapped(file, call)) is not call and is_wrapper(file, inner):
                yield _found(file, call, say("wrapped_twice"), "error")
            if needed or (major is not None and major >= _RAISES):
                yield from _static(file, call, major)
        yield from _on_top(file)
        if needed:
            yield from _factors(file, made)
            yield from (_found(file, node, say("scaled_by_hand", scale=s), "note") for node, s in by_hand(file))


def _found(file: File, node: ast.AST, says: Statement[FindingKind], severity: Severity) -> Finding:
    return Finding("TC203", says, file.place(node), severity, dtype="float16")


def _wrapped(file: File, wrapper: ast.Call) -> ast.Call | None:
    """Return the call that makes the optimizer in a LossScaleOptimizer; None if it is not seen."""
    named = keyword(wrapper, "inner_optimizer") or keyword(wrapper, "optimizer")
    return file.call_behind(wrapper.args[0] if wrapper.args else named)


def _static(file: File, call: ast.Call, major: int | None) -> Iterator[Finding]:
    if file.value(keyword(call, "dynamic")) is False and not file.asks_first(call):
        if major is None:
            yield _found(file, call, say("static_may_raise"), "note")  # Keras 2 does as it is asked, 3 says so itself
        elif major >= _RAISES:
            yield _found(file, call, say("static_raises"), "error")
        else:
            yield _found(file, call, say("static_scale"), "note")
    second = call.args[1] if ".experimental." in file.name(call.func) and len(call.args) > 1 else None
    fixed = keyword(call, "loss_scale") or second
    is_class = isinstance(fixed, ast.Call) and ast.unparse(fixed.func).endswith("FixedLossScale")
    if is_class or file.number(fixed) is not None:
        yield _found(file, call, say("fixed_scale"), "note")


def _factors(file: File, made: list[ast.Call]) -> Iterator[Finding]:
    """Yield the optimizers with a loss_scale_factor: ignored if they are wrapped, else fixed."""
    inner = [_wrapped(file, call) for call in made]
    for node, factor in _with_factor(file):
        kind: FindingKind = "factor_ignored" if node in inner else "factor_fixed"
        yield _found(file, node, say(kind, factor=factor), "note")


def _with_factor(file: File) -> Iterator[tuple[ast.Call, float]]:
    for node in file.calls if "loss_scale_factor" in file.text else ():
        if (factor := file.number(keyword(node, "loss_scale_factor"))) is not None:
            yield node, factor


def _on_top(file: File) -> Iterator[Finding]:
    """Yield the losses scaled both by LossScaleOptimizer and by a constant."""
    for call in file.called("scale_loss", "get_scaled_loss"):
        candidates = [*call.args[:1], file.parents[call]]
        for product in candidates:
            if scale := next(filter(power_of_two, _scales_in(file, product, ast.Mult)), None):
                yield _found(file, product, say("scaled_twice", scale=scale), "warning")


def tc210(subject: Subject) -> Iterator[Finding]:
    """Yield unconditional loss scaling in files under a policy that certainly does not need it."""
    policy = policy_of(subject)
    if policy not in _NO_NEED or _mixes(subject):
        return
    dtype = "bfloat16" if "bfloat16" in policy else "float32"
    for file in touched(subject):
        for node, given in _scalings(file):
            if not file.conditional(node):
                says: Statement[FindingKind] = (
                    say("needless_api", name=given, policy=policy, dtype=dtype)
                    if isinstance(given, str)
                    else say("needless_scale", scale=given, policy=policy, dtype=dtype)
                )
                yield Finding("TC210", says, file.place(node), "note", dtype=dtype)


def _mixes(subject: Subject) -> bool:
    """Say whether float16 may be meant too: by another policy, a condition, or a layer's own dtype."""
    set_ = [(file, setter) for file in files_of(subject) for setter in file.setters]
    unlike = any(setter.policy not in _NO_NEED or file.conditional(setter.node) for file, setter in set_)
    return unlike or any(layer.dtype == "float16" for layer in subject.model.layers)


def _scalings(file: File) -> Iterator[tuple[ast.expr, str | float]]:
    """Yield what scales a loss, with the name of the API, or the factor if the user's own code does."""
    for call in wrappers(file):
        yield call, "LossScaleOptimizer"
    for node, _ in _with_factor(file):
        yield node, "loss_scale_factor"
    yield from by_hand(file)


def is_wrapper(file: File, call: ast.Call | None) -> bool:
    """Say whether a call makes a Keras LossScaleOptimizer."""
    return call is not None and _WRAPPER.fullmatch(file.name(call.func)) is not None


def wrappers(file: File) -> list[ast.Call]:
    """Return the calls in a file that make a LossScaleOptimizer."""
    return [call for call in file.calls if is_wrapper(file, call)] if "LossScaleOptimizer" in file.text else []


def scales(words: frozenset[str]) -> bool:
    """Say whether code seems to scale a loss, by an optimizer's method or by hand, judging by its identifiers."""
    return bool(words & _SCALED) or any(_BY_HAND.search(w) for w in words - _NOT_BY_HAND)


def by_hand(file: File) -> Iterator[tuple[ast.BinOp, float]]:
    """Yield the losses that a file multiplies by a known number by which it later divides the gradients."""
    if "GradientTape" not in file.text:
        return
    divided = {
        (file.unit_of(node), scale)
        for node, scale in _scaled(file, ast.Div)
        if "grad" in ast.unparse(file.statement_of(node)).lower()
    }
    for node, scale in _scaled(file, ast.Mult):
        text = ast.unparse(node).lower()
        if "loss" in text and (power_of_two(scale) or "scal" in text) and (file.unit_of(node), scale) in divided:
            yield node, scale


def _scaled(file: File, operator: type[ast.operator]) -> Iterator[tuple[ast.BinOp, float]]:
    for node in file.nodes:
        if isinstance(node, ast.BinOp) and (scales := _scales_in(file, node, operator)) and file.number(node) is None:
            yield node, scales[0]


def _scales_in(file: File, node: ast.AST, operator: type[ast.operator]) -> list[float]:
    """Return the known numbers large enough to be a scale by which a product multiplies, or a quotient divides."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, operator):
        return []
    values = [file.number(side) for side in ((node.right,) if operator is ast.Div else (node.left, node.right))]
    return [value for value in values if value is not None and SMALLEST_SCALE <= value < math.inf]


def power_of_two(value: float) -> bool:
    """Say whether a number is a power of two, like loss scales."""
    return value > 0 and math.frexp(value)[0] == 0.5
