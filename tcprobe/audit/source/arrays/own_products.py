"""Products that the user's code calls by itself: what they multiply, how often, and where."""

from __future__ import annotations

import ast
from typing import Any

from tcprobe.audit.source.arrays import layout, products
from tcprobe.audit.source.arrays.call import ArrayCall
from tcprobe.audit.source.arrays.functions import rule_of
from tcprobe.audit.source.kinds import Arguments, Instance, Multiplied, SourceValue, Tensor, Unknown
from tcprobe.audit.source.layers import policy_dtypes
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.trainings import note_rows, running
from tcprobe.keras.products.layers import OwnOp
from tcprobe.source.values import Known


def note_call(p: State, name: str, given: Arguments, node: ast.Call) -> None:
    """Note a call of a canonical name where it multiplies tensors."""
    rule, call = rule_of(name, given) or (None, None)
    if call is None or given.lacking or call.library not in ("tf", "ops"):
        return
    last = name.rpartition(".")[2]
    if rule is products.einsum and len(call.rest) == 2:
        _note(p, "einsum", call.rest, {"equation": _told(call.values.get("equation"), str)}, last, node)
    elif rule is products.matmul and "a" in call.values and "b" in call.values:
        turned = {f"transpose_{side}": _turned(call, side) for side in "ab"}
        _note(p, "matmul", [call.values["a"], call.values["b"]], turned, last, node)
    elif rule is layout.convolved and "x" in call.values and "filters" in call.values:
        _note(p, "conv", [call.values["x"], call.values["filters"]], _windows(call), last, node)


def note_operator(p: State, left: SourceValue, right: SourceValue, node: ast.BinOp) -> None:
    """Note ``left @ right`` where it multiplies tensors, not NumPy's arrays alone."""
    tensors = type(left) is Tensor or type(right) is Tensor
    if p.aside or not tensors or all(type(v) is Tensor and v.fresh and not v.symbolic for v in (left, right)):
        return
    p.operators.setdefault(node, p.here.place(node))
    _note(p, "matmul", [left, right], {"transpose_a": False, "transpose_b": False}, "matmul", node)


def _note(
    p: State, op: OwnOp, operands: list[SourceValue], settings: dict[str, Any], name: str, node: ast.expr
) -> None:
    """Note a product of two tensors; an operand that is not known counts as one of no known shape."""
    a, b = (Tensor() if type(value) is Unknown else value for value in operands)
    if type(a) is not Tensor or type(b) is not Tensor:
        return
    instance = next((frame.bound for frame in reversed(p.frames) if type(frame.bound) is Instance), None)
    made = Multiplied(op, name, a, b, settings, _dtype(p, instance, a, b), p.here.place(node), node, running(p))
    note_rows(made.within, (a, b))
    runs = p.multiplied.setdefault((node, a, b, repr(settings), instance), made).runs
    runs[p.env] = runs.get(p.env, 0) + 1


def _dtype(p: State, instance: Instance | None, a: Tensor, b: Tensor) -> str | None:
    """Return what a product computes in: inside a layer of Keras what the policy says; None where unknown.

    Elsewhere what its operands are, which is float32 where the file names nothing narrower, and between the layers of
    a model what these put out.
    """
    if instance is not None and instance.keras in ("model", "layer"):
        return policy_dtypes(p.policy)[0]
    if "float16" not in p.here.text:
        return "float32"
    made = {draft.name: draft.dtype for draft in p.layers.drafts} if a.symbolic and b.symbolic else {}
    found = {made.get(source) for operand in (a, b) for source in operand.sources or ("",)}
    return next(iter(found)) if len(found) == 1 else None


def _told(value: SourceValue | None, kind: type) -> Any:
    """Return a constant; ``...`` where it is not known or of another kind."""
    return value.value if type(value) is Known and isinstance(value.value, kind) else ...


def _turned(call: ArrayCall, side: str) -> Any:
    """Return whether an operand is transposed; ``...`` where that is not known."""
    flags = [call.values.get(f"{way}_{side}") for way in ("transpose", "adjoint")]
    told = [_told(flag, object) for flag in flags if flag is not None]
    return ... if ... in told else any(told)


def _windows(call: ArrayCall) -> dict[str, Any]:
    """Return how a convolution's filter slides, in Keras' words; ``...`` where that is not known."""
    word = (call.word("padding", "valid" if call.library == "ops" else "") or "").lower()
    layout = call.word("data_format", "") if call.has("data_format") else "channels_last"
    settings = {
        "strides": _steps(call, "strides"),
        "dilation_rate": _steps(call, "dilations"),
        "padding": word if word in ("same", "valid") else ...,
    }
    return settings if layout in ("NHWC", "NDHWC", "channels_last") else {**settings, "data_format": ...}


def _steps(call: ArrayCall, name: str) -> Any:
    """Return the steps along the image: one for all, or one each, those of batch and channels left out."""
    sizes = (call.numbers(name) or [None]) if call.has(name) else [1]
    if None in sizes:
        return ...
    inner = len(sizes) > 3 or (len(sizes) == 3 and sizes[0] == sizes[-1] == 1)
    return tuple(sizes[1:-1] if inner else sizes)
