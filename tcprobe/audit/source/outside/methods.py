"""Methods of what is not the user's: lists, dictionaries, texts, options, arrays, models."""

from __future__ import annotations

import ast
from typing import Final, TypeAlias

from tcprobe.audit.source.arrays.datasets import inputs_of, of_data_set
from tcprobe.audit.source.arrays.methods import array_method
from tcprobe.audit.source.outside.models import Models
from tcprobe.audit.source.outside.options import method
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.containers import CHANGING, of_dictionary, of_list, of_text
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Bound,
    CommandLine,
    DataSet,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.known import shape_from, tensors_of
from tcprobe.audit.source.values.parts import result_of
from tcprobe.audit.source.values.several import shaken, through
from tcprobe.source.values import Known, derived

_FITS: Final = ("fit", "evaluate", "train_on_batch")
_Model: TypeAlias = Stack | Graph | Instance | Draft


class Methods:
    """Follows calls of methods that are not the user's."""

    def __init__(self, state: State, models: Models) -> None:
        self._state = state
        self._models = models

    def call(self, bound: Bound, given: Arguments, node: ast.Call) -> SourceValue:
        """Return the result of a method."""
        of, name, args = bound.target, bound.name, given.args
        if name in CHANGING and (self._state.conditions or self._state.doubts):
            shaken(of, "is changed under a condition")
        if name == "as_list" and isinstance(of, Items):
            return of
        if isinstance(of, DataSet):
            return of_data_set(of, name)
        if isinstance(of, Items):
            return through(of_list(of, name, args), [of])
        if isinstance(of, Entries):
            return through(of_dictionary(of, name, args, given.keywords), [of])
        if isinstance(of, _Model):
            return self._of_model(of, name, given, node)
        if isinstance(of, Known) and isinstance(of.value, str) and (text := of_text(of.value, name, args)) is not None:
            return derived(text, [of, *(a for a in args if isinstance(a, Known))], node)
        if isinstance(of, CommandLine):
            return method(of, name, args, given.keywords, not self._state.conditions)
        if isinstance(of, Tensor) and (made := array_method(of, name, given, node)) is not None:
            return made
        return result_of(node, tensors_of(of) + [t for a in args for t in tensors_of(a)])

    def _of_model(self, of: _Model, name: str, given: Arguments, node: ast.Call) -> SourceValue:
        args = given.args
        if isinstance(of, Stack) and name == "add" and args:
            self._models.add(of, args[0])
        elif name == "build" and not isinstance(of, Graph):
            self._build(of, given.get(0, "input_shape"), node)
        elif isinstance(of, Instance) and name == "add_weight":
            return _weight(given)
        elif name in ("call", "__call__", "predict", "predict_on_batch"):
            inputs = args[:1] if name not in ("call", "__call__") else args
            return self._models.apply(of, inputs, node)
        elif name in _FITS and (fed := inputs_of(given.get(0, "x"))) is not None and tensors_of(fed):
            self._models.apply(of, [fed], node)  # its shape builds a model that has none yet
        elif name == "get_layer" and isinstance(of, Stack | Graph):
            return self._named_layer(given.get(0, "name"))
        return (
            known_constant(None)
            if name in ("add", "build", "compile", "summary")
            else Unknown(f"is the result of {name}()")
        )

    def _build(self, of: _Model, given: SourceValue | None, node: ast.Call) -> None:
        shape = shape_from(given) if given is not None else None
        fed = Tensor((None, *shape[1:]) if shape else None, None, (), not isinstance(of, Stack), True)
        self._models.apply(of, [fed], node)

    def _named_layer(self, wanted: SourceValue | None) -> SourceValue:
        name = wanted.value if isinstance(wanted, Known) else None
        found = [draft for draft in self._state.layers.drafts if draft.name == name]
        return found[0] if len(found) == 1 else Unknown("is the result of get_layer()")


def _weight(given: Arguments) -> Tensor:
    """Return a weight of a layer's own: Keras 3 takes its shape first, Keras 2 behind its name."""
    named = isinstance(given.first, Known) and isinstance(given.first.value, str)
    told = given.get(1 if named else 0, "shape")
    return Tensor(shape_from(told) if told is not None else None, None, (), False, False, None)
