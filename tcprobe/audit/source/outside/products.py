"""Products that the user's code calls by itself, noted where they are evaluated."""

from __future__ import annotations

import ast
from typing import Any, Final

from tcprobe.audit.source.outside.layers import policy_dtypes
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import Arguments, Instance, SourceValue, Tensor
from tcprobe.audit.source.values.multiplied import Multiplied, product_of, tensor_of
from tcprobe.keras.products.own import OwnOp

_UNTURNED: Final = {"transpose_a": False, "transpose_b": False}


def note_call(state: State, name: str, given: Arguments, node: ast.Call) -> None:
    """Note a call of a canonical name where it multiplies tensors."""
    found = product_of(name, given)
    if found is not None:
        _note(state, found.op, found.a, found.b, found.settings, name.rpartition(".")[2], node)


def note_operator(state: State, left: SourceValue, right: SourceValue, node: ast.BinOp) -> None:
    """Note ``left @ right`` where it multiplies tensors, not NumPy's arrays alone."""
    tensors = isinstance(left, Tensor) or isinstance(right, Tensor)
    if state.aside or not tensors or all(isinstance(v, Tensor) and v.fresh and not v.symbolic for v in (left, right)):
        return
    state.products.operators.setdefault(node, state.here.place(node))
    a, b = tensor_of(left), tensor_of(right)
    if a is not None and b is not None:
        _note(state, "matmul", a, b, _UNTURNED, "matmul", node)


def _note(state: State, op: OwnOp, a: Tensor, b: Tensor, settings: dict[str, Any], name: str, node: ast.expr) -> None:
    instance = next((frame.bound for frame in reversed(state.frames) if isinstance(frame.bound, Instance)), None)
    made = Multiplied(op, name, a, b, settings, _dtype(state, instance), state.here.place(node), node)
    state.products.add(made, state.env, instance)


def _dtype(state: State, instance: Instance | None) -> str | None:
    """Return what a product computes in: inside a layer of Keras what the policy says; None where unknown.

    Elsewhere what its operands are, which is float32 where the file names nothing narrower.
    """
    if instance is not None and instance.keras in ("model", "layer"):
        return policy_dtypes(state.policy)[0]
    return None if "float16" in state.here.text else "float32"
