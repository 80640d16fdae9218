"""Names of other modules, called: Keras' layers and models, precision policies, options, functions."""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.source.outside.builtins import builtin
from tcprobe.audit.source.outside.models import Models
from tcprobe.audit.source.outside.options import define, is_definition, is_parser
from tcprobe.audit.source.outside.products import note_call
from tcprobe.audit.source.outside.records import record
from tcprobe.audit.source.outside.tensors import of_tensors
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.computed import FUNCTIONS
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Bound,
    CommandLine,
    Graph,
    Instance,
    Items,
    Keywords,
    Named,
    Routine,
    SourceValue,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.known import items_of, tensors_of
from tcprobe.audit.source.values.operators import computed
from tcprobe.audit.source.values.parts import result_of
from tcprobe.keras.names import canonical_name, layer_class, positional
from tcprobe.source.values import Doubt, Known, derived

_POLICY: Final = ("set_global_policy", "set_dtype_policy", "set_policy", "set_global_dtype_policy", "set_floatx")
_SAME_FUNCTION: Final = ("tensorflow.function", "jax.jit")
_HELPERS: Final = ("functools.partial", "copy.copy", "copy.deepcopy")
_CONFIGURED: Final = Doubt("image_data_format() is what Keras' configuration file says", hidden=True)
_IMAGE_SHAPE: Final = ("imagenet_utils.obtain_input_shape", "imagenet_utils._obtain_input_shape")
_COLORS: Final = 3
_OF_TENSORS: Final = ("tensorflow", "keras", "numpy", "jax")


class Modules:
    """Follows calls of functions and classes of other modules, and of builtins."""

    def __init__(self, state: State, models: Models) -> None:
        self._state = state
        self._models = models

    def call(self, name: str, given: Arguments, node: ast.Call) -> SourceValue:
        """Return the result of a function or class, by its name as imported."""
        if name.startswith("builtins."):
            return builtin(self._state, name.removeprefix("builtins."), given, node)
        imported, name = name, canonical_name(name)
        if name.startswith("keras."):
            made = self._of_keras(name, _by_name(imported, given), given, node)
            if made is not None:
                return made
        if name.endswith(_IMAGE_SHAPE):
            return _image_shape(given, node)
        made = self._of_options(name, given) or record(name, given, node) or _of_functions(name, given)
        return made or _of_any(self._state, name, given, node)

    def _of_keras(self, name: str, values: Keywords, given: Arguments, node: ast.Call) -> SourceValue | None:
        """Return what a name of Keras' constructs or sets; None where it does neither."""
        last = name.rpartition(".")[2]
        kind = layer_class(name)
        if name == "keras.Input" or kind == "InputLayer":
            return self._models.make_input(values, node)
        if kind is not None:
            call = self._state.here.call_of(node)
            return self._state.layers.make(kind, call, values, self._state.policy, given.lacking)
        if name == "keras.Sequential":
            return self._models.make_stack(values, node)
        if name == "keras.Model":
            return self._graph(values)
        if last in _POLICY:
            return self._set_policy(values.get("policy") or values.get("value"))
        if last == "image_data_format":
            return self._layout(node)
        if name.startswith("keras.applications.") and last[:1].isupper():
            self._state.miss(node, last, "a ready-made model, known only by running it")
            return Unknown(f"is the result of {last}, whose layers are not in this file")
        return None

    def _graph(self, values: Keywords) -> SourceValue:
        if "inputs" not in values or "outputs" not in values:
            return Unknown("is a model whose inputs and outputs are not known")
        graph = Graph(values["inputs"], values["outputs"])
        self._state.graphs.append(graph)
        return graph

    def _layout(self, node: ast.Call) -> SourceValue:
        """Return the layout of images: Keras' own, where the file sets no other."""
        if any(call.name.endswith("set_image_data_format") for call in self._state.source.calls()):
            return Unknown("the layout of images is set in the file")
        return known_constant("channels_last", node).doubted(_CONFIGURED)

    def _set_policy(self, value: SourceValue | None) -> SourceValue:
        policy = value.value if isinstance(value, Known) else None
        self._state.set_policy(policy if isinstance(policy, str) else None)
        return known_constant(None)

    def _of_options(self, name: str, given: Arguments) -> SourceValue | None:
        """Return what a name of argparse or absl makes; None for any other."""
        if is_parser(name):
            return CommandLine({})
        if is_definition(name):
            return define(self._state.flags, given.args, given.keywords, not self._state.conditions)
        return None


def _by_name(name: str, given: Arguments) -> Keywords:
    """Return what a call passes by name, as the function names it."""
    names = positional(name)
    args = {names[i] if i < len(names) else str(i): value for i, value in enumerate(given.args)}
    return {**args, **given.keywords}


def _of_functions(name: str, given: Arguments) -> SourceValue | None:
    """Return what hands on what it is given, a function as a rule; None for any other name."""
    if name.rpartition(".")[2] in ("Policy", "DTypePolicy") and given.args:
        return given.args[0]
    if name in _SAME_FUNCTION and isinstance(given.first, Routine | Bound | Instance):
        return given.first
    if name not in _HELPERS:
        return None
    if given.first is None:
        return Unknown(f"is the result of {name}()")
    if name != "functools.partial":
        return given.first if isinstance(given.first, Known | Named) else Unknown("is a copy")
    return Bound(given.first, "partial", given.args[1:], given.keywords)


def _image_shape(given: Arguments, node: ast.Call) -> SourceValue:
    """Return the input shape of a ready-made model of Keras': the one given, else the default of a model with a head.

    Source: obtain_input_shape of keras/src/applications/imagenet_utils.py; where it raises, what the caller gave.
    """
    shape, size, flat = given.get(0, "input_shape"), given.get(1, "default_size"), given.get(4, "require_flatten")
    layout = given.get(3, "data_format")
    if shape is not None and items_of(shape):
        return shape
    lacks = isinstance(shape, Known) and not shape.value
    last = isinstance(layout, Known) and layout.value in (None, "channels_last")
    if not (lacks and last and isinstance(size, Known) and isinstance(flat, Known)):
        return Unknown("is an input shape whose default is not known")
    parts = [value for value in (shape, size, flat, layout) if isinstance(value, Known)]
    side = size.value if flat.value else None
    return Items([derived(known, parts, node) for known in (side, side, _COLORS)])


def _of_any(state: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    if name in FUNCTIONS and not given.keywords and not any(tensors_of(value) for value in given.args):
        return computed(name, given.args, node)
    if name.partition(".")[0] in _OF_TENSORS:
        note_call(state, name, given, node)
        return of_tensors(state, name, given, node)
    return result_of(node, [t for value in given.all for t in tensors_of(value)])
