"""Functions of TensorFlow, Keras and NumPy on tensors: what they make of shapes."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Final

from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.arrays import data_set, expanded, joined
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Items,
    SourceValue,
    Tensor,
    Unknown,
    either,
    known_constant,
    shape_from,
    tensors_of,
)
from tcprobe.audit.source.values.parts import unparsed
from tcprobe.keras.catalogue import LAYER_CLASSES
from tcprobe.keras.shapes.layers import output_shape
from tcprobe.source.values import Known

_MERGES: Final = {row.name.lower(): row.name for row in LAYER_CLASSES if row.kind == "merging"} | {
    "concat": "Concatenate"
}
"""Functions that merge tensors, and the class of Keras that does the same."""
_SAME_SHAPE: Final = frozenset((
    "relu", "relu6", "gelu", "elu", "selu", "silu", "swish", "sigmoid", "tanh", "softmax", "log_softmax", "softplus",
    "leaky_relu", "cast", "identity", "stop_gradient", "dropout", "exp", "log", "sqrt", "square", "abs", "negative",
    "l2_normalize", "clip_by_value", "convert_to_tensor", "linear", "hard_sigmoid", "mish", "ensure_shape",
))  # fmt: skip
_FILLED: Final = ("zeros", "ones", "uniform", "normal", "truncated_normal", "random_normal", "random_uniform", "fill")


def of_tensors(state: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a function of a module that computes with tensors."""
    last = name.rpartition(".")[2]
    tensors = [t for value in given.all for t in tensors_of(value)]
    if not tensors:
        return data_set(name) or _filled(name, last, given, node)
    if last in _MERGES and name.startswith("keras.layers."):
        values = {k: v for k, v in given.keywords.items() if not tensors_of(v)}
        made = state.layers.make(_MERGES[last], state.here.call_of(node), values, state.policy)
        return state.layers.apply(made, tensors)
    if last in _MERGES:
        return _merged(name, last, tensors, given)
    if last == "reshape" and len(given.args) == 2 and isinstance(given.args[0], Tensor):
        return reshaped_tensor(given.args[0], given.args[1])
    if last == "expand_dims" and isinstance(given.first, Tensor):
        axis = given.get(1, "axis")
        return expanded(tensors[0], axis.value if isinstance(axis, Known) and type(axis.value) is int else None)
    if last in _SAME_SHAPE or (last in ("array", "asarray") and isinstance(given.first, Tensor)):
        return tensors[0]
    fresh = True if all(t.fresh for t in tensors) else False if any(t.fresh is False for t in tensors) else None
    return Tensor(None, None, (), any(t.symbolic for t in tensors), fresh)


def reshaped_tensor(tensor: Tensor, target: SourceValue) -> SourceValue:
    """Return a tensor in another shape, its first dimension the batch's."""
    shape = shape_from(target)
    if shape is None or len(shape) < 2:
        return replace(tensor, shape=None, features=None)
    inner = output_shape("Reshape", {"target_shape": tuple(s if s else -1 for s in shape[1:])}, tensor.shape)
    return replace(tensor, shape=inner if None not in shape[1:] else (None, *shape[1:]), features=None)


def _merged(name: str, last: str, tensors: list[Tensor], given: Arguments) -> SourceValue:
    kind = _MERGES[last]
    default = known_constant(0 if last == "concatenate" and name.startswith("numpy.") else -1)
    axis = given.keywords.get("axis") or (given.args[1] if len(given.args) > 1 and kind == "Concatenate" else default)
    config = {"axis": axis.value if isinstance(axis, Known) else ...} if kind == "Concatenate" else {}
    if kind == "Dot":
        config = {"axes": ...}
    shape = output_shape(kind, config, [t.shape for t in tensors]) if len(tensors) > 1 else None
    both = tensors[0]
    for tensor in tensors[1:]:
        both = either(both, tensor)
    if kind == "Concatenate" and isinstance(axis, Known) and axis.value == 0:
        return replace(both, shape=joined(tensors), features=None)
    if kind == "Concatenate":  # its features are no single layer's
        return Tensor(shape, None, (), both.symbolic, both.fresh)
    return replace(both, shape=shape)


def _filled(name: str, last: str, given: Arguments, node: ast.Call) -> SourceValue:
    """A tensor of a given shape; its first dimension is no promise of a batch."""
    told = given.keywords.get("shape") or given.first
    shape = shape_from(told) if told is not None else None
    if name in ("numpy.random.rand", "numpy.random.randn"):
        shape = shape_from(Items(given.args))
    elif last not in _FILLED or (isinstance(told, Known) and not isinstance(told.value, tuple)):
        return Unknown(f"is the result of {unparsed(node.func)}()")
    return Tensor((None, *shape[1:]) if shape else None, None, (), False, True)
