"""The proof of a fix: the edited file is read again, and nothing but what was wanted may differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tcprobe.audit.fix.source.text import edited, sound
from tcprobe.audit.fix.wants import NotCertain, Want
from tcprobe.errors import InputError
from tcprobe.schema.finding import Edit
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.op import Shape
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

Read: TypeAlias = "Callable[[Source], list[Model]]"


def check(source: Source, edits: Iterable[Edit], wants: Iterable[Want], read: Read) -> None:
    """See that an edited file parses, and that all its calls and models are the same but for what was wanted.

    Args:
        source: the file.
        edits: of numbers in it.
        wants: arguments of calls in it, each of which is a literal or a name.
        read: returns the models that a file constructs.

    Raises:
        NotCertain: not so.
    """
    own, wanted = list(edits), {want.place: want for want in wants}
    text = edited(source.text, own, source.path)
    if not sound(source.text, text, own):
        raise NotCertain(say("unproven"))
    after = source.edited(text)
    try:
        same = _same_calls(source, after, wanted) and _same_models(read(source), read(after), wanted)
    except InputError:  # it makes more than can be followed
        same = False
    if not same:
        raise NotCertain(say("unproven"))


def _same_calls(before: Source, after: Source, wanted: dict[Place, Want]) -> bool:
    """Say whether every argument of every call has the values that it had, or the one wanted."""
    for old, new in itertools.zip_longest(before.calls(), after.calls()):
        if old is None or new is None or old.arguments.keys() != new.arguments.keys():
            return False
        for name, argument in old.arguments.items():
            want = wanted.get(argument.place)
            values = [_value(known.value, want) for known in before.alternatives(argument.node)]
            if values != [known.value for known in after.alternatives(new.arguments[name].node)]:
                return False
    return True


def _same_models(before: Sequence[Model], after: Sequence[Model], wanted: dict[Place, Want]) -> bool:
    """Say whether models have the same layers and products, and nothing known has become unknown."""
    return [_model(model, wanted) for model in before] == [_model(model, {}) for model in after]


def _model(model: Model, wanted: dict[Place, Want]) -> tuple[object, ...]:
    products = [
        (p.layer, p.op, p.calls, p.inputs_from, p.record.op_type, *map(_known, p.record.input_shapes))
        for p in model.products
    ]
    return [_layer(layer, wanted) for layer in model.layers], products, [(u.what, u.reason) for u in model.unseen]


def _layer(layer: Layer, wanted: dict[Place, Want]) -> tuple[object, ...]:
    """Return what must stay of a layer: all but its sizes, with the settings that are wanted in place of its own."""
    places = layer.arguments
    config = {k: _value(v, wanted.get(places[k]) if k in places else None) for k, v in layer.config.items()}
    shapes = [_known(shape) for shape in (*layer.input_shapes, layer.output_shape)]
    kinds = layer.name, layer.kind, layer.class_name, layer.dtype, layer.variable_dtype, layer.trainable
    return *kinds, layer.calls, layer.inputs_from, layer.also_from, layer.is_first, layer.is_last, repr(config), shapes


def _known(shape: Shape | None) -> tuple[bool, ...] | None:
    return None if shape is None else tuple(size is not None for size in shape)


def _value(value: Any, want: Want | None) -> Any:
    """Return the value that an argument must have."""
    return want.new if want is not None and type(value) is int and value == want.old else value
