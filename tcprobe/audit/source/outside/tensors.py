"""Functions of TensorFlow, Keras and NumPy on tensors: what they make of shapes."""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.source.arrays.datasets import data_set, made_data_set
from tcprobe.audit.source.arrays.functions import array_function
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import Arguments, Named, SourceValue, Tensor, Unknown
from tcprobe.audit.source.values.known import tensors_of
from tcprobe.audit.source.values.parts import unparsed
from tcprobe.keras.catalogue import LAYER_CLASSES

_MERGES: Final = {row.name.lower(): row.name for row in LAYER_CLASSES if row.kind == "merging"}
"""Functions of `keras.layers` that merge tensors, and the class that does the same."""
_GENERATORS: Final = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")


def of_tensors(state: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a function of a module that computes with tensors."""
    last = name.rpartition(".")[2]
    tensors = [t for value in given.all for t in tensors_of(value)]
    if tensors and last in _MERGES and name.startswith("keras.layers."):
        values = {k: v for k, v in given.keywords.items() if not tensors_of(v)}
        made = state.layers.make(_MERGES[last], state.here.call_of(node), values, state.policy)
        return state.layers.apply(made, tensors)
    if name in _GENERATORS:  # its methods are the module's functions
        return Named("numpy.random")
    found = (
        data_set(name) or made_data_set(name, given) or (None if given.lacking else array_function(name, given, node))
    )
    if found is not None:
        return found
    if not tensors:
        return Unknown(f"is the result of {unparsed(node.func)}()")
    fresh = True if all(t.fresh for t in tensors) else False if any(t.fresh is False for t in tensors) else None
    return Tensor(None, None, (), any(t.symbolic for t in tensors), fresh)
